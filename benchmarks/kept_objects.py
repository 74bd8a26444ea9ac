"""`python -m benchmarks.kept_objects`: how long does a storage take to start with many objects of before, and with how
much memory?

The objects are written into a data directory as the storage writes them, in batches of 1,024; then a storage is started
with it. Memory is what its process has alone, after it listens.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import psutil

from scaler_protocol.ids import PeerId, new_object_id, new_peer_id
from scaler_protocol.process.ports import free_ports
from scaler_storage.core import Keep
from scaler_storage.core.values import StoredValue
from scaler_storage.data_directory import DataDirectory

BATCH = 1_024
OWNERS = 100


def write(path: str, count: int, size: int) -> float:
    """Seconds for so many objects of so many bytes."""
    owners = [new_peer_id() for _ in range(OWNERS)]
    directory = DataDirectory(path)
    began_at = time.perf_counter()
    for begin in range(0, count, BATCH):
        kept = directory.keep(batch(owners, begin, min(BATCH, count - begin), size))
        assert not isinstance(kept.files, str) and not kept.trouble, kept
    seconds = time.perf_counter() - began_at
    directory.close()
    return seconds


def batch(owners: Sequence[PeerId], begin: int, count: int, size: int) -> Keep:
    numbers = range(begin + 1, begin + 1 + count)
    values = []
    for number in numbers:
        value = StoredValue(size)
        value.append(number.to_bytes(8, "little").ljust(size, b"."))
        values.append((number, value))
    objects = [(new_object_id(), number) for number in numbers]
    named = [(one, owners[number % OWNERS]) for one, number in objects]
    return Keep(
        begin, tuple(values), tuple(objects), tuple((one, owner, bytes(owner)) for one, owner in named), (), (), ()
    )


def start(path: str) -> tuple[float, int]:
    """Seconds until a storage listens, and its own bytes then."""
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    command = [sys.executable, "-m", "scaler_storage", address, "--insecure", "--data-directory", path]
    began_at = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "listen to" in line:
                break
        seconds, memory = time.perf_counter() - began_at, int(psutil.Process(process.pid).memory_info().rss)
        process.terminate()
    return seconds, memory


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kept_objects", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--bytes", type=int, default=64, help="of each (default: %(default)s)")
    parser.add_argument("--directory", default=".", help="on the disk to be measured (default: here)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="kept-") as path:
        empty_seconds, empty_bytes = start(os.path.join(path, "empty"))
        full = os.path.join(path, "full")
        seconds = write(full, options.objects, options.bytes)
        print(
            f"{options.objects:,} objects of {options.bytes} bytes written: {options.objects / seconds:,.0f} a second"
        )
        for _ in range(2):
            began, memory = start(full)
            each = (memory - empty_bytes) / options.objects
            print(
                f"started in {began:.1f} s ({empty_seconds:.1f} s without objects), {memory / 2**20:,.0f} MiB "
                f"({empty_bytes / 2**20:,.0f}), {each:,.0f} bytes an object"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
