"""A subscription to what one scheduler publishes: a session as monitor, with a Watch (spec chapter 14).

The address may be the scheduler's own, or its monitor's: both lead to the same server. At the start of each session,
and after a gap, the subscription also asks for a snapshot, which arrives before the next publication.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from scaler.client import __version__
from scaler.monitoring.addresses import FEATURE_SERVING, MonitorError, watchable
from scaler.monitoring.recording import Recorder
from scaler.monitoring.state import ClusterState, Condition, Heard
from scaler_protocol import codes
from scaler_protocol.addresses import parse_addresses
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import KeyOptions, NoKeyFound, NoServerFound
from scaler_protocol.messages import (
    ClusterStatus,
    Error,
    GraphShapes,
    Hello,
    Message,
    SnapshotRequest,
    StackSamples,
    TaskLog,
    TaskSamples,
    Watch,
    Welcome,
)
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionDialer
from scaler_protocol.session.handshake import why_no_scheduler
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.software import this_software
from scaler_protocol.transport import Conversation, DealerEndpoint

STATUS = "status"
SNAPSHOT = "snapshot"
#: What is published, by topic; a ClusterStatus with a number is the answer to a request of ours.
_TOPICS: dict[type, str] = {
    ClusterStatus: STATUS,
    TaskSamples: "tasks",
    GraphShapes: "graphs",
    TaskLog: "logs",
    StackSamples: "stacks",
}
#: After so long without a publication, in usual intervals and at least in seconds, the scheduler counts as gone.
OVERDUE_INTERVALS = 3.0
OVERDUE_SECONDS = 3.0
#: A scheduler publishes no more to a watcher that has not acknowledged the last publications. (MON-21)
ACKNOWLEDGE_SECONDS = 0.25
HISTORY_SECONDS = 10.0
"""So often at most the history is asked for again: a watcher that misses samples all the time reads slowly as it is."""
REDIAL_SECONDS = 0.25
REFUSED_SECONDS = 5.0
_FINAL = frozenset((codes.BAD_ROLE, codes.VERSION_MISMATCH, codes.UNAUTHORIZED))
_WATCH_SEQ = 1
_TURN_SECONDS = 0.25


class Subscription:
    """A session with a scheduler that sends its publications of some topics. It belongs to one thread.

    `state` is the ClusterState of now. A subscription costs the scheduler what its topics cost, and nothing else.
    """

    def __init__(
        self,
        address: str,
        topics: Sequence[str] = (STATUS,),
        *,
        recorder: Recorder | None = None,
        keys: KeyOptions = KeyOptions(),  # noqa: B008 (frozen)
    ) -> None:
        """Begin the session; `first` waits until it is there.

        Args:
            address: of the scheduler or of its monitor, or several with commas.
            topics: of "status", "tasks", "graphs", "logs", "stacks". Without any, only questions are answered.
            recorder: writes every publication to a file.
            keys: how to find the cluster's key or a ticket.

        Raises:
            MonitorError: there can be no such address.
            KeyFileError: the key file cannot be used.
        """
        self._given = watchable(address)
        self._keys = keys
        self._topics = tuple(topics)
        self._recorder = recorder
        self.state = ClusterState(address)
        self._begun_at = time.monotonic()
        self._interval_seconds = 1.0  # between two publications, as it was last seen
        self._published_at = 0.0
        #: when the scheduler was last heard, while it is overdue; empty: it is live, or has said goodbye
        self._silent_since = ""
        self._sequence = 0
        #: of the last TaskSamples in this session
        self._samples: TaskSamples | None = None
        self._misses_samples = False
        self._history_at = 0.0
        self._request_id = 0
        #: why the session was refused or has ended; empty while there is nothing to tell the user
        self._refusal = ""
        self._acknowledge_at = 0.0
        self._is_final = False
        self._dial_at = math.inf
        self._session: Conversation | None = None
        self._requests: list[Message] = []
        self._dial(self._begun_at)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session. Leaving a `with` block does the same."""
        if self._session is not None:
            self._session.close()
            self._session = None

    # ------------------------------------------------------------ for the watcher

    def first(self, timeout_seconds: float = 5.0) -> ClusterState:
        """The first state with a status in it.

        Args:
            timeout_seconds: how long to wait for it.

        Raises:
            MonitorError: nothing answered in time, or the scheduler refuses this monitor.
        """
        end_at = time.monotonic() + timeout_seconds
        while self.state.status is None:
            left = end_at - time.monotonic()
            if left <= 0 or self._is_final:
                raise MonitorError(self.refusal or self.nothing_answers(timeout_seconds))
            self.poll(min(left, _TURN_SECONDS))
        return self.state

    def poll(self, seconds: float) -> list[Heard]:
        """The messages that have arrived. It always updates `state`.

        Args:
            seconds: how long to wait for a first message.
        """
        end_at = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            heard = self._receive(now)
            was = self.state.condition
            self._judge(now)
            if heard or now >= end_at or self.state.condition is not was:
                return heard
            self._wait(min(end_at, now + _TURN_SECONDS) - now)

    def ask(self, message: Message) -> None:
        """Send a question to the scheduler as soon as there is a session. The answer has the topic `snapshot`.

        Args:
            message: such as Explain. A Watch has no answer: its topics replace the earlier ones, from now on.
        """
        if isinstance(message, Watch):
            self._topics = message.topics
        self._requests.append(message)

    @property
    def is_refused(self) -> bool:
        """The server has refused us for what we are: to wait a little changes nothing."""
        return self._is_final

    @property
    def refusal(self) -> str:
        """Why there is no session, as the server or our own key says; empty if nothing says it."""
        return self._refusal or ("" if self._session is None else self._session.endpoint.waits_because)

    def nothing_answers(self, seconds: float) -> str:
        """The sentence for a user to whom nothing has answered.

        Args:
            seconds: how long it was waited for.
        """
        return (
            f"nothing has answered at {self.state.address} for {seconds:.0f} s: is the scheduler running, and is this "
            "its address or its monitor address, as it logs them when it starts?"
        )

    # ------------------------------------------------------------ hearing

    def _receive(self, now: float) -> list[Heard]:
        if now >= self._dial_at:
            self._dial(now)
        session = self._session
        if session is None:
            return []
        heard: list[Heard] = []
        for event in session.poll(now):
            if isinstance(event, Opened):
                self._opened(session, event.welcome)
            elif isinstance(event, Received):
                heard.append(self._heard(event.message, now))
            elif isinstance(event, Complained):
                if event.ref_seq == _WATCH_SEQ:
                    self._refusal = event.text
                error = Error(event.code, event.ref_seq, False, event.text, event.clause)
                heard.append(Heard(SNAPSHOT, error, now))
            else:
                self._lost(event, now)
        if session.is_open:
            requests, self._requests = self._requests, []
            for request in requests:
                session.send(request)
        is_eager = now >= self._acknowledge_at
        if is_eager and heard:
            self._acknowledge_at = now + ACKNOWLEDGE_SECONDS
        session.settle(now, is_eager)
        for one in heard:
            self._take(one)
        return heard

    def _heard(self, message: Message, now: float) -> Heard:
        topic = _TOPICS.get(type(message), SNAPSHOT)
        if isinstance(message, ClusterStatus) and message.request_id:
            topic = SNAPSHOT
        if self._recorder is not None and topic != SNAPSHOT:
            self._recorder.write(topic, message)
        return Heard(topic, message, now)

    def _opened(self, session: Conversation, welcome: Welcome) -> None:
        self._refusal = why_no_scheduler(welcome, self.state.address)
        self._is_final = False
        self._samples, self._misses_samples = None, False
        if not self._refusal:
            session.send(Watch(self._topics, wants_history="tasks" in self._topics))  # the first: _WATCH_SEQ
            self._ask_snapshot()

    def _lost(self, event: Lost | Rejected, now: float) -> None:
        """A server that ends our sessions, or refuses them, is dialed again, and not as often as it can do that."""
        self._dial_at = now + REDIAL_SECONDS
        if isinstance(event, Rejected):
            self._refusal = event.text
            self._is_final = event.code in _FINAL
            self._dial_at = now + (REFUSED_SECONDS if self._is_final else REDIAL_SECONDS)
        elif event.is_orderly and self.state.status is not None:
            text = f"the scheduler at {self.state.address} has ended: {event.text or 'it said goodbye'}"
            self._silent_since = ""
            self.state = replace(self.state, condition=Condition.SILENT, text=text)

    def _take(self, heard: Heard) -> None:
        status = heard.message
        if isinstance(status, TaskSamples):
            self._take_samples(status, heard.at)
        if not isinstance(status, ClusterStatus):
            return
        before = self.state.status
        is_other = before is not None and before.server_id != status.server_id
        missed = 0
        if heard.topic == STATUS:
            if not is_other and self._sequence:
                missed = max(0, status.sequence - self._sequence - 1)
            if self._published_at and not is_other and not missed:
                self._interval_seconds = min(60.0, max(0.05, heard.at - self._published_at))
            self._published_at = heard.at
            if missed:
                self._ask_snapshot()
        elif before is not None and not is_other and status.sequence < before.sequence:
            return  # the stream was faster than the answer
        self._sequence = status.sequence
        self._silent_since = ""
        self.state = replace(
            self.state,
            condition=Condition.LIVE,
            text="",
            status=status,
            heard_at=heard.at,
            missed_count=self.state.missed_count + missed,
            restart_count=self.state.restart_count + is_other,
        )

    def _take_samples(self, samples: TaskSamples, now: float) -> None:
        """Failures in publications that this watcher has not got are in the history. (MON-20, MON-34)"""
        before, self._samples = self._samples, samples
        is_next = before is None or before.server_id != samples.server_id or samples.sequence <= before.sequence + 1
        self._misses_samples |= not is_next and not samples.is_history
        if self._misses_samples and now >= self._history_at:
            self._misses_samples = False
            self._history_at = now + HISTORY_SECONDS
            self._requests.append(Watch(self._topics, wants_history=True))

    def _judge(self, now: float) -> None:
        state = self.state
        if state.status is None:
            text = self.refusal or self.nothing_answers(now - self._begun_at)
            self.state = replace(state, text=text if now - self._begun_at > 1.0 else "")
            return
        silent_seconds = now - state.heard_at
        if state.is_live and silent_seconds > max(OVERDUE_SECONDS, OVERDUE_INTERVALS * self._interval_seconds):
            self._silent_since = time.strftime("%H:%M:%S", time.localtime(time.time() - silent_seconds))
        elif state.is_live or not self._silent_since:
            return
        text = self.refusal or (
            f"the scheduler at {state.address} has been silent since {self._silent_since} ({silent_seconds:.0f} s): "
            "what is shown is as it was then"
        )
        if text != state.text:
            self.state = replace(state, condition=Condition.SILENT, text=text)

    # ------------------------------------------------------------ session

    def _ask_snapshot(self) -> None:
        self._request_id += 1
        self._requests.append(SnapshotRequest(self._request_id))

    def _dial(self, now: float) -> None:
        """Again, or for the first time. A scheduler of this machine that is not up yet may be about to make the key."""
        self._dial_at = math.inf
        if self._session is not None:
            self._session.endpoint.redial()
            return
        try:
            shown = self._keys.find_pass(self._given)
        except NoKeyFound as error:
            self._refusal = "" if isinstance(error, NoServerFound) else str(error)
            self._dial_at = now + REDIAL_SECONDS
            return
        hello = Hello(
            version_min=codes.PROTOCOL_VERSION_MIN,
            version_max=codes.PROTOCOL_VERSION_MAX,
            role=codes.ROLE_MONITOR,
            peer_id=new_peer_id(),
            features=(FEATURE_SERVING,) if len(parse_addresses(self._given)) > 1 else (),
            software=this_software("scaler-client", __version__),
        )
        allowed = FROM_SCHEDULER[codes.ROLE_MONITOR]
        dialer = SessionDialer(hello=hello, server_name="scheduler", allowed_messages=allowed, next_peer_id=new_peer_id)
        self._session = Conversation(DealerEndpoint(self._given, dialer, shown))

    def _wait(self, seconds: float) -> None:
        if self._session is None:
            time.sleep(max(0.0, seconds))
        else:
            self._session.wait(seconds)
