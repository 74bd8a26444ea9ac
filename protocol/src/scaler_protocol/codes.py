"""The numbers of the protocol that grow: roles, kinds, statuses, flags, error codes (`schema/v1/constants.capnp`).

A test holds these equal to the schema's constants. Unknown values are legal on the wire; what they mean to a receiver
that does not know them is said in the spec (EVO-4).
"""

from __future__ import annotations

PROTOCOL_VERSION_MIN = 1
PROTOCOL_VERSION_MAX = 1

ROLE_CLIENT = 1
ROLE_WORKER = 2
ROLE_SCHEDULER = 3
ROLE_MONITOR = 4
ROLE_MANAGER = 5

CALL_PACKED = 0
CALL_SEPARATE = 1
CALL_RAW = 2

KIND_INLINE = 0
KIND_OBJECT = 1
KIND_TASK = 2
KIND_NONE = 2

STATUS_SUCCESS = 0
STATUS_FAILED = 1
STATUS_CANCELED = 2
STATUS_WORKER_LOST = 3
STATUS_PROCESSOR_DIED = 4
STATUS_TIMED_OUT = 5
STATUS_REFUSED = 6

FLAG_PROFILING = 1
FLAG_STREAM_OUTPUT = 2
TASK_UNWANTED = 1

UNIT_STARTING = 1
UNIT_RUNNING = 2
UNIT_STOPPING = 3

CANCEL_CANCELED = 0
CANCEL_TOO_LATE = 1
CANCEL_UNKNOWN = 2

OK = 0
BAD_FRAMING = 100
BAD_ENVELOPE = 101
TOO_LARGE = 102
UNKNOWN_MESSAGE = 103
BAD_IDENTITY = 104
VERSION_MISMATCH = 200
BAD_ROLE = 201
NO_SESSION = 202
SEQUENCE_GAP = 203
SESSION_REPLACED = 204
LEASE_EXPIRED = 205
UNAUTHORIZED = 206
OVERLOADED = 207
SHUTTING_DOWN = 208
BAD_BATCH = 300
DUPLICATE_TASK = 301
UNKNOWN_TASK = 302
NOT_ALLOWED = 303
CREDIT_EXCEEDED = 304
BAD_GRAPH = 305
NO_SUCH_OBJECT = 400
OWNER_GONE = 401
STORAGE_FULL = 402
BAD_CHUNK = 403
UNREADABLE_FILE = 404
TASK_RAISED = 500
TASK_TIMED_OUT = 501
PROCESSOR_DIED = 502
WORKER_LOST = 503
TASK_CANCELED = 504
DEPENDENCY_FAILED = 505
FUNCTION_UNREADABLE = 506
RESULT_UNREADABLE = 507
TOO_DEEP = 508
QUEUE_FULL = 509

_ERROR_NAMES = {
    value: name for name, value in list(globals().items()) if name == "OK" or (type(value) is int and value >= 100)
}


def error_code_name(code: int) -> str:
    """How logs and people call an error: BAD_BATCH. A newer peer's code has no name here. (ERR-5)"""
    return _ERROR_NAMES.get(code, f"error {code}")
