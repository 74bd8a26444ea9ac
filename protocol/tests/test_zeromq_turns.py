"""What one turn of a server reads from its socket: a long message begins one, so that nothing waits behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol.messages import Limits
from scaler_protocol.transport import zeromq
from scaler_protocol.transport.zeromq import ZeroMqRouter

LONG = zeromq._LONG_BYTES


class Frame:
    def __init__(self, data: bytes, more: bool) -> None:
        self.bytes = self.buffer = data
        self.more = more

    def __len__(self) -> int:
        return len(self.bytes)


class Socket:
    """What has arrived: messages of an envelope and a payload, each behind the routing id of its sender."""

    closed = True

    def __init__(self, messages: Sequence[tuple[int, int]]) -> None:
        self._frames: deque[Frame] = deque()
        for sender, size in messages:
            self._frames += [Frame(bytes([sender]), True), Frame(bytes(size), True), Frame(b"payload", False)]

    def fileno(self) -> int:
        return 0

    def has_input(self) -> bool:
        return bool(self._frames)

    def recv(self, flags: int, copy: bool = True) -> Any:
        frame = self._frames.popleft()
        return frame.bytes if copy else frame


@pytest.fixture(autouse=True)
def no_other_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "BUDGET_SECONDS", 1e9)
    monkeypatch.setattr(zeromq, "_BUDGET_BYTES", 1 << 40)
    real = zeromq.sockets.has_input

    def has_input(socket: Any) -> bool:
        """Threads of this process may read from sockets of their own meanwhile."""
        return socket.has_input() if isinstance(socket, Socket) else real(socket)

    monkeypatch.setattr(zeromq.sockets, "has_input", has_input)


def turns_of(messages: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    router = ZeroMqRouter(Socket(messages), Limits())  # type: ignore[arg-type]
    turns: list[list[tuple[int, int]]] = []
    while router.has_input():
        turn = [(routing_id[0], len(parts[0] or b"")) for routing_id, parts in router.messages()]
        assert turn, "each turn reads something"
        turns.append(turn)
    assert router.is_quiet
    return turns


def test_a_call_does_not_wait_for_the_long_message_behind_it() -> None:
    assert turns_of([(1, 100), (2, LONG + 1), (1, 100), (3, 50)]) == [[(1, 100)], [(2, LONG + 1), (1, 100), (3, 50)]]
    assert turns_of([(1, 100), (2, LONG), (1, 100)]) == [[(1, 100), (2, LONG), (1, 100)]], "and not for shorter ones"


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from((1, LONG, LONG + 1, 4 * LONG))), max_size=30))
def test_each_long_message_begins_a_turn_and_nothing_is_lost(messages: list[tuple[int, int]]) -> None:
    turns = turns_of(messages)
    assert [message for turn in turns for message in turn] == messages
    assert all(size <= LONG for turn in turns for _, size in turn[1:])
