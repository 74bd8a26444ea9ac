"""Which GPUs of this host the tasks of each worker see (`--gpus`).

The libraries of NVIDIA and AMD show a process the devices that a variable of its environment names. The workers of a
host share its devices out: none belongs to two workers. A processor gets those of its first task before that task
begins (`core/devices.py`), so all that a task imports sees them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

AUTO = "auto"
NVIDIA = "CUDA_VISIBLE_DEVICES"
AMD = "ROCR_VISIBLE_DEVICES"
_HIP = "HIP_VISIBLE_DEVICES"
NONE_FOUND = "--gpus %s: no GPU was found on this host, so no worker offers one"
"""A warning, because tasks that ask for one wait until another host brings it."""

_ID = re.compile(r"[A-Za-z0-9_:/-]{1,100}")
_NVIDIA_DEVICE = re.compile(r"nvidia(\d+)")


class Gpus(NamedTuple):
    variable: str  #: that shows a process its devices
    ids: tuple[str, ...]

    def of_worker(self, index: int, count: int) -> tuple[str, ...]:
        """Of so many workers, this one's."""
        return self.ids[index::count]

    def environment(self, ids: Sequence[str]) -> dict[str, str]:
        """Of a process that is to see these devices only. HIP numbers the devices that AMD's lower layer shows it, so a
        selection of HIP's own, which a batch system may have made, would be one of other devices."""
        hip = {_HIP: ",".join(str(number) for number in range(len(ids)))} if self.variable == AMD else {}
        return {self.variable: ",".join(ids), **hip}


def parse_gpus(text: str) -> str:
    """`auto`, or ids of devices, comma separated. ValueError for anything else."""
    ids = text.split(",")
    if text != AUTO and (len(set(ids)) < len(ids) or not all(_ID.fullmatch(one) for one in ids)):
        raise ValueError(f"{text!r}: say auto, or name devices, each once, such as 0,1")
    return text


def find_gpus(wanted: str, environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Gpus:
    """What an operator names, or, for `auto`, what a batch system has given this process, else what the host has."""
    variable = AMD if not _nvidia_ids(root) and _amd_ids(root) else NVIDIA
    if wanted != AUTO:
        return Gpus(variable, tuple(wanted.split(",")))
    given = environment.get(variable)
    if given is not None:
        return Gpus(variable, tuple(one for one in given.split(",") if _ID.fullmatch(one) and one != "-1"))
    return Gpus(variable, _nvidia_ids(root) or _amd_ids(root))


def _nvidia_ids(root: Path) -> tuple[str, ...]:
    found = (_NVIDIA_DEVICE.fullmatch(path.name) for path in root.glob("dev/nvidia*"))
    return tuple(map(str, sorted(int(one[1]) for one in found if one)))


def _amd_ids(root: Path) -> tuple[str, ...]:
    """The nodes of AMD's driver; processors among them have no id of a GPU."""
    nodes = [path for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id") if _is_gpu(path)]
    return tuple(str(number) for number in range(len(nodes)))


def _is_gpu(path: Path) -> bool:
    try:
        return path.read_text().strip() not in ("", "0")
    except OSError:
        return False  # not ours to see
