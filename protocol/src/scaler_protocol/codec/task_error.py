"""Why a task did not succeed, as it travels inside a payload: a Cap'n Proto message of its own."""

from __future__ import annotations

from scaler_protocol import codes
from scaler_protocol.codec.errors import CodecError, reason
from scaler_protocol.codec.framing import NESTING_MAX, split_segments, traversal_limit
from scaler_protocol.codec.registry import registry
from scaler_protocol.messages import TaskError


def encode_task_error(error: TaskError) -> bytes:
    known = registry()
    builder = known.task_error.new_message()
    known.task_error_plan.write(builder, error)
    encoded: bytes = builder.to_bytes()
    return encoded


def decode_task_error(data: bytes) -> TaskError:
    """Raises only CodecError."""
    known = registry()
    try:
        reader = known.task_error.from_segments(split_segments(data), traversal_limit(data), NESTING_MAX)
        return known.task_error_plan.read(reader)
    except CodecError:
        raise
    except Exception as error:  # noqa: BLE001  as in envelope.py
        text = f"the task error cannot be read: {reason(error)}"
        raise CodecError(codes.BAD_ENVELOPE, text, "FRM-8") from None
