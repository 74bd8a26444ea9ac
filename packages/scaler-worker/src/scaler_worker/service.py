"""The agent's shell: one thread, one poller, no user code.

A round: wait until something can be read or is due, turn all of it into events, end the round, perform what the core
asks for. While a processor works through many short tasks it is not looked at for some milliseconds, so that
hundreds of results cost one wake-up and leave as one message; everything else is served at once.

The loop is the agent's own, and not the `BlockingDriver` of clients and object links. That driver lets threads of the
user borrow one socket and be interrupted in the middle of it. The agent has one thread, no user code, and many sources:
the scheduler's socket, a channel for each processor, the zygote, signals, and the rests between results.
"""

from __future__ import annotations

import logging
import math
import select
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from scaler_protocol import codec
from scaler_protocol.addresses import default_storage_address
from scaler_protocol.code_tag import CODE_TAG
from scaler_protocol.codes import BAD_BATCH, BAD_ENVELOPE, BAD_FRAMING, ROLE_WORKER, TOO_LARGE
from scaler_protocol.messages import Limits
from scaler_protocol.process import EXIT_BROKEN
from scaler_protocol.running.kept import KEPT_CELL, WANTED_CELL
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.session.handshake import why_no_scheduler
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.transport import DealerEndpoint, end_context, use_io_threads
from scaler_worker import channel
from scaler_worker.channel import SignalPage, channel_pair, pack_order
from scaler_worker.children import EXIT_DONE, EXIT_GIVEN_UP
from scaler_worker.code import Code
from scaler_worker.config import ClusterConfig
from scaler_worker.core import AgentCore, Settings, actions, events, recycling
from scaler_worker.core.deaths import fork_refused
from scaler_worker.core.processors import State
from scaler_worker.hello import worker_hello
from scaler_worker.links import ProcessorLink
from scaler_worker.memory import MemoryReader
from scaler_worker.pollers import new_poller
from scaler_worker.processor import run_processor
from scaler_worker.status import StatusReader, process_text
from scaler_worker.zygote import ZygoteClient, fork_zygote

logger = logging.getLogger("scaler.worker")

DRAIN_SIGNAL = signal.SIGUSR1
"""From the cluster to its workers. A service manager may send SIGTERM to all its processes, and a worker that gets
that from two sides must not take the second one for impatience."""

REST_SHARE = 0.6
"""A processor that is busy with short tasks is left alone for this share of its slice: the price in latency of results
that leave several, or hundreds, at a time. What is left then is less than half a slice, so it is filled up at once."""
REST_FROM_SECONDS = 0.002
"""How much work the slice must still hold for that."""
SHORT_SECONDS = 0.01
"""A result that leaves alone costs the agent, the scheduler and the client nearly a millisecond together, which on a
machine they share with the processors is taken from the tasks themselves. (decision 0007)"""

SILENT_SECONDS, SILENT_AGAIN_SECONDS = 8.0, 60.0
"""Without a session, the log warns after the first of these times, and again after each of the second."""

REFUSALS = frozenset({BAD_FRAMING, BAD_ENVELOPE, TOO_LARGE, BAD_BATCH})
"""A scheduler that complains with one of these has not taken the message."""
_ROUND_ENDED = events.RoundEnded()


def _settings(config: ClusterConfig, name: str) -> Settings:
    return Settings(
        worker_name=name,
        encode_error=codec.encode_task_error,
        queue_size=config.queue_size,
        max_processors=config.max_processors,
        task_timeout_seconds=config.task_timeout_seconds,
        suspends_hard=config.suspends_hard,
        code_tags=(CODE_TAG,),
        present_seconds=config.present_seconds,
        memory_bytes=config.memory_bytes,
        tasks_per_processor=config.tasks_per_processor,
        shares_processors=config.shares_processors,
        gpus=config.devices.ids if config.devices else (),
    )


class Agent:
    def __init__(self, config: ClusterConfig, name: str, zygote_client: ZygoteClient, page: SignalPage) -> None:
        self._config, self._name = config, name
        self._zygote, self._page = zygote_client, page
        self._free_slots = list(range(config.slot_count))
        self.core = AgentCore(_settings(config, name))
        self._code = Code()
        self._memory = MemoryReader()
        self._links: dict[int, ProcessorLink] = {}  #: by processor number
        self._by_descriptor: dict[int, ProcessorLink] = {}  #: those that are polled
        self._resting: set[ProcessorLink] = set()  #: those that are not, until `look_at`
        self._status, self._status_at, self._core_at = StatusReader(), math.inf, math.inf
        self._configuration = pack_order(
            channel.CONFIGURE, config.address, "", Limits().inline_bytes, config.object_retention_seconds
        )
        self._exit_code: int | None = None
        self._signal_reader, self._signal_writer = socket.socketpair()
        self._sigterm_count = 0
        self._must_stop = self._awaits_acknowledgement = False
        self._poller = new_poller(config.event_loop)
        self._endpoint = self._dial()
        self._endpoint_descriptor = self._endpoint.fileno()
        self._endpoint_at = 0.0  #: when the endpoint wants to be polled although nothing comes
        self._control_descriptor = self._zygote.control.fileno()
        self._signal_descriptor = self._signal_reader.fileno()
        for descriptor in (self._endpoint_descriptor, self._control_descriptor, self._signal_descriptor):
            self._poller.register(descriptor, select.POLLIN)
        self._perform_by_kind: dict[type, Callable[[Any], None]] = {
            actions.Send: lambda action: self._endpoint.send(action.message),
            actions.HandOver: self._hand_over,
            actions.StartProcessor: self._start_processor,
            actions.Resume: lambda action: self._order(self._links[action.processor], channel.RESUME),
            actions.Interrupt: self._interrupt,
            actions.Reclaim: self._reclaim,
            actions.AskStack: self._ask_stack,
            actions.SampleStacks: self._sample_stacks,
            actions.LookAtProcess: self._look_at_process,
            actions.Suspend: lambda action: self._zygote.suspend(action.processor),
            actions.Unsuspend: lambda action: self._zygote.unsuspend(action.processor),
            actions.GiveBackKept: self._give_back_kept,
            actions.KillProcessor: lambda action: self._zygote.kill(action.processor),
            actions.StopProcessor: lambda action: self._links[action.processor].leave(),
            actions.Log: self._log,
            actions.TellStatus: self._hasten_status,
            actions.Remember: lambda action: self._endpoint.remember(action.generation),
            actions.AwaitAcknowledgement: self._await_acknowledgement,
            actions.Finish: self._finish,
        }

    def _dial(self) -> DealerEndpoint:
        dialer = SessionDialer(
            hello=worker_hello(self._config, self._name, self.core.credit(0.0)),
            server_name="scheduler",
            give_up_seconds=self._config.death_timeout_seconds,
            allowed_messages=FROM_SCHEDULER[ROLE_WORKER],
        )
        return DealerEndpoint(self._config.address, dialer, self._config.shown)

    # ------------------------------------------------------------ rounds

    def run(self) -> int:
        """Until drained, given up or broken: the exit code."""
        self._signal_writer.setblocking(False)
        self._signal_reader.setblocking(False)
        signal.set_wakeup_fd(self._signal_writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, DRAIN_SIGNAL):
            signal.signal(number, self._on_stop_signal)
        self._status_at = time.monotonic() + SILENT_SECONDS
        self._handle(events.Started(), time.monotonic())
        timeout: int | None = 0
        while self._exit_code is None:
            ready = dict(self._poller.poll(timeout))
            must_poll_again = self._round(ready, time.monotonic())
            timeout = self._timeout()
            if must_poll_again:
                self._endpoint_at = timeout = 0
        return self._exit_code

    def _timeout(self) -> int | None:
        """Milliseconds until something is due."""
        endpoint_at = self._endpoint.next_deadline()
        self._endpoint_at = math.inf if endpoint_at is None else endpoint_at
        due = min(self._endpoint_at, self._status_at)
        core_at = self.core.next_deadline()
        self._core_at = math.inf if core_at is None else core_at
        due = min(due, self._core_at)
        for link in self._resting:
            due = min(due, link.look_at)
        return None if due == math.inf else max(0, math.ceil((due - time.monotonic()) * 1000))

    def _round(self, ready: dict[int, int], now: float) -> bool:
        if self._endpoint_descriptor in ready or now >= self._endpoint_at:
            for event in self._endpoint.poll(now):
                self._on_session(event, now)
            self._watch_endpoint()
            if self._awaits_acknowledgement and self._endpoint.is_acknowledged:
                self._awaits_acknowledgement = False
                self._handle(events.Acknowledged(), now)
        links = self._read_links(ready, now)
        if self._control_descriptor in ready:
            self._read_zygote(now)
        if self._signal_descriptor in ready:
            self._signal_reader.recv(4096)  # whatever signal it was, it has woken us
        if self._must_stop:
            self._stop(now)
        if self._config.memory_bytes:
            self._read_memory(now)
        if now >= self._core_at:
            self._see_begun(now)
        self._handle(_ROUND_ENDED, now)
        for link in links:  # now that their slices are filled up again
            if link.number in self._links and not link.has_unsent:
                self._rest(link, now)
        if now >= self._status_at:
            self._tell_status(now)
        return self._endpoint.settle(now)

    def _tell_status(self, now: float) -> None:
        if not self.core.tables.is_connected:
            logger.warning("Worker[%s]: no scheduler answers at %s yet", self._name, self._config.address)
            self._status_at = now + SILENT_AGAIN_SECONDS
            return
        self._see_begun(now)
        self._endpoint.send(self._status.read(self.core, self._endpoint.round_trip_seconds, now))
        self._endpoint.ping(now)
        self._status_at = now + self._config.heartbeat_seconds

    def _hasten_status(self, action: actions.TellStatus) -> None:
        self._status_at = 0.0

    def _read_links(self, ready: dict[int, int], now: float) -> list[ProcessorLink]:
        """Those where tasks have ended."""
        if self._resting:
            for link in [link for link in self._resting if link.look_at <= now]:
                self._resting.discard(link)
                self._watch(link)
                ready[link.descriptor] = select.POLLIN
        links = []
        for descriptor in ready:
            readable = self._by_descriptor.get(descriptor)
            if readable is not None and self._read(readable, now):
                links.append(readable)
        return links

    def _handle(self, event: events.Event, now: float) -> None:
        for action in self.core.handle(event, now):
            self._perform_by_kind[type(action)](action)

    # ------------------------------------------------------------ the scheduler

    def _on_session(self, event: SessionEvent, now: float) -> None:
        if isinstance(event, Received):
            self._handle(event, now)
        elif isinstance(event, Opened):
            self._on_opened(event, now)
        elif isinstance(event, Lost):
            is_expected = self.core.tables.presenting.is_shutting_down
            level = logging.INFO if is_expected else logging.WARNING
            logger.log(level, "Worker[%s] lost the scheduler: %s", self._name, event.text)
            self._status_at = now + SILENT_SECONDS
            self._handle(event, now)
            self._endpoint.redial()
        elif isinstance(event, Rejected):
            where = "" if self._config.address in event.text else f" ({self._config.address})"
            self._give_up(f"{event.text}{where}")
        elif isinstance(event, Complained):
            logger.warning("Worker[%s]: the scheduler complained: %s (%s)", self._name, event.text, event.clause)
            if event.code in REFUSALS:
                # What was in that message is lost. With the session all that is held here is decided.
                self._finish(actions.Finish("ends, because the scheduler refused a message of it", is_failure=True))

    def _give_up(self, text: str) -> None:
        logger.error("Worker[%s]: %s", self._name, text)
        self._exit_code = EXIT_GIVEN_UP

    def _on_opened(self, event: Opened, now: float) -> None:
        address = self._endpoint.address
        if why := why_no_scheduler(event.welcome, address):
            return self._give_up(why)
        logger.info("Worker[%s] connected to the scheduler at %s", self._name, address)
        welcome = event.welcome
        storage_address = self._config.storage_address or welcome.storage_address or default_storage_address(address)
        inline_bytes = welcome.limits.inline_bytes
        retention_seconds = self._config.object_retention_seconds
        if welcome.object_retention_seconds > 0:
            retention_seconds = min(retention_seconds, welcome.object_retention_seconds)
        self._configuration = pack_order(
            channel.CONFIGURE, self._endpoint.addresses, storage_address, inline_bytes, retention_seconds
        )
        for link in self._links.values():
            link.send(self._configuration)
        self._status_at = now
        self._handle(event, now)

    def _watch_endpoint(self) -> None:
        """There is another socket after each dial; the one before is open until the next poll."""
        descriptor = self._endpoint.fileno()
        if descriptor != self._endpoint_descriptor:
            self._poller.unregister(self._endpoint_descriptor)
            self._poller.register(descriptor, select.POLLIN)
            self._endpoint_descriptor = descriptor

    # ------------------------------------------------------------ the processors

    def _read(self, link: ProcessorLink, now: float) -> bool:
        """True when tasks have ended there."""
        had_unsent = link.has_unsent
        if had_unsent:
            link.flush()
        has_ends = False
        for event in link.read():
            has_ends = has_ends or type(event) is events.TasksEnded
            self._handle(event, now)
        if link.is_closed:
            # Dying, or cut off by its own user code; in both cases of no more use, and its exit comes from the zygote.
            self._unwatch(link)
            self._zygote.kill(link.number)
            return False
        if had_unsent:
            self._watch(link)
        return has_ends

    def _rest(self, link: ProcessorLink, now: float) -> None:
        if self._is_busy_with_short_tasks(link):
            self._unwatch(link)
            link.look_at = now + REST_SHARE * self.core.tables.processors[link.number].outstanding_seconds
            self._resting.add(link)

    def _is_busy_with_short_tasks(self, link: ProcessorLink) -> bool:
        processor = self.core.tables.processors[link.number]
        return (
            processor.state is State.RUNNING
            and processor.outstanding_seconds > REST_FROM_SECONDS
            and processor.slice[0].estimate_seconds < SHORT_SECONDS
        )

    def _watch(self, link: ProcessorLink) -> None:
        self._by_descriptor[link.descriptor] = link
        self._poller.register(link.descriptor, select.POLLIN | select.POLLOUT if link.has_unsent else select.POLLIN)

    def _unwatch(self, link: ProcessorLink) -> None:
        self._resting.discard(link)
        if self._by_descriptor.pop(link.descriptor, None) is not None:
            self._poller.unregister(link.descriptor)

    def _read_zygote(self, now: float) -> None:
        try:
            exits = self._zygote.read()
        except EOFError:
            logger.error("Worker[%s]: the process that forks its processors has died", self._name)
            # They have died with it, and their tasks are told so: one of them may have killed it, and would kill the
            # next worker's as well if it were only handed back.
            for number in list(self._links):
                self._bury(events.ProcessorExited(number, -signal.SIGKILL), now)
            self._exit_code = EXIT_BROKEN
            return
        for exited in exits:
            self._bury(exited, now)

    def _read_memory(self, now: float) -> None:
        enough = recycling.soft_bytes(self.core.tables)
        for processor in self.core.to_read(now):
            kept_bytes = self._page.kept_cells(self._links[processor.number].slot)[KEPT_CELL]  # before what it uses
            try:
                used_bytes = self._memory.read(processor.process_id, enough, now)
            except OSError:
                used_bytes = processor.memory_bytes  # it has ended, and the zygote is about to tell it
            self._handle(events.MemoryRead(processor.number, used_bytes, kept_bytes), now)

    def _see_begun(self, now: float, *links: ProcessorLink) -> None:
        for link in links or list(self._links.values()):
            self._handle(events.BegunSeen(link.number, *self._page.begun(link.slot)), now)

    def _bury(self, exited: events.ProcessorExited, now: float) -> None:
        link = self._links[exited.processor]
        for event in link.read(until_empty=True):
            self._handle(event, now)
        self._see_begun(now, link)
        self._unwatch(link)
        link.end.close()
        del self._links[link.number]
        self._memory.forget(self.core.tables.processors[link.number].process_id)
        self._free_slots.append(link.slot)
        self._handle(exited, now)

    # ------------------------------------------------------------ actions

    def _start_processor(self, action: actions.StartProcessor) -> None:
        try:
            agent_end, processor_end = channel_pair()
        except OSError as error:
            refused = events.ProcessorExited(action.processor, fork_refused(error))
            return self._handle(refused, time.monotonic())
        slot = self._free_slots.pop()
        self._page.clear(slot)
        self._zygote.spawn(action.processor, slot, processor_end)
        processor_end.close()
        link = self._links[action.processor] = ProcessorLink(action.processor, slot, agent_end, self._code)
        link.send(self._configuration)
        self._watch(link)

    def _hand_over(self, action: actions.HandOver) -> None:
        link = self._links[action.processor]
        if self._config.devices and action.gpus is not None:
            link.show(self._config.devices.environment(action.gpus))
        link.hand_over(action.tasks, action.numbers)
        self._watch_unsent(link)

    def _order(self, link: ProcessorLink, *order: int) -> None:
        link.send(pack_order(*order))
        self._watch_unsent(link)

    def _watch_unsent(self, link: ProcessorLink) -> None:
        """What the channel could not take goes on when the processor has read some of it: the poller has to be told. A
        link that rests is looked at soon anyway."""
        if link.has_unsent and link.descriptor in self._by_descriptor:
            self._watch(link)

    def _interrupt(self, action: actions.Interrupt) -> None:
        link = self._links[action.processor]
        link.interrupt_number = action.number
        self._signal(link)

    def _reclaim(self, action: actions.Reclaim) -> None:
        link = self._links[action.processor]
        link.reclaim_serial = action.serial
        self._order(link, channel.RECLAIM, action.serial)
        self._signal(link)

    def _ask_stack(self, action: actions.AskStack) -> None:
        link = self._links[action.processor]
        link.stack_serial = action.serial
        self._signal(link)

    def _give_back_kept(self, action: actions.GiveBackKept) -> None:
        self._page.kept_cells(self._links[action.processor].slot)[WANTED_CELL] = 1
        self._signal(self._links[action.processor])

    def _sample_stacks(self, action: actions.SampleStacks) -> None:
        if self._page.sample_for(action.seconds):
            for link in self._links.values():
                self._signal(link)

    def _look_at_process(self, action: actions.LookAtProcess) -> None:
        self._handle(events.ProcessSeen(action.processor, process_text(action.process_id)), time.monotonic())

    def _signal(self, link: ProcessorLink) -> None:
        self._page.write(link.slot, link.interrupt_number, link.reclaim_serial, link.stack_serial)
        self._zygote.signal(link.number)

    def _log(self, action: actions.Log) -> None:
        logger.log(logging.WARNING if action.is_warning else logging.INFO, "Worker[%s]: %s", self._name, action.text)

    def _await_acknowledgement(self, action: actions.AwaitAcknowledgement) -> None:
        self._awaits_acknowledgement = True
        self._endpoint.ping(time.monotonic())

    def _finish(self, action: actions.Finish) -> None:
        logger.log(logging.ERROR if action.is_failure else logging.INFO, "Worker[%s] %s", self._name, action.text)
        self._exit_code = EXIT_BROKEN if action.is_failure else EXIT_DONE

    # ------------------------------------------------------------ the end

    def _on_stop_signal(self, number: int, _frame: FrameType | None) -> None:
        self._must_stop = True
        self._sigterm_count += number == signal.SIGTERM
        try:
            self._signal_writer.send(b"\0")  # an event loop sets a wake-up descriptor of its own
        except BlockingIOError:
            pass  # there is enough in it to wake us

    def _stop(self, now: float) -> None:
        if self._sigterm_count > 1:
            self._exit_code = EXIT_DONE
        elif not self.core.tables.is_draining:
            self._handle(events.DrainRequested(self._config.grace_seconds), now)

    def close(self) -> None:
        """Say Bye, take the zygote and with it all processors down. Those that run nothing may end in order."""
        signal.set_wakeup_fd(-1)
        self._endpoint.close()
        for link in self._links.values():
            processor = self.core.tables.processors.get(link.number)
            if processor is not None and processor.slice:
                self._zygote.kill(link.number)
            link.end.close()
        self._zygote.close()
        self._memory.close()
        end_context()


def run_agent(config: ClusterConfig, name: str) -> int:
    """The life of a worker, in a process without threads: the exit code."""
    page = SignalPage(config.slot_count)
    use_io_threads(config.io_threads)
    zygote_client = fork_zygote(lambda end, slot: run_processor(end, page, slot, config))
    if config.event_loop != "builtin":
        logger.info("Worker[%s]: use event loop: %s", name, config.event_loop)
    agent = Agent(config, name, zygote_client, page)
    try:
        return agent.run()
    except Exception:
        logger.exception("Worker[%s] failed", name)
        return EXIT_BROKEN
    finally:
        agent.close()
