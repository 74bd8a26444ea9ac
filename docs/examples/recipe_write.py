import csv
import tempfile
from pathlib import Path

import scaler


def simulate(seed):
    return seed, seed * seed


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "results.csv"
    with scaler.local(workers=2) as client, path.open("w", newline="") as file:
        writer = csv.writer(file)
        # In the order in which the tasks end; `imap` reads at most `window` seeds ahead of what is written.
        for row in client.imap(simulate, range(1_000), ordered=False, window=100):
            writer.writerow(row)

    print(len(path.read_text().splitlines()), "rows")
