"""What a worker says of itself every heartbeat (WRK-12): for people and the monitor."""

from __future__ import annotations

import time
from itertools import islice

import psutil

from scaler_protocol.codec.bounds import PROCESSORS_MAX
from scaler_protocol.messages import NO_TASK, ProcessorStatus, WorkerStatus
from scaler_worker.core import AgentCore
from scaler_worker.core.processors import Processor, State


class StatusReader:
    """Keeps one psutil handle for each process: shares of a core are measured from one call to the next."""

    def __init__(self) -> None:
        self._agent = psutil.Process()
        self._processors: dict[int, psutil.Process] = {}
        self._own: tuple[float, int] = (0.0, 0)  #: what was read last, for when no file can be opened
        self._host_bytes: tuple[int, int] = (0, 0)

    def read(self, core: AgentCore, lag_seconds: float, now: float) -> WorkerStatus:
        begun = (processor for processor in core.tables.processors.values() if processor.process_id)
        processors = tuple(map(self._processor, islice(begun, PROCESSORS_MAX)))
        alive = {processor.process_id for processor in processors}
        self._processors = {pid: handle for pid, handle in self._processors.items() if pid in alive}
        self._read_own()
        cpu, rss_bytes = self._own
        available_bytes, total_bytes = self._host_bytes
        sampler = core.tables.sampler
        ended_count, samples = sampler.take(now) if sampler is not None else (0, b"")
        functions, function_buckets = core.tables.run_times.take()
        return WorkerStatus(
            agent_cpu=cpu,
            agent_rss_bytes=rss_bytes,
            host_free_bytes=available_bytes,
            queued_count=len(core.tables.queue) + len(core.tables.ahead.waiting),
            blocked_count=sum(p.is_waiting for p in core.tables.processors.values()),
            processors=processors,
            lag_seconds=lag_seconds,
            ended_count=ended_count,
            samples=samples,
            recycled_count=core.tables.recycled_count,
            limited_count=core.tables.limited_count,
            functions=functions,
            function_buckets=function_buckets,
            stack_samples=core.tables.stack_samples.take(),
            host_memory_bytes=total_bytes,
            trouble=core.tables.trouble,
        )

    def _read_own(self) -> None:
        try:
            self._own = _usage(self._agent)
            memory = psutil.virtual_memory()
            self._host_bytes = memory.available, memory.total
        except OSError:
            pass  # the limit of open files is reached: a status is a sign of life, and worth no end

    def _processor(self, processor: Processor) -> ProcessorStatus:
        handle = self._processors.get(processor.process_id)
        try:
            if handle is None:
                handle = self._processors[processor.process_id] = psutil.Process(processor.process_id)
            cpu, rss_bytes = _usage(handle)
        except (psutil.Error, OSError):
            cpu, rss_bytes = 0.0, 0  # it has exited, and we are about to hear of it, or no file can be opened
        state = State.BLOCKED if processor.state is State.RESUMING else processor.state
        # What it has not begun is no task of its own yet (WRK-66).
        first = None if processor.has_not_begun else processor.first
        task_id = first.id if first is not None else NO_TASK
        running_seconds = max(0.0, time.monotonic() - processor.first_since) if first is not None else 0.0
        state = State.IDLE if processor.has_not_begun else state
        return ProcessorStatus(processor.process_id, int(state), cpu, rss_bytes, task_id, running_seconds)


def process_text(process_id: int) -> str:
    """What the operating system tells of a process that does not answer, for people."""
    try:
        handle = psutil.Process(process_id)
        with handle.oneshot():
            times, told = handle.cpu_times(), f"its process {process_id} is {handle.status()}"
        seconds = times.user + times.system
    except OSError:
        return f"its process {process_id} cannot be looked at"
    except psutil.Error:
        return f"its process {process_id} has ended"
    place = _kernel_place(process_id)
    return f"{told}{f' in {place}' if place else ''}, and has used {seconds:.2f} s of processor time"


def _kernel_place(process_id: int) -> str:
    """Where in the kernel its main thread waits; empty when it does not, or where that is not told."""
    try:
        with open(f"/proc/{process_id}/wchan", encoding="ascii", errors="replace") as file:
            place = file.read(100)
    except OSError:
        return ""
    return "" if place == "0" else place


def _usage(handle: psutil.Process) -> tuple[float, int]:
    with handle.oneshot():
        return handle.cpu_percent(None) / 100, handle.memory_info().rss
