"""Three engines, started by their own commands as their documentation shows, and what of each is killed.

Only the standard library and the engine itself are imported: this runs in the interpreter of the engine.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 120.0


class Engine:
    #: What the words scheduler, worker and processor of the table are here.
    scheduler_is = worker_is = processor_is = ""
    version = ""

    def __init__(self, directory: Path, workers: int) -> None:
        self.directory = directory
        self.workers = workers
        self.port = free_port()
        self._commands: list[subprocess.Popen[bytes]] = []
        self._scheduler: subprocess.Popen[bytes]

    def start(self) -> None:
        """Afterwards a task can begin on each worker."""
        raise NotImplementedError

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        raise NotImplementedError

    def result(self, future: Any, seconds: float) -> Any:
        return future.result(seconds)

    def kill_scheduler(self) -> None:
        self._scheduler.kill()
        self._scheduler.wait()

    def start_scheduler(self) -> None:
        """Again, after `kill_scheduler`."""
        raise NotImplementedError

    def worker_of(self, processor: int) -> int:
        """The process id of the worker to which the process that runs a task belongs."""
        raise NotImplementedError

    def begin(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.directory / "output").open("ab") as output:
            begun = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
        self._commands.append(begun)
        return begun


class Scaler(Engine):
    scheduler_is, worker_is, processor_is = "scaler_scheduler", "a worker", "the process that runs the task"

    def start(self) -> None:
        from scaler import Client

        self._address = f"tcp://127.0.0.1:{self.port}"
        self.version = version("scaler-client")
        self.begin(script("scaler_object_storage_server"), f"tcp://127.0.0.1:{self.port + 1}", "--insecure")
        self.start_scheduler()
        self.begin(script("scaler_cluster"), self._address, "--num-of-workers", str(self.workers), "--insecure")
        self._client = Client(self._address, insecure=True)
        until(lambda: self._client.cluster_info().worker_count == self.workers, "the workers are there")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments)

    def start_scheduler(self) -> None:
        storage = f"tcp://127.0.0.1:{self.port + 1}"
        self._scheduler = self.begin(script("scaler_scheduler"), self._address, "-osa", storage, "--insecure")
        until_answers(self.port)

    def worker_of(self, processor: int) -> int:
        """Processors are forked from a warm process, which is the worker's own child."""
        return parent_of(parent_of(processor))


class Dask(Engine):
    scheduler_is, worker_is, processor_is = "dask scheduler", "its worker process", "its worker process"

    def start(self) -> None:
        from distributed import Client

        self._address = f"tcp://127.0.0.1:{self.port}"
        self.version = version("distributed")
        self.start_scheduler()
        options = ("--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard")
        self.begin(script("dask"), "worker", self._address, "--nworkers", str(self.workers), *options)
        self._client = Client(self._address)
        self._client.wait_for_workers(self.workers, timeout=LONGEST_SECONDS)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(function, *arguments, pure=False)

    def start_scheduler(self) -> None:
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        self._scheduler = self.begin(script("dask"), "scheduler", *options)
        until_answers(self.port)

    def worker_of(self, processor: int) -> int:
        """A worker runs its tasks on a thread of its own."""
        return processor


class Ray(Engine):
    """A head without places, and two nodes with half of the places each, so that the program outlives one of them."""

    scheduler_is, worker_is, processor_is = "gcs_server", "the raylet of one of two nodes", "the process of the task"

    def environment(self) -> dict[str, str]:
        """Of each process of the cluster, besides the program's own."""
        return {}

    def start(self) -> None:
        import ray

        self.version = version("ray")
        self._ray = ray
        os.environ.update(self.environment())
        common = ("--disable-usage-stats", "--object-store-memory", str(100 << 20))
        head = (f"--port={self.port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={self.directory}")
        subprocess.run([script("ray"), "start", "--head", *head, *common], check=True, stdout=sys.stderr)
        for places in (self.workers - self.workers // 2, self.workers // 2):
            line = [script("ray"), "start", f"--address=127.0.0.1:{self.port}", f"--num-cpus={places}", *common]
            subprocess.run(line, check=True, stdout=sys.stderr)
        ray.init(address=f"127.0.0.1:{self.port}", log_to_driver=False)
        until(lambda: ray.cluster_resources().get("CPU", 0) == self.workers, "the nodes are there")
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if function not in self._remote:
            self._remote[function] = self._ray.remote(function)
        return self._remote[function].remote(*arguments)

    def result(self, future: Any, seconds: float) -> Any:
        return self._ray.get(future, timeout=seconds)

    def kill_scheduler(self) -> None:
        """The command line and the environment are kept: what supervises it would start it with the same."""
        server = process_with("gcs_server", str(self.port))
        self._line = words_of(Path(f"/proc/{server}/cmdline"))
        pairs = (pair.partition("=") for pair in words_of(Path(f"/proc/{server}/environ")))
        self._environment = {name: value for name, _, value in pairs}
        os.kill(server, signal.SIGKILL)
        until(lambda: not is_alive(server), "it is gone")

    def start_scheduler(self) -> None:
        self.begin(*self._line, **self._environment)
        until_answers(self.port)

    def worker_of(self, processor: int) -> int:
        return parent_of(processor)


class RayWithDatabase(Ray):
    """The embedded database of its head, which is called alpha: the state of the cluster is in files."""

    scheduler_is = "gcs_server with RocksDB"

    def environment(self) -> dict[str, str]:
        return {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(self.directory / "gcs")}


ENGINES: dict[str, type[Engine]] = {"scaler": Scaler, "dask": Dask, "ray": Ray, "ray+rocksdb": RayWithDatabase}


# ------------------------------------------------------------ processes


def script(name: str) -> str:
    """A command of this interpreter's environment."""
    return str(Path(sys.executable).parent / name)


def free_port() -> int:
    """Below the range of ports that the system gives to connections; Scaler takes the next two as well."""
    for port in range(21000 + os.getpid() % 1000 * 10, 32000, 3):
        if not any(answers(port + more) for more in range(3)):
            return port
    raise OSError("no three ports in a row are free")


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def until_answers(port: int) -> None:
    until(lambda: answers(port), f"port {port} answers")


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"after {LONGEST_SECONDS:g} s it is not so that {what}")
        time.sleep(0.05)


def _status(process_id: int) -> list[str]:
    """State, parent, and so on; empty if there is no such process."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return []


def parent_of(process_id: int) -> int:
    return int(_status(process_id)[1])


def is_alive(process_id: int) -> bool:
    status = _status(process_id)
    return bool(status) and status[0] != "Z"


def words_of(path: Path) -> list[str]:
    return path.read_bytes().rstrip(b"\0").decode().split("\0")


def process_with(*words: str) -> int:
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                line = (one / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if all(word in line for word in words) and is_alive(int(one.name)):
                return int(one.name)
    raise LookupError(f"no process has {' and '.join(words)} in its command line")
