"""A scheduler as `scaler_dump` has told it: made anew in one process, checked, and run on from there.

What the dump does not have is made up: arguments are zeros of the same length, workers answer at once with some value,
clients only listen. So a run that stands still here stands still because of what the scheduler remembers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from scaler_protocol import codes
from scaler_protocol.columns import join_u16, join_u32, split_ids, split_u16, split_u32
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Capability,
    Dispatch,
    Hello,
    Limits,
    Recall,
    Results,
    Returned,
    Software,
    Submit,
    TaskHeader,
    Welcome,
    WorkerOffer,
)
from scaler_protocol.session import Opened, Received
from scaler_scheduler.core import FEATURE_CODE_SETS, Policy, SchedulerCore, Send, Settled, invariants
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.combinations import Combinations, UserCombinations
from scaler_scheduler.core.entities.function_counts import FunctionCounts
from scaler_scheduler.core.entities.shares import Share, UserShare
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.deaths import Deaths
from scaler_scheduler.core.tables.dependencies import Kept
from scaler_scheduler.core.tables.ready import ReadyQueue
from tests.simulation.batches import in_order, merged, take_apart

Json = dict[str, Any]
VALUE = b"restored"
PATIENCE_SECONDS = 60.0
"""Virtual ones in which nothing moves: then nothing will."""
TOLD_TASKS = 5


class NotADump(Exception):
    """The text says what is wrong with the file."""


def read(text: str) -> list[Json]:
    try:
        lines = [json.loads(line) for line in text.splitlines()]
        if lines[0]["kind"] == "dump" and lines[0]["version"] == 1:
            return lines
    except (ValueError, LookupError, TypeError):
        pass
    raise NotADump("this is no dump of scaler_dump, or only a part of one")


class Restored:
    def __init__(self, lines: Iterable[Json]) -> None:
        self._by_kind: dict[str, list[Json]] = {}
        for line in lines:
            self._by_kind.setdefault(line["kind"], []).append(line)
        self.tables_line = self._by_kind["tables"][0]
        self.now = 0.0
        self._seq = 0
        self._credit: dict[PeerId, tuple[int, int]] = {}
        #: of each worker the tasks that it has and has not answered, with their attempts
        self._held: dict[PeerId, dict[TaskId, int]] = {}
        self.core = SchedulerCore(_policy(self.tables_line["policy"]))
        self.core.tables.display.of = lambda shown: shown  # the ids in a dump are what is shown
        self._restore()
        invariants.check(self.core)

    # ------------------------------------------------------------ as it was

    def _restore(self) -> None:
        open_graphs: set[tuple[str, str]] = set()
        for line in self._by_kind.get("client", []):
            self._join(line["id"], codes.ROLE_CLIENT, WorkerOffer())
            open_graphs.update((line["id"], graph_id) for graph_id in line["open_graphs"])
            for graph_id in line["open_graphs"]:  # also of one whose tasks have all ended so far
                self.core.tables.clients[PeerId(_id(line["id"]))].graphs[GraphId(_id(graph_id))] = {}
        workers = [self._restore_worker(line) for line in self._by_kind.get("worker", [])]
        self._restore_kept()
        for line in self._by_kind.get("abandoned", []):
            self._restore_abandoned(line, workers[line["worker"]])
        tables = self.core.tables
        # Children that were there before their parent was given up are not late. (CAN-13)
        setattr(tables.families, "has_ended", lambda _: False)  # noqa: B010
        batches = self._by_kind.get("batch", [])
        self._submit_all(batches, open_graphs)
        tables.drain()
        delattr(tables.families, "has_ended")
        self._count_functions()
        (few,) = self._by_kind["tasks"]
        for name in ("attempts", "lost_workers", "retried"):
            table: dict[TaskId, Any] = getattr(tables, name)
            table.update({TaskId(_id(key)): value for key, value in few.get(name, {}).items()})
        tables.deaths.update({TaskId(_id(key)): _deaths(value) for key, value in few.get("deaths", {}).items()})
        tables.ready = ReadyQueue(
            lambda key: tables.load_indexes.of(key, tables.ready.classes.values()), tables.load_indexes.changed
        )
        for index in tables.load_indexes._of.values():
            index.lines.clear()
        for batch in batches:
            self._restore_places(batch, workers)
        for key, replies in few["canceling"].items():
            tables.canceling[TaskId(_id(key))] = replies
            tables.move(State.DISPATCHED, Move.CANCEL)
        for worker, line in zip(workers, self._by_kind.get("worker", []), strict=True):
            worker.limit, worker.nested_reserve = self._credit[worker.peer_id] = line["credit"], line["nested_reserve"]
            worker.is_retired = line["is_retired"]
            if line["is_cut_off"]:  # its rest ends with the next settling
                worker.is_cut_off, tables.cut_off[worker] = True, 0.0
            worker.load_changed()
        for line in self._by_kind.get("kept", []):
            task_id = TaskId(_id(line["id"]))
            if task_id in tables.dependencies.kept:
                tables.dependencies.kept[task_id] = tables.dependencies.kept[task_id]._replace(status=line["status"])
        self._count_functions()

    def _count_functions(self) -> None:
        """Of the tasks that are there: what had ended is not in a dump."""
        tables = self.core.tables
        tables.functions.rows.clear()
        tables.functions.others = FunctionCounts()
        held = {task_id: chunk for worker in tables.workers.values() for task_id, chunk in worker.held.items()}
        entered: set[int] = set()
        for task_id in {**tables.where, **held}:  # a worker also has what no client waits for any more
            chunk = held.get(task_id) or tables.chunk_of(task_id)
            if id(chunk) not in entered:
                entered.add(id(chunk))
                tables.functions.enter(chunk, self.now)
            tables.functions.submitted(chunk, [chunk.index_of[task_id]], self.now)
            if task_id in held:
                tables.note_held(chunk, [task_id], 1)

    def _submit_all(self, batches: Iterable[Json], open_graphs: set[tuple[str, str]]) -> None:
        submits: dict[str, list[Submit]] = {}
        for batch in batches:
            is_sealed = (batch["client"], batch["header"].get("graph_id", "")) not in open_graphs
            submits.setdefault(batch["client"], []).append(_submit(batch, is_sealed=is_sealed))
        for client, own in submits.items():
            for group in in_order(own):
                self._receive(_id(client), group[0] if len(group) == 1 else merged(group))
                if len(group) > 1:
                    take_apart(self.core.tables, group)

    def _restore_kept(self) -> None:
        """Results that unfinished tasks take in; their batches have ended, so one that stands for them is made.

        For now all have succeeded: else tasks that were sent ahead of a failure, and are being canceled, would end at
        once when they are submitted. (SCH-36)
        """
        tables = self.core.tables
        for line in self._by_kind.get("kept", []):
            client = tables.clients.get(PeerId(_id(line["client"])))
            if client is not None:
                header = TaskHeader(client=client.peer_id, graph_id=GraphId(_id(line["graph"])))
                ended = Chunk(client, header, Submit(header, bytes(ID_BYTES), _id(line["id"]), b"", join_u32([0])))
                kept = Kept(ended, line["value_kind"], bytes(line["bytes"]), line["is_wanted"])
                task_id = TaskId(_id(line["id"]))
                tables.dependencies.kept[task_id] = kept
                if header.graph_id in client.graphs:
                    client.graphs[header.graph_id][task_id] = None

    def _restore_abandoned(self, line: Json, worker: Worker) -> None:
        """A task of a client that has gone, or that was submitted again: only its worker still has it."""
        tables, task_id = self.core.tables, TaskId(_id(line["id"]))
        header = _header(line["header"])
        share = Share(UserShare(tables.shares, "", 1.0), header.client, 1.0)
        combinations = UserCombinations(Combinations(), header.client)
        gone = Client(header.client, 0, Software(), Limits(), share, combinations)
        gone.is_gone = True
        chunk = Chunk(gone, header, Submit(header, bytes(ID_BYTES), task_id, b"", join_u32([0])))
        worker.held[task_id] = chunk
        worker.commit(chunk, 1)
        tables.abandoned[task_id] = self._held[worker.peer_id][task_id] = line["attempt"]
        tables.counts[State.CANCELING] += 1

    def _restore_worker(self, line: Json) -> Worker:
        capabilities = tuple(Capability(name, amount) for name, amount in line["capabilities"].items())
        offer = WorkerOffer(line["name"], capabilities, code_tags=tuple(line["code_tags"]))
        features = (FEATURE_CODE_SETS,) if line["takes_code_sets"] else ()
        peer_id = self._join(line["id"], codes.ROLE_WORKER, offer, features)
        self._held[peer_id] = {}
        return self.core.tables.workers[peer_id]

    def _restore_places(self, batch: Json, workers: list[Worker]) -> None:
        tables = self.core.tables
        ids = [TaskId(one) for one in split_ids(_id(batch["ids"]))]
        start = 0
        for place, count in batch["places"]:
            run = ids[start : start + count]
            chunk = tables.chunk_of(run[0])
            if place == "queued":
                tables.enqueue(chunk, range(start, start + count))
            elif place != "waiting":
                ahead = [task_id for task_id in run if tables.dependencies.stop_waiting(task_id)]  # SCH-36
                queued = [task_id for task_id in run if task_id not in ahead]
                for some, source in ((ahead, State.WAITING), (queued, State.QUEUED)):
                    if some:
                        tables.give(workers[place], chunk, [chunk.index_of[one] for one in some], some, source)
                self._held[workers[place].peer_id].update({task_id: tables.attempt(task_id) for task_id in run})
            start += count

    def _join(self, peer: str, role: int, offer: WorkerOffer, features: tuple[str, ...] = ()) -> PeerId:
        peer_id = PeerId(_id(peer))
        hello = Hello(1, 1, role, peer_id, worker=offer)
        welcome = Welcome(1, peer_id, 1, 1, features=features, limits=Limits())
        self.core.handle(Opened(peer_id, hello, welcome), self.now)
        return peer_id

    def _receive(self, peer_id: bytes, message: Any) -> None:
        self._seq += 1
        self.core.handle(Received(PeerId(peer_id), self._seq, message), self.now)

    # ------------------------------------------------------------ and on from there

    @property
    def unfinished_count(self) -> int:
        return len(self.core.tables.where)

    def run(self) -> str:
        """Until every task has ended, or nothing moves any more: what there is to say about it."""
        begun_with = self.unfinished_count
        idle_since = self.now
        while self.unfinished_count and self.now - idle_since < PATIENCE_SECONDS:
            before = self.unfinished_count
            self._turn()
            if self.unfinished_count < before:
                idle_since = self.now
            self.now += 0.1
        invariants.check(self.core)
        if not self.unfinished_count:
            return f"all {begun_with:,} tasks have ended"
        return "\n".join([f"{self.unfinished_count:,} of {begun_with:,} tasks do not end:", *self._why()])

    def _turn(self) -> None:
        for action in self.core.handle(Settled(), self.now):
            if isinstance(action, Send) and action.peer_id in self._held:
                self._hear(action.peer_id, action.message)
        for peer_id, held in self._held.items():
            if held:
                answer = _results(held, self._credit[peer_id][0])
                held.clear()
                self._receive(peer_id, answer)

    def _hear(self, worker: PeerId, message: object) -> None:
        held = self._held[worker]
        if isinstance(message, Dispatch):
            ids = [TaskId(one) for one in split_ids(message.ids)]
            attempts = split_u16(message.attempts) or (1,) * len(ids)
            held.update(zip(ids, attempts, strict=True))
        elif isinstance(message, Cancel):
            known = [task_id for task_id in split_ids(message.ids) if held.pop(TaskId(task_id), None) is not None]
            self._receive(worker, CancelReply(b"".join(known)))
        elif isinstance(message, Recall):
            self._receive(worker, Returned(b"", is_recall_answer=True))

    def _why(self) -> list[str]:
        from scaler.client.futures.explaining import sentence
        from scaler_protocol.messages import Explain

        asked = [
            self.core.explanation(Explain(0, task_id), self.now)
            for task_id in list(self.core.tables.where)[:TOLD_TASKS]
        ]
        return [f"{one.task_id.hex()}: {sentence(one, one.capabilities, 'the dump')}" for one in asked]


def _policy(line: Mapping[str, Any]) -> Policy:
    """Without a limit to the queue: what is in it was accepted. No managers are made, so nothing is scaled."""
    return Policy(
        lost_workers_limit=line["lost_workers_limit"],
        lost_processors_limit=line["lost_processors_limit"],
        load_balance_seconds=line["load_balance_seconds"],
        load_balance_trigger_times=line["load_balance_trigger_times"],
    )


def _deaths(line: Mapping[str, Any]) -> Deaths:
    deaths = Deaths()
    deaths.count, deaths.peak_memory_bytes = line["count"], line["peak_memory_bytes"]
    deaths.accounts.extend(line["accounts"])
    return deaths


def _submit(batch: Json, *, is_sealed: bool) -> Submit:
    sizes, kinds = _id(batch["part_sizes"]), _id(batch.get("part_kinds", ""))
    inputs = iter(split_ids(_id(batch["inputs"])))
    parts = [
        next(inputs) if kinds and kinds[part] == codes.KIND_TASK else bytes(size)
        for part, size in enumerate(split_u32(sizes))
    ]
    names = ("function_indexes", "part_counts", "dependency_counts", "dependencies", "task_flags")
    return Submit(
        header=_header(batch["header"]),
        functions=_id(batch["functions"]),
        ids=_id(batch["ids"]),
        payload=b"".join(parts),
        part_sizes=sizes,
        part_kinds=kinds,
        is_graph_sealed=is_sealed,
        **{name: _id(batch.get(name, "")) for name in names},
    )


def _header(line: Json) -> TaskHeader:
    fields: Json = dict(line)
    for name, kind in (("client", PeerId), ("serializer", ObjectId), ("parent_task", TaskId), ("graph_id", GraphId)):
        if name in fields:
            fields[name] = kind(_id(fields[name]))
    fields["capabilities"] = tuple(Capability(**one) for one in fields.get("capabilities", ()))
    fields["keywords"] = tuple(fields.get("keywords", ()))
    return TaskHeader(**fields)


def _results(held: dict[TaskId, int], credit: int) -> Results:
    sizes = join_u32([len(VALUE)] * len(held))
    return Results(b"".join(held), VALUE * len(held), sizes, attempts=join_u16(list(held.values())), credit=credit)


def _id(text: str) -> bytes:
    return bytes.fromhex(text)
