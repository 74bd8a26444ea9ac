"""Messages to frames and back. The only package that knows pycapnp.

`messages` says what there is, `schema/v1` how it lies in memory; `plans.py` joins the two once per process. Whatever
bytes come, `decode` gives a message that role code may trust, or raises CodecError.
"""

from scaler_protocol.codec.checks import check
from scaler_protocol.codec.envelope import DEFAULT_LIMITS, Envelope, decode, encode, readable_seq
from scaler_protocol.codec.errors import CodecError
from scaler_protocol.codec.task_error import decode_task_error, encode_task_error

__all__ = [
    "DEFAULT_LIMITS",
    "CodecError",
    "Envelope",
    "check",
    "decode",
    "decode_task_error",
    "encode",
    "encode_task_error",
    "readable_seq",
]
