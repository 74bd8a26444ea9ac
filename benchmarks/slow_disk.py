"""A file system on a disk of known rate: a loop device that the kernel throttles. Linux, as root, with the blkio
controller of cgroup version 1; nothing but this device is throttled."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 1 << 20
_THROTTLES = [Path(f"/sys/fs/cgroup/blkio/blkio.throttle.{way}_bps_device") for way in ("read", "write")]


@contextmanager
def slow_disk(directory: str, mib: int, mib_per_second: int) -> Iterator[str]:
    """The mount point of a disk with room for so much; its image is a file in the directory."""
    if os.geteuid() or not all(path.exists() for path in _THROTTLES):
        sys.exit("a disk of known rate needs root and the blkio controller of cgroup version 1: leave the option out")
    with tempfile.TemporaryDirectory(dir=directory, prefix="disk-") as place:
        image, mounted = Path(place) / "image", Path(place) / "mounted"
        mounted.mkdir()
        with image.open("wb") as file:
            file.truncate(mib * MIB)
        loop = _output("losetup", "--find", "--show", str(image))
        number = Path("/sys/block", Path(loop).name, "dev").read_text().strip()
        try:
            _output("mkfs.ext4", "-q", loop)
            _output("mount", loop, str(mounted))
            try:
                _throttle(number, mib_per_second * MIB)
                yield str(mounted)
            finally:
                _throttle(number, 0)
                _output("umount", str(mounted))
        finally:
            _output("losetup", "--detach", loop)


def _throttle(number: str, bytes_per_second: int) -> None:
    """Zero: no longer."""
    for path in _THROTTLES:
        path.write_text(f"{number} {bytes_per_second}")


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
