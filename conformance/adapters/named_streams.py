"""The library's own `stream`, of functions that workers know by name: the suite plays the worker and reads arguments.

`Client.stream` sends functions of Python with pickled arguments. Here the call is packed as `submit_named` packs it,
with the id of the stream and its window in front, as ADAPTER.md says; all else is the library's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scaler import Client, ScalerFuture
from scaler.client.submitting.deferred import Call
from scaler.client.submitting.named import NamedCalls, Raw
from scaler.client.submitting.options import CallOptions
from scaler.client.submitting.streams import ScalerStream
from scaler_protocol.ids import TaskId


def streamed(
    client: Client, name: str, window: int, arguments: tuple[bytes, ...], options: CallOptions
) -> ScalerStream[bytes]:
    """ValueError for a window that is none."""
    calls = _NamedStreams(NamedCalls(client._ready()), name)
    stand_in: Any = SimpleNamespace(_ready=lambda: calls)
    return Client._stream(stand_in, _any_function, arguments, {}, options, window)


def _any_function(*_: Any) -> tuple[()]:
    return ()


class _NamedStreams:
    """As much of the library's calls as a stream uses."""

    serializer = Raw

    def __init__(self, named: NamedCalls, name: str) -> None:
        self._named = named
        self._name = name
        self.connection = named.calls.connection

    def callee(self, _function: Any, arguments: tuple[Any, ...]) -> tuple[str, tuple[bytes, ...]]:
        stream, window, *others = arguments
        return self._name, (stream, b"%d" % window, *others)

    def submit(
        self, name: str, arguments: tuple[bytes, ...], _keywords: dict[str, Any], options: CallOptions,
        task_id: TaskId, future: ScalerFuture[Any],
    ) -> None:  # fmt: skip
        named = self._named
        parts = [named._part(index, argument) for index, argument in enumerate(arguments, start=1)]
        call = Call(named._header(options), named._function(name), task_id, parts, future)
        with self.connection.storage.puts() as puts:
            self.connection.post(named.calls.submission(call, puts))
        puts.hand_over()

    def deserialize(self, data: Any) -> bytes:
        return bytes(data)
