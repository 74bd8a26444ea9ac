"""Units as processes of this machine: each is a `scaler_cluster` of its own, or another command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence

from scaler_protocol.keys import KeyFileError, KeyOptions
from scaler_protocol.keys.places import FILE_VARIABLE
from scaler_protocol.process import PARENT_VARIABLE, secrets_for
from scaler_protocol.process.modules import TASK_DIRECTORY_VARIABLE, without_directory
from scaler_worker.core.deaths import describe_exit
from scaler_worker.manager.core import UnitEnded, UnitFound, UnitRuns
from scaler_worker.manager.service import Report

SCALER_CLUSTER = tuple(without_directory([sys.executable, "-m", "scaler_worker"]))
STOP_MARGIN_SECONDS = 10.0
"""Beyond the grace of its tasks. A cluster that was told to end kills its own workers before this is over."""
KILLED_SECONDS = 10.0
"""How long a killed process may take to vanish."""


class NativeBackend:
    """`arguments_of` gives the arguments of the command for a unit; one that was told to end is killed after
    `stop_seconds`."""

    def __init__(
        self,
        report: Report,
        arguments_of: Callable[[str], Sequence[str]],
        stop_seconds: float,
        command: Sequence[str] = SCALER_CLUSTER,
        secret_names: Sequence[str] = (),
        shares: Sequence[str] = (),
        *,
        address: str,
        keys: KeyOptions,
    ) -> None:
        """`secret_names`: the variables of the environment with secrets that the command needs itself. It gets no other
        secret of ours, because what it starts are tasks of users.

        `shares`: values of `--gpus`. Each process has one of them to itself, and starts when one is free. Empty: no
        process has the option."""
        self._report = report
        self._arguments_of = arguments_of
        self._stop_seconds = stop_seconds
        self._command = command
        self._secret_names = secret_names
        self._address = address
        self._keys = keys
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._free_shares: asyncio.Queue[str] | None = asyncio.Queue() if shares else None
        for share in shares:
            self._give_back(share)
        self._stopping: set[str] = set()

    async def find_units(self) -> list[UnitFound]:
        """None: workers of a manager on this machine end when it does."""
        return []

    def start(self, unit_id: str) -> None:
        self._tasks[unit_id] = asyncio.get_running_loop().create_task(self._run(unit_id))

    def stop(self, unit_id: str) -> None:
        self._stopping.add(unit_id)
        process = self._processes.get(unit_id)
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(self._stop_seconds, self._kill, process)

    async def close(self) -> None:
        for process in self._processes.values():
            self._kill(process)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=KILLED_SECONDS)

    async def _run(self, unit_id: str) -> None:
        """From the start of a unit to its end, which is told exactly once."""
        share = await self._free_shares.get() if self._free_shares is not None else ""
        text = "" if unit_id in self._stopping else await self._run_process(unit_id, share)
        self._give_back(share)
        self._processes.pop(unit_id, None)
        self._tasks.pop(unit_id, None)
        self._stopping.discard(unit_id)
        self._report(UnitEnded(unit_id, text))

    def _give_back(self, share: str) -> None:
        if self._free_shares is not None:
            self._free_shares.put_nowait(share)

    async def _run_process(self, unit_id: str, share: str) -> str:
        """Why it ended, if that is a reason to be careful with the next one."""
        gpus = [f"--gpus={share}"] if share else []
        try:
            with self._keys.for_worker(self._address) as (key_arguments, descriptors):
                process = await asyncio.create_subprocess_exec(
                    *self._command, *key_arguments, *self._arguments_of(unit_id), *gpus,
                    stdin=asyncio.subprocess.DEVNULL,
                    # A Ctrl-C is the manager's to handle: a second signal would end their grace.
                    start_new_session=True,
                    env={**_environment(), **secrets_for(*self._secret_names), PARENT_VARIABLE: str(os.getpid())},
                    pass_fds=descriptors,
                )  # fmt: skip
        except (OSError, KeyFileError) as error:
            return f"cannot start a process: {error}"
        self._processes[unit_id] = process
        self._report(UnitRuns(unit_id, f"process {process.pid}"))
        if unit_id in self._stopping:
            self.stop(unit_id)  # it was given up while it started
        code = await process.wait()
        return f"its process {describe_exit(code)}" if code else ""

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.kill()


def _environment() -> dict[str, str]:
    """Ours, without the name of our own key file: workers have a ticket."""
    others = {name: value for name, value in os.environ.items() if name != FILE_VARIABLE}
    return {**others, TASK_DIRECTORY_VARIABLE: os.getcwd()}
