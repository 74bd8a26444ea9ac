import sys

from tqdm import tqdm

import scaler


def square(number):
    return number * number


with scaler.local(workers=2) as client:
    # `imap` gives each result when it is there, so the bar moves while the tasks run.
    squares = list(tqdm(client.imap(square, range(100)), total=100, file=sys.stderr))

print(sum(squares))
