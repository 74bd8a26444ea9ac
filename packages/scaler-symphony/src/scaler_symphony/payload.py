"""What travels inside Symphony's messages.

To the service: a pickle of `(run_call, fields of a Request)`, which only names the function. So a service that does no
more than `function, *arguments = cloudpickle.loads(payload)` and answers `cloudpickle.dumps(function(*arguments))` runs
our tasks as well as the one that we bring. Back: a pickle of plain values only; the adapter reads nothing else.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from scaler_symphony.core.events import Reply
from scaler_symphony.request import Request
from scaler_symphony.runner import run_call

PROTOCOL = 5


class BadReply(Exception):
    """Whatever answered is not our service."""


def pack_request(request: Request) -> bytes:
    return pickle.dumps((run_call, tuple(request)), PROTOCOL)


def unpack_reply(content: bytes) -> Reply:
    try:
        status, kind, value, profile, printed = _PlainUnpickler(io.BytesIO(content)).load()
        lines = tuple((int(stream), str(text)) for stream, text in printed)
        if not (isinstance(value, bytes) and isinstance(profile, bytes) and 0 <= status < 256 and 0 <= kind < 256):
            raise BadReply("its fields are of other types")
    except Exception as error:  # noqa: BLE001 - nonsense makes an unpickler raise anything
        reason = f"{type(error).__name__}: {error}"
        raise BadReply(f"the Symphony service did not answer as scaler-symphony's does: {reason}") from None
    return Reply(status, kind, value, profile, lines)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise BadReply(f"it names {module}.{name}, and results are plain values")
