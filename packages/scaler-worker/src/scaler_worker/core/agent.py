"""The worker's decisions: events in, actions out.

Theory of operation. Tasks wait in one queue. A processor is handed a *slice*: one task, or several tiny ones, which it
runs in order, writing each result as soon as there is one. So when it dies the culprit is exact: the first task of its
slice without a result. Everything handed out can be taken back as long as it has not begun, by one rule that holds for
blocking, reclaiming and dying alike: the first task of the slice is the one that runs, the rest returns to the queue.

Nothing is sent to the scheduler while events are handled. `RoundEnded` is the end of one wake-up of the shell: then
free places are filled, what is due is done, and all results leave as one message with the credit (CRD-3). Only a
Dispatch that finds a free processor is handed to it at once: everything else can wait until that works.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from scaler_protocol.codes import CANCEL_TOO_LATE, KIND_INLINE, STATUS_PROCESSOR_DIED, STATUS_SUCCESS
from scaler_protocol.columns import PROFILE, join_ids, split_ids
from scaler_protocol.holding.credit import Load, credit_limit, nested_reserve
from scaler_protocol.holding.tasks import Task, tasks_of
from scaler_protocol.ids import USER_BYTES, ObjectId, TaskId
from scaler_protocol.messages import (
    Cancel,
    Credit,
    Delivered,
    Dispatch,
    Message,
    Recall,
    Returned,
    SampleStacks,
    SampleTasks,
    Shutdown,
    StackRequest,
    TaskLog,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_worker.core import (
    beginning,
    deadlines,
    events,
    giving_back,
    grouping,
    handing,
    nesting,
    presenting,
    recycling,
    stacks,
    starting,
    stopping,
    suspension,
)
from scaler_worker.core.actions import Action, AwaitAcknowledgement, Finish, Log, Resume, Send, TellStatus
from scaler_worker.core.deaths import describe_exit, processor_died
from scaler_worker.core.processors import IllegalStepError, Processor, State, Step
from scaler_worker.core.sampling import Sampler
from scaler_worker.core.tables import Settings, Tables


class AgentCore:
    def __init__(self, settings: Settings) -> None:
        self.tables = Tables(settings)
        #: as the round that has ended found it, and until the next event
        self._is_quiet = False
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            events.Started: self._on_started,
            Opened: self._on_opened,
            Received: self._on_received,
            Lost: self._on_lost,
            events.ProcessorReady: self._on_ready,
            events.TasksEnded: self._on_tasks_ended,
            events.TaskBlocked: self._on_blocked,
            events.ResumeWanted: self._on_resume_wanted,
            events.GaveBack: self._on_gave_back,
            events.TaskPrinted: self._on_printed,
            events.StackTaken: lambda event, now: stacks.taken(self.tables, event, now),
            events.StacksSampled: self._on_stacks_sampled,
            events.ProcessSeen: lambda event, now: stacks.seen(self.tables, event, now),
            events.ProcessorBroken: self._on_broken,
            events.ProcessorExited: self._on_exited,
            events.MemoryRead: self._on_memory_read,
            events.BegunSeen: lambda event, now: beginning.seen(self.tables, event, now),
            events.DrainRequested: self._on_drain,
            events.Acknowledged: self._on_acknowledged,
            events.RoundEnded: self._on_round_ended,
        }
        self._message_handlers: dict[type, Callable[[Any, float], None]] = {
            Dispatch: self._on_dispatch,
            Recall: self._on_recall,
            Cancel: self._on_cancel,
            Shutdown: self._on_drain,
            SampleTasks: self._on_sample_tasks,
            SampleStacks: lambda message, now: self._do(self.tables.stack_samples.want(message, now)),
            Delivered: self._on_delivered,
            StackRequest: lambda message, now: stacks.asked(self.tables, message, now),
        }

    def handle(self, event: events.Event, now: float) -> list[Action]:
        self._is_quiet = False
        self._handlers[type(event)](event, now)
        actions, self.tables.actions = self.tables.actions, []
        return actions

    def next_deadline(self) -> float | None:
        due_at = None if self._is_quiet else deadlines.next_deadline(self.tables)
        if not self.tables.settings.memory_bytes:
            return due_at
        read_at = recycling.next_read_at(self.tables)
        if due_at is None:
            return None if read_at == inf else read_at
        return min(read_at, due_at)

    def to_read(self, now: float) -> list[Processor]:
        """The processors whose memory is to be told now, by MemoryRead."""
        return list(recycling.to_read(self.tables, now))

    def credit(self, now: float) -> Credit:
        load = self.tables.load(now)
        return Credit(self._limit(load), 0 if self.tables.takes_none else nested_reserve(load.places))

    def _limit(self, load: Load) -> int:
        return 0 if self.tables.takes_none else max(credit_limit(load), self.tables.room.floor)

    def _do(self, action: Action) -> None:
        self.tables.actions.append(action)

    def _send(self, message: Message) -> None:
        self.tables.actions.append(Send(message))

    # ------------------------------------------------------------ the scheduler

    def _on_started(self, event: events.Started, now: float) -> None:
        handing.hand_out(self.tables, now)

    def _on_opened(self, event: Opened, now: float) -> None:
        for message in presenting.opened(self.tables, event, now):
            self._send(message)
        self._send_credit(now)

    def _on_lost(self, event: Lost, now: float) -> None:
        self.tables.stacks.clear()
        self.tables.actions += self.tables.stack_samples.lost(now)
        presenting.lost(self.tables, event, now)

    def _on_delivered(self, message: Delivered, now: float) -> None:
        tables = self.tables
        tables.presenting.delivered(message, is_holding=bool(tables.tasks or len(tables.results)))

    def _on_received(self, event: Received, now: float) -> None:
        handler = self._message_handlers.get(type(event.message))
        if handler is None:
            self._do(Log(True, f"the scheduler sent a {type(event.message).__name__}, which workers do not take"))
            return
        handler(event.message, now)

    def _on_dispatch(self, dispatch: Dispatch, now: float) -> None:
        tables = self.tables
        generation = dispatch.header.generation
        if generation != tables.presenting.generation and generation:
            if why := tables.presenting.refuses(generation):
                self._do(Log(True, why))
                self._send(Returned(dispatch.ids, is_recall_answer=False))
                return
            presenting.note_generation(tables, generation)
        tasks = tasks_of(dispatch, now)
        if not tables.tasks.keys().isdisjoint([task.id for task in tasks]):
            self._do(Finish("the scheduler dispatched a task that this worker holds already", is_failure=True))
            return
        if tables.is_draining:
            self._send(Returned(dispatch.ids, is_recall_answer=False))
            return
        if dispatch.header.code_tag and tables.code_guard.refuses(tasks, tables.results):
            return
        if dispatch.header.code_set or dispatch.header.owner_grant[:USER_BYTES] != tables.user:
            grouping.note(tables, dispatch.header)
        for task in tasks:
            tables.tasks[task.id] = task
        tables.ahead.forget_ended(tables.tasks)
        tables.queue.push_all(self._lay_aside(tasks) if dispatch.awaited_counts else tasks)
        if tables.presenting.may_begin:
            handing.hand_out_at_once(tables, now)

    def _lay_aside(self, tasks: list[Task]) -> list[Task]:
        """Those that can begin. Of the others some await what has ended here meanwhile: they go back (WRK-24)."""
        tables = self.tables
        for task in tasks:
            if task.awaits and not tables.ahead.add(task, tables.tasks):
                task.awaits = None
                tables.forget(task)
                tables.untimely.append(task.id)
        return [task for task in tasks if not task.awaits and task.id in tables.tasks]

    def _on_recall(self, recall: Recall, now: float) -> None:
        """Give back what is in the queue. What a processor holds is begun, or will be within milliseconds."""
        returned = []
        for task_id in split_ids(recall.ids):
            task = self.tables.tasks.get(TaskId(task_id))
            if task is not None and task.processor is None:
                self.tables.withdraw(task)
                self.tables.forget(task)
                returned.append(task.id)
        returned += giving_back.take_untimely(self.tables)
        self._send(Returned(join_ids(returned)))

    def _on_cancel(self, cancel: Cancel, now: float) -> None:
        ids = [TaskId(task_id) for task_id in dict.fromkeys(split_ids(cancel.ids))]  # each is answered once (CAN-1)
        stopping.cancel(self.tables, ids, cancel.grace_seconds, now)

    def _on_sample_tasks(self, message: SampleTasks, now: float) -> None:
        self.tables.sampler = Sampler(message.sample_limit) if message.sample_limit else None

    def _on_drain(self, event: events.DrainRequested | Shutdown, now: float) -> None:
        """Hand back what has not begun, finish what has (WRK-11)."""
        tables = self.tables
        until = now + event.grace_seconds
        tables.presenting.is_shutting_down |= isinstance(event, Shutdown)
        tables.drain_until = until if tables.drain_until is None else min(until, tables.drain_until)
        self._send_credit(now)
        for processor in tables.processors.values():
            tables.reclaim(processor)
        giving_back.return_queue(tables)

    # ------------------------------------------------------------ the processors

    def _on_ready(self, event: events.ProcessorReady, now: float) -> None:
        processor = self.tables.processors[event.processor]
        processor.process_id = event.process_id
        self._step(processor, Step.READY, now)
        if processor.state is State.IDLE:  # and was not told to stop just before
            starting.note_ready(self.tables)
            self._rest(now)

    def _on_tasks_ended(self, event: events.TasksEnded, now: float) -> None:
        tables = self.tables
        processor = tables.processors[event.processor]
        slice_, tasks = processor.slice, tables.tasks
        add_result, followers = tables.results.append, tables.ahead.followers
        run_times, durations = tables.run_times, tables.durations
        means, waiting = durations.means, durations.waiting
        noted: ObjectId | None = None
        busy_seconds = 0.0
        if tables.sampler is not None:
            tables.sampler.note(processor, event.ends, now)
        for number, status, kind, seconds, value, profile in event.ends:
            if not slice_ or slice_[0].number != number:
                # After Lost its slice is gone, and what it still reports is dropped.
                if processor.state is not State.STOPPING:
                    self._break(processor, f"reported task {number}, which it is not running", now)
                return
            task = slice_.popleft()
            processor.outstanding_seconds -= task.estimate_seconds
            busy_seconds += seconds
            function = task.function
            if function is not noted:  # most ends are of the function of the end before
                noted, note = function, run_times.notes[function].extend
            note((seconds, profile))
            mean = means.get(function)
            if mean is None or waiting:
                durations.add(function, seconds)
            else:  # as `Durations.add`, which would be one more call for each
                means[function] = mean + (seconds - mean) * (0.5 if seconds > mean else 0.1)
            if status == events.INTERRUPTED:
                self._end_interrupted(task, profile)
                continue
            del tasks[task.id]
            add_result((task.id, task.attempt, status, kind, value, profile, task.header))
            if followers:
                tables.settle_followers(task, status, kind, value)
            if task.stop is not None:
                tables.cancel_replies.answer(task, CANCEL_TOO_LATE)
        run_times.noted(len(event.ends))
        durations.add_round(len(event.ends), busy_seconds)
        processor.ended_count += len(event.ends)
        if len(slice_) > 1:
            handing.note_pace(processor, busy_seconds / len(event.ends))
        if status == STATUS_SUCCESS:
            tables.ahead.remember(task.id, kind, value)
        self._after_end(processor, now)

    def _end_interrupted(self, task: Task, profile: bytes) -> None:
        if task.stop is not None:
            stopping.end_stopped(self.tables, task, profile)
            return
        # We only interrupt with a stop order, so this is user code that raises our exception itself.
        self.tables.forget(task)
        error = processor_died(self.tables.settings.worker_name, 0, 0)
        value = self.tables.settings.encode_error(error)
        self.tables.results.add(task.id, task.attempt, STATUS_PROCESSOR_DIED, KIND_INLINE, value, task.header)

    def _after_end(self, processor: Processor, now: float) -> None:
        if processor.is_waiting:
            # It dropped what it read since it blocked, and goes on dropping until it is told to resume.
            self._do(Resume(processor.number))
        if not processor.slice:
            processor.outstanding_seconds = 0.0
            processor.is_extra = False
            self._step(processor, Step.FINISH, now)
            if self.tables.recycles:
                recycling.note_idle(self.tables, processor)
        stopping.begin_first(self.tables, processor, now)

    def _on_blocked(self, event: events.TaskBlocked, now: float) -> None:
        processor = self.tables.processors[event.processor]
        if not self._is_first(processor, event.number, now) or not self._step(processor, Step.BLOCK, now):
            return
        processor.is_extra = False
        self.tables.durations.note_wait(processor.slice[0].function)
        giving_back.take_rest(self.tables, processor)

    def _on_stacks_sampled(self, event: events.StacksSampled, now: float) -> None:
        if not self.tables.stack_samples.add(event.trees, now):
            self._break(self.tables.processors[event.processor], "told where its time went in no trees of calls", now)

    def _on_resume_wanted(self, event: events.ResumeWanted, now: float) -> None:
        self._step(self.tables.processors[event.processor], Step.ASK, now)

    def _on_gave_back(self, event: events.GaveBack, now: float) -> None:
        processor = self.tables.processors[event.processor]
        if not processor.is_reclaiming or event.serial != processor.reclaim_serial:
            self._break(processor, "gave back tasks that were not reclaimed", now)
            return
        processor.is_reclaiming = False
        if event.number == 0:
            self._take_back_all(processor, now)
        elif self._is_first(processor, event.number, now):
            giving_back.take_rest(self.tables, processor)

    def _take_back_all(self, processor: Processor, now: float) -> None:
        """It was between two tasks: nothing of its slice has begun."""
        if not processor.slice:
            return
        giving_back.take_rest(self.tables, processor)
        giving_back.to_queue(self.tables, [processor.slice.popleft()])
        self._after_end(processor, now)

    def _on_printed(self, event: events.TaskPrinted, now: float) -> None:
        first = self.tables.processors[event.processor].first
        if first is not None and first.number == event.number:
            self._send(TaskLog(first.id, event.stream, event.text, self.tables.settings.worker_name))

    def _on_broken(self, event: events.ProcessorBroken, now: float) -> None:
        self._break(self.tables.processors[event.processor], event.text, now)

    def _on_memory_read(self, event: events.MemoryRead, now: float) -> None:
        processor = self.tables.processors[event.processor]
        recycling.note_memory(self.tables, processor, event.used_bytes, event.kept_bytes, now)

    def _on_exited(self, event: events.ProcessorExited, now: float) -> None:
        tables = self.tables
        processor = tables.processors.pop(event.processor)
        before = processor.state
        processor.step(Step.EXIT, now)
        if before is State.STARTING:
            starting.note_exit(tables, processor, event.exit_code, now)
        elif before is not State.STOPPING:
            self._do(Log(True, f"processor {processor.process_id} {describe_exit(event.exit_code)}"))
        giving_back.take_rest(self.tables, processor)
        if beginning.was_not_begun(processor):
            giving_back.to_queue(tables, [processor.slice.popleft()])
        elif processor.slice:
            was_killed = before is State.STOPPING and not processor.is_broken
            task = processor.slice.popleft()
            is_returned = was_killed and task.stop is None and not tables.is_draining
            seconds = max(0.0, now - processor.first_since)
            if not is_returned:
                tables.run_times.note(task.function, seconds)
            if tables.sampler is not None and not is_returned:
                status = task.stop.status if task.stop is not None else STATUS_PROCESSOR_DIED
                tables.sampler.note_death(processor, task, status, now)
            self._end_with_processor(task, event, was_killed, PROFILE.pack(int(seconds * 1e9), 0, 0))

    def _end_with_processor(self, task: Task, event: events.ProcessorExited, was_killed: bool, profile: bytes) -> None:
        """Ends or requeues a task whose processor has ended. Nothing is known of the task but for how long it ran."""
        tables = self.tables
        if task.stop is not None:
            stopping.end_stopped(tables, task, profile)
        elif was_killed and not tables.is_draining:
            # We killed the processor for the task before this one, which ended at the last moment.
            tables.return_to_queue([task])
        else:
            tables.forget(task)
            error = processor_died(tables.settings.worker_name, event.exit_code, event.peak_memory_bytes)
            value = tables.settings.encode_error(error)
            row = task.id, task.attempt, STATUS_PROCESSOR_DIED, KIND_INLINE, value, profile, task.header
            tables.results.append(row)

    def _is_first(self, processor: Processor, number: int, now: float) -> bool:
        if processor.slice and processor.slice[0].number == number:
            return True
        if processor.state is not State.STOPPING:
            self._break(processor, f"speaks of task {number}, which it is not running", now)
        return False

    def _step(self, processor: Processor, step: Step, now: float) -> bool:
        try:
            processor.step(step, now)
        except IllegalStepError as error:
            self._break(processor, str(error), now)
            return False
        return True

    def _break(self, processor: Processor, text: str, now: float) -> None:
        """Its state and ours no longer agree. Its task ends as one whose processor died."""
        self._do(Log(True, f"processor {processor.process_id} broke the local channel and is killed: {text}"))
        processor.is_broken = True
        if processor.state is not State.STOPPING:
            stopping.kill(self.tables, processor, now)

    # ------------------------------------------------------------ the end of a round

    def _on_round_ended(self, event: events.RoundEnded, now: float) -> None:
        tables = self.tables
        if tables.presenting.until is not None:
            presenting.give_up_if_due(tables, now)
        if tables.recycles:
            recycling.let_worn_go(tables, now)
        is_quiet = tables.is_quiet()
        if not is_quiet:
            stopping.enforce(tables, now)
            handing.reclaim_stuck(tables, now)
            starting.settle(tables, now)
            handing.hand_out(tables, now)
            self._rest(now)
            handing.stop_surplus(tables, now)
            suspension.arrange(tables, now)
            if tables.stacks:
                stacks.settle(tables, now)
        if tables.is_connected:
            self._send_ends(now)
        if tables.drain_until is not None:
            self._leave_if_drained(tables.drain_until, now)
        self._is_quiet = is_quiet

    def _rest(self, now: float) -> None:
        """If no processor can be had, what has not begun goes to other workers, and nothing more may come (WRK-65)."""
        tables = self.tables
        is_in_trouble = tables.trouble != ""
        if is_in_trouble and tables.is_connected:
            giving_back.return_queue(tables)
        if is_in_trouble is not tables.is_resting and tables.is_connected:
            # Not with the next results: these cannot say that no deeper task may come, nor that it may again.
            self._send_credit(now)
            self._do(TellStatus())

    def _leave_if_drained(self, until: float, now: float) -> None:
        """A scheduler that has just died acknowledges nothing: then what was sent is kept for its successor."""
        tables = self.tables
        if now >= until or (tables.is_drained() and (tables.is_acknowledged or not tables.is_connected)):
            self._do(Finish(f"drained, {len(tables.tasks)} tasks given up"))
        elif tables.is_drained() and not tables.awaits_acknowledgement:
            tables.awaits_acknowledgement = True
            self._do(AwaitAcknowledgement())

    def _on_acknowledged(self, event: events.Acknowledged, now: float) -> None:
        self.tables.is_acknowledged = self.tables.awaits_acknowledgement

    def _send_ends(self, now: float) -> None:
        tables = self.tables
        if tables.room.floor or len(tables.tasks) >= tables.sent_credit:
            nesting.keep_room(tables, now)
        load = tables.load(now)
        limit = self._limit(load)
        if (load.lent_places or tables.told_lenders) and nesting.lenders(tables) != tables.told_lenders:
            tables.told_lenders = nesting.lenders(tables)
            self._do(TellStatus())
        if tables.ahead.waiting and credit_limit(load) <= load.places + load.lent_places:
            # Tasks are long here, and nothing is to queue behind them: what waits would keep out what is more urgent.
            tables.give_back_waiting()
        giving_back.send_untimely(tables)
        if len(tables.results):
            for message, rows in tables.results.take_with_rows(limit):
                self._send(message)
                if tables.presenting.is_in_force:
                    tables.presenting.kept.add(message, rows)
            tables.sent_credit = limit
        elif self._has_credit_changed(limit):
            self._send_credit(now)
        replies = tables.cancel_replies.take()
        if replies is not None:
            self._send(replies)

    def _has_credit_changed(self, after: int) -> bool:
        """Worth a message of its own only when it changed by a quarter, or when it grew and all that was granted is
        used: then the scheduler may be holding back what our blocked tasks wait for (CRD-8)."""
        before = self.tables.sent_credit
        return abs(after - before) > before // 4 or (after > before and len(self.tables.tasks) >= before)

    def _send_credit(self, now: float) -> None:
        credit = self.credit(now)
        self.tables.sent_credit, self.tables.is_resting = credit.limit, self.tables.trouble != ""
        self._send(credit)
