import dask
import dask.bag

from scaler import Client, SchedulerClusterCombo


@dask.delayed
def increment(number):
    return number + 1


@dask.delayed
def add(left, right):
    return left + right


cluster = SchedulerClusterCombo(n_workers=2, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    # A client is a scheduler of Dask's: pass it, or its get, wherever Dask takes one.
    answer = add(increment(1), increment(2))
    print(dask.compute(answer, scheduler=client))

    with dask.config.set(scheduler=client):
        bag = dask.bag.from_sequence(range(100), npartitions=4)
        print(bag.map(lambda number: number % 7).frequencies().compute()[:2])

cluster.shutdown()
