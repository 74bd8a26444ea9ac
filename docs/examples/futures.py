import asyncio
import concurrent.futures

from scaler import Client, SchedulerClusterCombo


def area(width, height=1):
    return width * height


async def within_asyncio(client):
    first = client.submit(area, 6, height=7)
    others = [client.submit(area, number) for number in range(3)]
    return await first, await asyncio.gather(*others)


cluster = SchedulerClusterCombo(n_workers=2, logging_level="WARNING")

with Client(address=cluster.get_address()) as client:
    # A client is an Executor, and its futures are the standard library's.
    assert isinstance(client, concurrent.futures.Executor)
    futures = [client.submit(area, number) for number in range(10)]
    print(sum(future.result() for future in concurrent.futures.as_completed(futures)))

    print(asyncio.run(within_asyncio(client)))

    # A future may be an argument: the task runs when the other has ended, and gets its value.
    width = client.submit(area, 2, 3)
    print(client.submit(area, width, 10).result())

cluster.shutdown()
