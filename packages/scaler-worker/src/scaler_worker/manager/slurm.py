"""Units as jobs of Slurm, by its own commands: sbatch, squeue, scancel.

A job is found again by its name, `scaler-MANAGER-UNIT`, also by the next life of the manager. Slurm puts a job whose
node was lost back into its queue, and its workers then come again elsewhere, so a unit may wait once more after it ran.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scaler_protocol.errors import ScalerError
from scaler_protocol.ids import PeerId
from scaler_protocol.process.modules import TASK_DIRECTORY_VARIABLE, without_directory
from scaler_worker.manager.core import UnitEnded, UnitFound, UnitRuns
from scaler_worker.manager.service import Report

logger = logging.getLogger("scaler.manager")

POLL_SECONDS = 2.0
COMMAND_SECONDS = 60.0
"""A controller that is overloaded, or fails over, may need as long."""
CONTROLLER_SECONDS = 30.0
"""What a job needs to end and to be seen to have ended, besides the time that its workers take."""
AT_ONCE = 4
"""So many commands run at the same time, however many units start."""

RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"})
WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
LISTING_FORMAT = "%i|%T|%N|%j"


class SlurmError(ScalerError):
    """What a command of Slurm had to say, in one line."""


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    partition: str = ""
    log_directory: str = "."
    further: tuple[str, ...] = ()  #: options of sbatch, as they are
    python: str = sys.executable  #: on the nodes


@dataclass(slots=True)
class _Job:
    job_id: str = ""  #: empty until sbatch has answered
    is_running: bool = False
    has_run: bool = False  #: and was said to; one whose node was lost waits again
    is_stopping: bool = False
    is_told: bool = False  #: to end, and Slurm has understood


@dataclass(frozen=True, slots=True)
class _Line:
    job_id: str
    state: str
    node: str


class SlurmBackend:
    """`arguments_of` gives the arguments of `scaler_cluster` for a unit."""

    def __init__(
        self, report: Report, manager_id: PeerId, options: SlurmOptions, arguments_of: Callable[[str], Sequence[str]]
    ) -> None:
        self._report = report
        self._prefix = f"scaler-{manager_id.hex()}-"
        self._options = options
        self._arguments_of = arguments_of
        self._jobs: dict[str, _Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._said = ""

    async def find_units(self) -> list[UnitFound]:
        """From now on it is looked what has become of them. Raises SlurmError."""
        found = []
        for unit_id, line in (await self._listed()).items():
            self._jobs[unit_id] = _Job(line.job_id, line.state in RUNNING, has_run=True)
            found.append(UnitFound(unit_id, _place(line)))
        self._spawn(self._poll())
        return found

    def start(self, unit_id: str) -> None:
        self._jobs[unit_id] = _Job()
        self._spawn(self._submit(unit_id))

    def stop(self, unit_id: str) -> None:
        job = self._jobs.get(unit_id)
        if job is not None:
            job.is_stopping = True
            if job.job_id:
                self._spawn(self._end(job))

    async def close(self) -> None:
        """One command for all jobs, and behind no other: a controller that is silent is waited for once."""
        job_ids = [job.job_id for job in self._jobs.values() if job.job_id]
        if job_ids:
            try:
                await _output_of("scancel", *job_ids)
            except SlurmError as error:
                logger.warning("WorkerManager: %s", error)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------ what Slurm is asked

    async def _submit(self, unit_id: str) -> None:
        options = self._options
        log = str(Path(options.log_directory).absolute() / f"{self._prefix}{unit_id}.log")
        command = ["sbatch", "--parsable", "--requeue", "--job-name", self._prefix + unit_id, "--output", log]
        if options.partition:
            command += ["--partition", options.partition]
        worker = [options.python, "-m", "scaler_worker", *self._arguments_of(unit_id)]
        command_line = shlex.join(without_directory(worker, is_any_version=True))
        # exec: signals for the job are the worker's own.
        script = f'#!/bin/sh\n{TASK_DIRECTORY_VARIABLE}="$PWD" exec {command_line}\n'
        try:
            answer = await self._run(*command, *options.further, stdin=script)
        except SlurmError as error:
            del self._jobs[unit_id]
            self._report(UnitEnded(unit_id, str(error)))
            return
        job = self._jobs[unit_id]
        job.job_id = answer.strip().partition(";")[0]
        if job.is_stopping:
            await self._end(job)

    async def _end(self, job: _Job) -> None:
        """A job that runs is drained: the cluster command alone is signalled, once, and has all the grace it was given.
        A plain scancel would signal the workers' own processes too, and kill them all after Slurm's KillWait."""
        if job.is_running:
            job.is_told = await self._cancel(job, "--batch", "--signal=TERM")
        else:
            await self._cancel(job, "--state=PENDING")  # if it has begun meanwhile, the next look will see that

    async def _cancel(self, job: _Job, *options: str) -> bool:
        """False when Slurm cannot: it is told again at the next look."""
        try:
            await self._run("scancel", *options, job.job_id)
        except SlurmError as error:
            logger.warning("WorkerManager: %s", error)
            return False
        return True

    async def _listed(self) -> dict[str, _Line]:
        """Jobs of ours that have not ended, by unit."""
        text = await self._run("squeue", "--me", "--noheader", "--format", LISTING_FORMAT)
        listed = {}
        for line in text.splitlines():
            if line.count("|") < LISTING_FORMAT.count("|"):
                raise SlurmError(f"squeue printed what is no job: {line[:200]!r}")
            job_id, state, node, name = line.split("|", 3)
            if name.startswith(self._prefix) and state in RUNNING | WAITING:
                listed[name.removeprefix(self._prefix)] = _Line(job_id, state, node)
        return listed

    async def _run(self, *command: str, stdin: str = "") -> str:
        """What it printed, when it is its turn. Raises SlurmError."""
        async with self._places:
            return await _output_of(*command, stdin=stdin)

    # ------------------------------------------------------------ what has become of the jobs

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            submitted = {unit_id for unit_id, job in self._jobs.items() if job.job_id}
            try:
                listed = await self._listed()
            except SlurmError as error:
                self._say(str(error))  # nothing is known, so nothing has ended
                continue
            self._say("")
            for unit_id in submitted:
                self._compare(unit_id, self._jobs[unit_id], listed.get(unit_id))

    def _compare(self, unit_id: str, job: _Job, line: _Line | None) -> None:
        if line is None:
            del self._jobs[unit_id]
            self._report(UnitEnded(unit_id, "" if job.is_stopping else f"job {job.job_id} ended by itself"))
            return
        job.is_running = line.state in RUNNING
        job.is_told = job.is_told and job.is_running
        if job.is_stopping and not job.is_told:
            self._spawn(self._end(job))
        elif job.is_running and not job.has_run:
            job.has_run = True
            self._report(UnitRuns(unit_id, _place(line)))

    def _say(self, text: str) -> None:
        if text and text != self._said:
            logger.warning("WorkerManager: %s; asking again every %g s", text, POLL_SECONDS)
        self._said = text

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _place(line: _Line) -> str:
    return f"job {line.job_id}" + (f" on {line.node}" if line.node else "")


async def _output_of(*command: str, stdin: str = "") -> str:
    """What the command printed. Raises SlurmError when it fails, or takes longer than COMMAND_SECONDS. It has ended in
    any case, also when it is waited for no more."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise SlurmError(f"cannot run {command[0]}: {error.strerror}; is Slurm installed here?") from None
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), COMMAND_SECONDS)
    except asyncio.TimeoutError:
        raise SlurmError(f"{command[0]} did not end within {COMMAND_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        reason = " ".join(err.decode(errors="replace").split())[:300]
        raise SlurmError(f"{command[0]} ended with code {process.returncode}: {reason}")
    return out.decode(errors="replace")
