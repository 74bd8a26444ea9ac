import itertools

from scaler import Client, SchedulerClusterCombo


def squared(number):
    return number * number


with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster) as client:
    numbers = itertools.count()  # without end
    for square in client.imap(squared, numbers, window=100):
        if square > 1_000:
            print("the first square above 1,000 is", square)
            break
    print("as they come:", sorted(client.imap(squared, range(5), ordered=False)))
