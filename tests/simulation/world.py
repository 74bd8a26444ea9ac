"""One simulated run: a cluster, a programme of work and misfortune drawn from the seed, and the laws at its end."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from random import Random

from scaler_protocol.codec import Envelope
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Dispatch, Hello, Message, Results, Submit, Welcome
from scaler_protocol.session import Lost, Opened
from scaler_scheduler.core import Policy
from scaler_scheduler.core import invariants as scheduler_invariants
from tests.simulation import program
from tests.simulation.clients import Call, ClientNode
from tests.simulation.network import Clock, Network
from tests.simulation.nodes import TIMERS
from tests.simulation.servers import SchedulerNode, StorageNode
from tests.simulation.workers import WorkerNode

#: Virtual seconds in which things go wrong, and after which everything must have come to its end.
TROUBLE_SECONDS = 20.0
PEACE_SECONDS = 400.0
TRANSCRIPT_LINES = 4000


class LawBroken(AssertionError):
    """What must always hold did not. The transcript says how it came to that."""


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    messages: int
    tasks: int
    virtual_seconds: float
    troubles: tuple[str, ...]


class World:
    #: of clients with the feature; a small one is refilled when its client acknowledges, at the latest by a Ping
    result_windows: tuple[int, ...] = (1, 500, 5_000, 0)

    max_processors = 32

    #: every peer has all features, as those of one version have
    is_of_one_version = False

    #: until a scheduler that crashed is started again, at least and at most
    absence_seconds = (0.05, 5.0)

    #: for which a scheduler awaits a peer whose connection has broken
    reconnect_grace_seconds = 2.0

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        #: what it decides does not change what else this seed does
        self.limits_rng = Random(~seed)
        #: and neither does this
        self.present_rng = Random(seed * 7919 + 1)
        self.clock = Clock()
        self.network = Network(self.clock, self.rng, self._note)
        self.transcript: deque[str] = deque(maxlen=TRANSCRIPT_LINES)
        self._messages = 0
        self._names = 0
        self._troubles: list[str] = []
        #: nothing but graphs of tasks that hardly take time: workers then hold many, also ahead of their time (SCH-36)
        self.is_quick = self.rng.random() < 0.3
        #: how often each call has begun to run
        self.runs: Counter[bytes] = Counter()
        #: calls that have succeeded
        self.succeeded: set[bytes] = set()
        #: of each group of tasks that wait for one another, what wakes those that wait already
        self._meetings: dict[bytes, dict[bytes, Callable[[], None]]] = {}
        #: results of ended nodes that clients have given to a new scheduler (SCH-53)
        self.given_count = 0
        #: somebody crashed whose absence a task may be told of
        self.may_fail = False
        self.storage = self._new_storage()
        self.schedulers: tuple[SchedulerNode, ...] = self._new_schedulers()
        self.workers = [
            WorkerNode(self, f"worker{number}", places=self.rng.randint(1, 2), gpus=self.gpus_of(number))
            for number in range(self.rng.randint(1, 4))
        ]
        self.clients: list[ClientNode] = [
            ClientNode(self, f"client{number}") for number in range(self.rng.randint(1, 3))
        ]

    def _new_storage(self) -> StorageNode:
        return StorageNode(self)

    def _new_schedulers(self) -> tuple[SchedulerNode, ...]:
        return (SchedulerNode(self, self.storage),)

    @property
    def scheduler(self) -> SchedulerNode:
        """The one that serves."""
        return self.schedulers[0]

    # ------------------------------------------------------------ for the nodes

    def policy(self) -> Policy:
        return Policy(owner_grace_seconds=TIMERS.lease_seconds)

    def gpus_of(self, worker: int) -> int:
        """How many this worker offers."""
        return 0

    def some(self, features: tuple[str, ...], share: float, rng: Random) -> tuple[str, ...]:
        """Peers of an earlier version do not know them."""
        return features if rng.random() < share or self.is_of_one_version else ()

    def new_name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def note_begin(self, call: bytes) -> None:
        self.runs[call] += 1

    def law(self, holds: bool, text: str) -> None:
        if not holds:
            self.fail(text)

    def fail(self, text: str) -> None:
        raise LawBroken(text)

    def meet(self, call: bytes, wake: Callable[[], None]) -> None:
        """This task waits until all of its group do. One that begins anew is not another."""
        waiting = self._meetings.setdefault(call.split()[3], {})
        waiting[call] = wake
        if len(waiting) >= program.argument_of(call):
            for met in waiting.values():
                met()

    def note_graph(self, calls: Sequence[Call], wanted: Container[Call]) -> None:
        """A client submits a graph of these, and wants the values of some."""

    def check_owners(self) -> None:
        """After each turn of the storage."""

    def was_given(self, worker_id: bytes) -> None:
        """A Dispatch leaves for this worker."""

    def was_sent(self, by: SchedulerNode, peer_id: PeerId, message: Message) -> None:
        """This scheduler sends it."""

    def was_received(self, by: SchedulerNode, peer_id: PeerId, message: Message) -> None:
        """This scheduler has received it."""

    def scheduler_died(self, scheduler: SchedulerNode) -> None:
        """With all that it knew."""

    def was_opened(self, by: SchedulerNode, event: Opened) -> None:
        """A peer has a session with this scheduler."""

    def was_lost(self, by: SchedulerNode, event: Lost) -> None:
        """The session of a peer of this scheduler is over."""

    def may_be_canceled(self, client: ClientNode) -> bool:
        """A client whose session was lost has its tasks cancelled; so has a task whose parent ended."""
        return "." in client.name or self.may_fail

    def note_event(self, who: str, text: str) -> None:
        self.transcript.append(f"{self.clock.now:9.4f}  {who} {text}")

    def _note(self, source: str, destination: str, envelope: Envelope, remark: str) -> None:
        self._messages += 1
        text = _describe(envelope)
        self.transcript.append(
            f"{self.clock.now:9.4f}  {source} -> {destination}  #{envelope.seq} {text}{' ' if remark else ''}{remark}"
        )

    # ------------------------------------------------------------ a run

    def run(self) -> Report:
        self._plan_work()
        self._plan_trouble()
        self._run_until(lambda: False, TROUBLE_SECONDS)
        self._make_peace()
        for client in list(self.clients):
            client.leave()
        self._run_until(self._everybody_left, PEACE_SECONDS)
        self.law(self._everybody_left(), f"these clients wait for ever: {self._stuck()}")
        self._run_until(lambda: False, 3 * TIMERS.lease_seconds)
        self._before_workers_leave()
        for worker in self.workers:
            if worker.is_up:
                worker.drain()
        self._run_until(self._is_empty, 4 * TIMERS.lease_seconds)
        # A storage may have to wait until its session with a scheduler that crashed is lost, and for two namings then.
        self._run_until(lambda: not self.storage.core.objects.objects, 5 * TIMERS.lease_seconds)
        self._check_nothing_is_left()
        return Report(self.seed, self._messages, self._names, self.clock.now, tuple(self._troubles))

    def _run_until(self, is_done: object, seconds: float) -> None:
        end = self.clock.now + seconds
        self.clock.at(end, lambda: None)
        assert callable(is_done)
        while self.clock.now < end and not is_done():
            self.clock.step()

    def _plan_work(self) -> None:
        for client in self.clients:
            for _ in range(self.rng.randint(1, 6) * (3 if self.is_quick else 1)):
                self.clock.at(self.rng.uniform(0, TROUBLE_SECONDS), lambda client=client: self._some_work(client))

    def _some_work(self, client: ClientNode) -> None:
        if not client.is_up:
            return
        what = 0.7 if self.is_quick else self.rng.random()
        if what < 0.6:
            count = self.rng.choice((1, 1, 3, 20, 60))
            client.submit([self.rng.choice(program.KINDS) for _ in range(count)])
        elif what < 0.8:
            client.submit_graph(self.rng.choice((2, 7, 15, 40)), is_quick=self.is_quick)
        else:
            client.submit(["slow"] * self.rng.randint(1, 5))
        if self.rng.random() < 0.3:
            self.clock.after(self.rng.uniform(0, 2), lambda: client.cancel_some() if client.is_up else None)

    # ------------------------------------------------------------ misfortune

    def _plan_trouble(self) -> None:
        rng, weather = self.rng, self.network.weather
        if rng.random() < 0.5:
            weather.loss = rng.choice((0.001, 0.01, 0.05))
        if rng.random() < 0.5:
            weather.duplication = rng.choice((0.01, 0.1))
        weather.delay_seconds = rng.choice((0.0005, 0.01, 0.1))
        weather.slow_seconds = rng.choice((0.0, 0.5, 3.0))
        kinds = (
            self._crash_worker, self._crash_worker, self._crash_client, self._crash_storage, self._part, self._part,
            self._drain_worker, self._crash_scheduler, self._stop_client, self._cut_off_worker,
        )  # fmt: skip
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            self.clock.at(rng.uniform(0.5, TROUBLE_SECONDS), rng.choice(kinds))

    def _trouble(self, text: str) -> None:
        self._troubles.append(text)
        self.note_event("!!", text)

    def _any_worker(self) -> WorkerNode | None:
        """None: managers have to bring them first."""
        return self.rng.choice(self.workers) if self.workers else None

    def _crash_worker(self) -> None:
        worker = self._any_worker()
        if worker is not None and worker.is_up:
            self._trouble(f"{worker.name} crashes")
            self.may_fail = True
            worker.crash()
            self.clock.after(self.rng.uniform(0.1, 15), worker.come_back)

    def _drain_worker(self) -> None:
        worker = self._any_worker()
        if worker is not None and worker.is_up:
            self._trouble(f"{worker.name} is drained")
            worker.drain()
            self.may_fail = True  # what runs longer than the grace is run again, children of its attempt are cancelled
            self.clock.after(self.rng.uniform(3, 10), worker.come_back)

    def _crash_client(self) -> None:
        """Not one of those that tasks have: they live in a processor, and die with it."""
        client = self.rng.choice([client for client in self.clients if "." not in client.name])
        if client.is_up:
            self._trouble(f"{client.name} crashes")
            client.crash()
            client.has_left = True

    def _stop_client(self) -> None:
        """It does not read for a while: within its lease, or longer."""
        client = self.rng.choice([client for client in self.clients if "." not in client.name])
        if client.is_up:
            seconds = self.rng.choice((1.0, 0.8 * TIMERS.lease_seconds, 1.5 * TIMERS.lease_seconds))
            self._trouble(f"{client.name} is stopped for {seconds:g} s")
            self.may_fail = True
            client.stop_for(seconds)

    def _crash_storage(self) -> None:
        self._trouble("storage crashes")
        self.may_fail = True
        self.storage.crash()
        self.clock.after(self.rng.uniform(0.05, 3), self.storage.start)

    def _crash_scheduler(self) -> None:
        if self.scheduler.is_up:
            self._trouble("scheduler crashes")
            self.may_fail = True
            self.scheduler.crash()
            self.clock.after(self.rng.uniform(*self.absence_seconds), self.scheduler.start)

    def _cut_off_worker(self) -> None:
        """From the storage only, and for longer than a task waits for it."""
        worker = self._any_worker()
        if worker is None:
            return
        self._trouble(f"{worker.name} does not reach the storage for 25 s")
        self.may_fail = True
        self.network.part(worker.name, "storage", 25.0)

    def _part(self) -> None:
        names = [worker.name for worker in self.workers] + [client.name for client in self.clients]
        one, other = self.rng.choice(names), self.rng.choice(("scheduler", "storage"))
        seconds = self.rng.choice((0.3, 3.0, 15.0))
        self._trouble(f"{one} and {other} do not reach each other for {seconds:g} s")
        self.may_fail = True
        self.network.part(one, other, seconds)

    def _make_peace(self) -> None:
        self.note_event("--", "peace")
        weather = self.network.weather
        weather.loss = weather.duplication = weather.slow_seconds = 0.0
        weather.delay_seconds = 0.001
        for worker in self.workers:
            worker.come_back()

    # ------------------------------------------------------------ the end

    def _everybody_left(self) -> bool:
        return all(client.has_left or not client.is_up for client in self.clients)

    def _stuck(self) -> list[str]:
        waiting = [client for client in self.clients if client.is_up and not client.has_left]
        return [f"{client.name} ({client.core.pending_count} tasks)" for client in waiting]

    def _before_workers_leave(self) -> None:
        """All clients have left a while ago."""

    def _is_empty(self) -> bool:
        return scheduler_invariants.is_empty(self.scheduler.core)

    def _check_nothing_is_left(self) -> None:
        tables = self.scheduler.core.tables
        left = {name: value for name, value in vars(tables).items() if isinstance(value, dict) and value}
        left.pop("counts", None)
        self.law(self._is_empty(), f"the scheduler still has {left}")
        objects = self.storage.core.objects.objects
        self.law(not objects, f"the storage still has {len(objects)} objects")
        untold = [owner for owner in self.storage.core.gone_owners if owner not in self.storage.told_gone]
        is_forgetful = any(trouble.startswith(("scheduler", "storage")) for trouble in self._troubles)
        self.law(not untold or is_forgetful, f"{len(untold)} owners left, and the storage had to find out by namings")


def _describe(envelope: Envelope) -> str:
    message = envelope.message
    name = type(message).__name__
    if isinstance(message, (Hello, Welcome)):
        return name
    if isinstance(message, (Submit, Dispatch, Results)):
        ids = [message.ids[at : at + 16].hex()[:6] for at in range(0, len(message.ids), 16)]
        statuses = f" statuses {list(message.statuses)}" if isinstance(message, Results) and message.statuses else ""
        return f"{name} {' '.join(ids[:8])}{' …' if len(ids) > 8 else ''}{statuses}"
    fields = ((item.name, getattr(message, item.name)) for item in dataclass_fields(message))
    plain = [f"{key} {_plain(value)}" for key, value in fields if isinstance(value, (bytes, int, str)) and value]
    return f"{name} {', '.join(plain)}".rstrip()


def _plain(value: bytes | int | str) -> str:
    return value.hex()[:12] if isinstance(value, bytes) else str(value)[:80]
