"""A subscription to the monitor stream of one scheduler (spec chapter 14).

The address may be the scheduler's own, or its monitor's. Both are tried at once: the scheduler answers a Hello, and
says where it publishes; a monitor publishes. Then there are a SUB socket for the stream and a session for snapshots: at
the start, so that nobody waits for the next publication, and after a gap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import zmq

from scaler.monitoring.places import MonitorError, monitor_as_seen, scheduler_of, watchable
from scaler.monitoring.recording import Recorder
from scaler.monitoring.state import ClusterState, Condition, Heard
from scaler_protocol import codes
from scaler_protocol.codec import CodecError, decode
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import ClusterStatus, Hello, Limits, Message, SnapshotRequest
from scaler_protocol.session import Lost, Opened, Received, Rejected, SessionDialer
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.software import this_software
from scaler_protocol.transport import Conversation, DealerEndpoint, zmq_context

STATUS = "status"
SNAPSHOT = "snapshot"
#: After so long without a publication, in usual intervals and at least in seconds, the scheduler counts as gone.
OVERDUE_INTERVALS = 3.0
OVERDUE_SECONDS = 3.0
#: A watcher that falls behind by more than this loses messages, and hurts nobody.
BACKLOG_MESSAGES = 1000
_DRAIN_MESSAGES = 200


class Subscription:
    """Of one thread. Costs the scheduler nothing but what the topics cost."""

    def __init__(self, address: str, topics: Sequence[str] = (STATUS,), *, recorder: Recorder | None = None) -> None:
        self._given = watchable(address)
        self._topics = tuple(topics)
        self._recorder = recorder
        self.state = ClusterState(address)
        self._begun_at = time.monotonic()
        self._interval_seconds = 1.0  # between two publications, as it was last seen
        self._published_at = 0.0
        self._sequence = 0
        self._request_id = 0
        #: why the session was refused, if it was: for those who wait in vain
        self._refusal = ""
        self._monitor = self._given
        self._stream = self._subscribe(self._given)
        self._session: Conversation | None = self._dial(self._given)
        self._requests: list[Message] = []

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close(0)
        if self._session is not None:
            self._session.close()
            self._session = None

    # ------------------------------------------------------------ for the watcher

    def first(self, timeout_seconds: float = 5.0) -> ClusterState:
        """The first state with a status in it. Raises MonitorError when nothing answers for so long."""
        end_at = time.monotonic() + timeout_seconds
        while self.state.status is None:
            left = end_at - time.monotonic()
            if left <= 0:
                raise MonitorError(self._refusal or self.nothing_answers(timeout_seconds))
            self.poll(left)
        return self.state

    def poll(self, seconds: float) -> list[Heard]:
        """What has come; waits at most so long for anything. The state is brought up to date also without."""
        end_at = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            heard = self._receive(now)
            was = self.state.condition
            self._judge(now)
            if heard or now >= end_at or self.state.condition is not was:
                return heard
            self._wait(min(end_at, now + 0.25) - now)

    def ask(self, message: Message) -> None:
        """A question to the scheduler, such as Explain, sent as soon as there is a session; its answer has the topic
        `snapshot`."""
        self._requests.append(message)

    def nothing_answers(self, seconds: float) -> str:
        return (
            f"nothing answers at {self.state.address} since {seconds:.0f} s: is the scheduler running, and is this its "
            "address or its monitor address, as it logs them when it starts?"
        )

    # ------------------------------------------------------------ hearing

    def _receive(self, now: float) -> list[Heard]:
        heard = self._receive_session(now)
        for _ in range(_DRAIN_MESSAGES):
            try:
                frames = self._stream.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            found = self._read(frames, now)
            if found is not None:
                heard.append(found)
        for one in heard:
            self._take(one)
        return heard

    def _read(self, frames: Sequence[bytes], now: float) -> Heard | None:
        """What cannot be read is left out: a newer scheduler may publish what we do not know. (MON-6)"""
        if len(frames) != 2:
            return None
        topic, envelope = frames
        try:
            message = decode(envelope, (), Limits()).message
        except CodecError:
            return None
        if self._recorder is not None:
            self._recorder.write(topic, envelope)
        self._follow_monitor()
        return Heard(topic.decode("utf-8", "replace"), message, now)

    def _receive_session(self, now: float) -> list[Heard]:
        session = self._session
        if session is None:
            return []
        heard: list[Heard] = []
        for event in session.poll(now):
            if isinstance(event, Opened):
                self._follow_welcome(session.endpoint.address, event.welcome.monitor_address)
                self._ask_snapshot()
            elif isinstance(event, Received):
                heard.append(Heard(SNAPSHOT, event.message, now))
            elif isinstance(event, Rejected):
                self._refusal = event.text
            elif isinstance(event, Lost):
                if event.is_orderly and self.state.status is not None:
                    text = f"the scheduler at {self.state.address} has ended: {event.text or 'it said goodbye'}"
                    self.state = replace(self.state, condition=Condition.SILENT, text=text)
                session.endpoint.redial()
        if session.is_open:
            requests, self._requests = self._requests, []
            for request in requests:
                session.send(request)
        session.settle(now)
        return heard

    def _take(self, heard: Heard) -> None:
        status = heard.message
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
        self.state = replace(
            self.state,
            condition=Condition.LIVE,
            text="",
            status=status,
            heard_at=heard.at,
            missed_count=self.state.missed_count + missed,
            restart_count=self.state.restart_count + is_other,
        )

    def _judge(self, now: float) -> None:
        state = self.state
        if state.status is None:
            text = self._refusal or self.nothing_answers(now - self._begun_at)
            self.state = replace(state, text=text if now - self._begun_at > 1.0 else "")
            return
        silent_seconds = now - state.heard_at
        if state.is_live and silent_seconds > max(OVERDUE_SECONDS, OVERDUE_INTERVALS * self._interval_seconds):
            text = (
                f"the scheduler at {state.address} has not been heard for {silent_seconds:.0f} s: what is shown is as "
                "it was then"
            )
            self.state = replace(state, condition=Condition.SILENT, text=text)

    # ------------------------------------------------------------ sockets

    def _follow_welcome(self, dialed: str, monitor: str) -> None:
        """We have found the scheduler: it says where it publishes."""
        place = monitor_as_seen(monitor, dialed)
        if place and place != self._monitor:
            self._monitor = place
            self._stream.close(0)
            self._stream = self._subscribe(place)

    def _follow_monitor(self) -> None:
        """We have found the monitor: the scheduler is probably where it is by default. It is only for snapshots."""
        session = self._session
        if session is not None and not session.is_open and session.endpoint.address == self._monitor:
            session.close()
            self._session = self._dial(scheduler_of(self._monitor))

    def _ask_snapshot(self) -> None:
        self._request_id += 1
        self._requests.append(SnapshotRequest(self._request_id))

    def _subscribe(self, address: str) -> zmq.Socket[bytes]:
        socket = zmq_context().socket(zmq.SUB)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, BACKLOG_MESSAGES)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        socket.setsockopt(zmq.IPV6, int("[" in address))
        socket.setsockopt(zmq.MAXMSGSIZE, Limits().envelope_bytes)
        for topic in self._topics:
            socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
        socket.connect(address)
        return socket

    def _dial(self, address: str) -> Conversation:
        hello = Hello(
            version_min=codes.PROTOCOL_VERSION_MIN,
            version_max=codes.PROTOCOL_VERSION_MAX,
            role=codes.ROLE_MONITOR,
            peer_id=new_peer_id(),
            software=this_software("scaler-client"),
        )
        allowed = FROM_SCHEDULER[codes.ROLE_MONITOR]
        dialer = SessionDialer(hello=hello, server_name="scheduler", allowed_messages=allowed)
        return Conversation(DealerEndpoint(address, dialer))

    def _wait(self, seconds: float) -> None:
        if self._session is not None:
            self._session.wait(seconds, self._stream)
        else:
            self._stream.poll(math.ceil(max(0.0, seconds) * 1000))
