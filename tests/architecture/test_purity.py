"""Cores and sessions decide and do nothing else: time and randomness are arguments, sockets are somewhere else."""

from pathlib import Path

import pytest

from tests.architecture.sources import PARTS, imports, modules, relative

#: No input or output, no clock, no thread, no randomness, no process, no environment.
FORBIDDEN = {
    *("asyncio", "concurrent", "multiprocessing", "queue", "sched", "selectors", "signal", "subprocess", "threading"),
    *("io", "logging", "mmap", "os", "pathlib", "select", "shutil", "socket", "socketserver", "ssl", "sys", "tempfile"),
    *("datetime", "random", "secrets", "time", "uuid"),
    *("capnp", "cloudpickle", "ctypes", "fcntl", "pickle", "psutil", "uvloop", "zmq"),
}


def pure_modules() -> list[Path]:
    cores = [
        path for part in PARTS.values() for path in modules(part) if "core" in path.relative_to(part.source).parts[:-1]
    ]
    shared = [PARTS["protocol"].source / name for name in ("session", "holding")]
    return cores + sorted(path for folder in shared for path in folder.rglob("*.py"))


def test_there_are_cores_to_look_at() -> None:
    owners = {relative(path).split("/src/")[1].split("/")[0] for path in pure_modules()}
    assert owners >= {"scaler_protocol", "scaler", "scaler_scheduler", "scaler_worker", "scaler_storage"}


@pytest.mark.parametrize("path", pure_modules(), ids=relative)
def test_a_core_is_pure(path: Path) -> None:
    wrong = [found for found in imports(path) if found.top in FORBIDDEN]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("path", pure_modules(), ids=relative)
def test_a_core_uses_no_transport(path: Path) -> None:
    """The codec is allowed: it is a function from records to bytes and back."""
    outward = ("scaler_protocol.transport", "scaler_protocol.process", "scaler_protocol.objects")
    wrong = [found for found in imports(path) if found.module.startswith(outward)]
    assert not wrong, "\n".join(map(str, wrong))
