"""What a case is given: peers of its own, and words to say what must be true."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeVar

from .arena import Arena
from .generated.engine import Player, Run, explore
from .launch import Subject
from .play.asking import StoragePeer
from .play.clock import Stopwatch
from .play.conversation import Conversation
from .play.dialer import Dialer
from .play.host import Guest
from .play.manager import ManagerGuest
from .play.monitor import MonitorPeer
from .play.roles import ClientPeer, WorkerPeer
from .play.scheduler import ClientGuest, SchedulerHost, WorkerGuest
from .play.storage import StorageHost
from .play.testee import Testee, connect
from .transcript import Transcript
from .verdicts import Breach, Unsupported
from .wire import CODES, Message
from .wire.codes import Named

Peer = TypeVar("Peer", bound=Dialer)
ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Settings:
    #: of generated sequences; the same seed gives the same ones
    seed: int = 0
    is_full: bool = False
    #: give up a role after so many failures; zero: never
    stop_at: int = 0
    everyday_examples: int = 120
    everyday_seconds: float = 45.0
    #: play a failure again before it counts
    confirms: bool = True
    #: how long a failing sequence is made smaller
    shrink_seconds: float = 20.0

    @property
    def examples(self) -> int:
        return 1000 if self.is_full else self.everyday_examples

    @property
    def length(self) -> int:
        return 60 if self.is_full else 30

    @property
    def generated_seconds(self) -> float:
        return 400.0 if self.is_full else self.everyday_seconds


class Scene:
    def __init__(self, arena: Arena, settings: Settings) -> None:
        self.settings = settings
        self.arena = arena
        self.pump = arena.pump
        self.role = arena.role
        self.transcript = Transcript(arena.role)
        self.peers: list[Dialer] = []
        #: of generated sequences, when there were any
        self.run: Run | None = None
        #: in whose names a case stores objects, beside those of its peers
        self.owners: set[bytes] = set()
        arena.use(self.transcript)

    def begin_again(self, seconds: float) -> None:
        """An empty stage within the same case: for one sequence of many."""
        self.transcript = Transcript(self.role)
        self.peers.clear()
        self.owners.clear()
        self.arena.use(self.transcript)
        self.pump.deadline = time.monotonic() + seconds

    def explore(self, play: Player, weights: Mapping[str, int]) -> None:
        """Generated sequences, as many as the settings ask for; the smallest failing one is the Breach."""
        settings = self.settings
        self.run = explore(
            self,
            play,
            weights,
            examples=settings.examples,
            length=settings.length,
            seed=settings.seed,
            seconds=settings.generated_seconds,
            shrink_seconds=settings.shrink_seconds,
        )
        if self.run.breach is not None:
            raise self.run.breach

    # ------------------------------------------------------------ peers

    def client(self, *, is_open: bool = True, **hello: Any) -> ClientPeer:
        peer = ClientPeer(self.pump, self.transcript, self._name("client"), "client", self.arena.address, self.role)
        return self._join(peer, is_open, hello)

    def worker(
        self,
        credit: int = 0,
        *,
        reserve: int = 0,
        capabilities: dict[str, int] | None = None,
        code_tags: tuple[str, ...] = (),
        is_open: bool = True,
        **hello: Any,
    ) -> WorkerPeer:
        peer = WorkerPeer(self.pump, self.transcript, self._name("worker"), "worker", self.arena.address, self.role)
        offered = [{"name": name, "amount": amount} for name, amount in (capabilities or {}).items()]
        offer = {"name": peer.name, "credit": credit, "nestedReserve": reserve, "capabilities": offered}
        if code_tags:
            offer["codeTags"] = list(code_tags)
        return self._join(peer, is_open, {"worker": offer, **hello})

    def peer(self, role: str = "client", *, is_open: bool = True, **hello: Any) -> Dialer:
        """A dialer of any role, for cases that hold for every server."""
        peer = Dialer(self.pump, self.transcript, self._name(role), role, self.arena.address, self.role)
        return self._join(peer, is_open, hello)

    def requester(self, role: str = "client", *, is_open: bool = True, **hello: Any) -> StoragePeer:
        """Someone who asks a storage under test."""
        peer = StoragePeer(self.pump, self.transcript, self._name(role), role, self.arena.address, self.role)
        return self._join(peer, is_open, hello)

    def monitor(self, *topics: str, address: str = "", is_open: bool = True, is_watching: bool = True) -> MonitorPeer:
        """Watches these topics, `status` if none is named."""
        where = address or self.arena.address
        peer = MonitorPeer(self.pump, self.transcript, self._name("watcher"), "monitor", where, self.role)
        self._join(peer, is_open, {})
        if is_open and is_watching:
            peer.watch(*(topics or ("status",)))
        return peer

    def _join(self, peer: Peer, is_open: bool, hello: dict[str, Any]) -> Peer:
        self.peers.append(peer)
        if is_open:
            peer.open(**hello)
        return peer

    def _name(self, role: str) -> str:
        return f"{role}{1 + sum(peer.name.rstrip('0123456789') == role for peer in self.peers)}"

    @property
    def subject(self) -> Subject:
        """The process under test."""
        assert self.arena.subject is not None, "it is started before the case"
        return self.arena.subject

    @property
    def storage(self) -> StorageHost:
        assert self.arena.storage is not None, "only a scheduler, a worker or a client has a storage beside it"
        return self.arena.storage

    @property
    def scheduler(self) -> SchedulerHost:
        assert self.arena.scheduler is not None, "only a worker or a client has a scheduler beside it"
        return self.arena.scheduler

    def worker_under_test(self) -> WorkerGuest:
        """Its present session with the scheduler that the suite plays."""
        guest = self.scheduler.guest("worker")
        assert isinstance(guest, WorkerGuest)
        return guest

    def client_under_test(self, **options: Any) -> ClientGuest:
        """Told to connect; its session with the scheduler that the suite plays."""
        return connect(self, **options)

    @property
    def testee(self) -> Testee:
        assert self.arena.testee is not None, "only a client is driven by JSON lines"
        return self.arena.testee

    def guest(self) -> Guest:
        """The session of the dialer under test, whatever its role."""
        return self.client_under_test() if self.role == "client" else self.scheduler.guest(self.role)

    def manager_under_test(self) -> ManagerGuest:
        """Its present session with the scheduler that the suite plays, after its first ManagerStatus in it."""
        guest = self.scheduler.guest("manager")
        assert isinstance(guest, ManagerGuest)
        guest.wait(lambda: bool(guest.statuses), "no ManagerStatus came after the Welcome", "MGR-3")
        return guest

    def start_again(self, *, keeps_directory: bool = False) -> None:
        """Another life of the process under test, with new peers around it."""
        self.arena.start(self.arena.variant, keeps_directory=keeps_directory)
        self.arena.use(self.transcript)

    def storage_session(self) -> Guest:
        """The scheduler's session with the storage that the suite plays."""
        return self.storage.guest("scheduler", clause="HSK-1")

    def _worker_is_idle(self) -> None:
        """It has its session, and answers; a case that leaves tasks behind is to be `fresh`."""
        guest = self.worker_under_test()
        guest.checks_laws = True
        guest.fence()
        guest.inbox.clear()

    def _manager_has_no_units(self) -> None:
        guest = self.manager_under_test()
        guest.checks_laws = True
        guest.target(0, guest.units)
        guest.wait_for_none()
        guest.fence()
        guest.inbox.clear()

    def _release_everything(self) -> None:
        """What the peers have stored goes: the next case counts objects."""
        broom = StoragePeer(self.pump, self.transcript, "broom", "scheduler", self.arena.address, self.role)
        self.peers.append(broom)
        broom.open()
        for owner in self.owners | {peer.peer_id for peer in self.peers}:
            broom.release_owner(owner, is_answered=False)
        broom.fence()
        broom.leave()

    def stopwatch(self) -> Stopwatch:
        return Stopwatch(self.pump, self.arena.manifest.slack)

    # ------------------------------------------------------------ words

    def settle(self, *peers: Conversation) -> None:
        """A fence for each in turn: what the first has caused to the second is there afterwards (LIV-4)."""
        for peer in peers:
            peer.fence()

    def check(self, is_so: bool, otherwise: str, clause: str = "") -> None:
        if not is_so:
            raise Breach(otherwise, clause)

    def equal(self, found: Any, expected: Any, what: str, clause: str = "") -> None:
        if found != expected:
            told = f"{what} is {self._shown(found, expected)} and must be {self._shown(expected, expected)}"
            raise Breach(told, clause)

    def _shown(self, value: Any, like: Any) -> str:
        """Ids by the names that the transcript has for them, and numbers by those of the constant in their place."""
        if isinstance(value, bytes):
            return self.transcript.known(value) if len(value) == ID_BYTES else _text(value)
        if isinstance(value, (dict, list, tuple, set, frozenset)):
            items = value.values() if isinstance(value, dict) else value
            shown = [self._shown(each, at) for each, at in zip(items, _places(like, value), strict=False)]
            if isinstance(value, dict):
                keys = (self._shown(key, None) for key in value)
                return "{" + ", ".join(map("{}: {}".format, keys, shown)) + "}"
            return f"({', '.join(shown)})" if isinstance(value, tuple) else f"[{', '.join(shown)}]"
        return like.name_of(value) if isinstance(like, Named) and isinstance(value, int) else str(value)

    def fail(self, text: str, clause: str = "") -> None:
        raise Breach(text, clause)

    def needs(self, is_there: bool, text: str) -> None:
        if not is_there:
            raise Unsupported(text)

    def needs_feature(self, feature: str, hello: Message) -> None:
        """Unsupported, unless this Hello of the role under test names it. What the manifest claims is held to."""
        is_named = feature in hello["features"]
        is_claimed = feature in self.arena.manifest.features
        self.check(
            is_named or not is_claimed, f"the manifest claims `{feature}`, and the Hello does not name it", "HSK-6"
        )
        self.needs(is_named, f"the feature `{feature}` is optional, and it does not name it")

    # ------------------------------------------------------------ the end

    def close(self, *, is_spoiled: bool = False) -> bool:
        """Everybody leaves in order. Whether the process is as it was before; no use to ask when it is spoiled."""
        try:
            if is_spoiled:
                return False
            # Clients first: their tasks are canceled and nobody is given them again.
            for peer in sorted(self.peers, key=lambda peer: peer.role != "client"):
                peer.leave()
            if self.role == "storage":
                self._release_everything()
            if self.role == "client":
                self.testee.reset()
            if self.role == "worker":
                self._worker_is_idle()
            if self.role == "manager":
                self._manager_has_no_units()
        except (Breach, Unsupported):
            return False
        finally:
            for peer in self.peers:
                peer.close()
        return True


def _places(like: Any, value: Any) -> Iterable[Any]:
    """For each item of what was found what was expected in its place; where there is none, what was in the first."""
    if isinstance(like, dict) and isinstance(value, dict):
        return [like.get(key, next(iter(like.values()), None)) for key in value]
    expected = list(like) if isinstance(like, (list, tuple, set, frozenset)) else []
    return chain(expected, repeat(expected[0] if expected else None))


def _text(value: bytes) -> str:
    return repr(value[:40])[1:] if value.isascii() else f"{value[:20].hex()} ({len(value)} bytes)"


__all__ = ["CODES", "Scene"]
