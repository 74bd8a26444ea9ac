"""What decoded messages must hold beyond what the schema can say. A message that passes here may be trusted.

Columns of batches are judged in `batches.py`. Other lists of ids need only be whole: they are sets, and an id that
comes twice in one counts once (BAT-2, CAN-1). Values of open sets that are not known here (call formats, flags,
streams, outcomes of a cancel, error codes, …) are handed on as they are: the table of EVO-4 gives each its meaning,
which is for the roles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler_protocol import codes
from scaler_protocol.codec.batches import check_dispatch, check_holding, check_kept, check_results, check_submit
from scaler_protocol.codec.errors import CodecError
from scaler_protocol.columns import BUCKET_ROW, BUCKETS, FUNCTION_ROW, FUNCTIONS_MAX
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Dispatch,
    Holding,
    KeptResults,
    Limits,
    LiveOwners,
    Message,
    NameFunctions,
    Recall,
    Release,
    Results,
    Returned,
    StorageStatus,
    StorageStatusRequest,
    Submit,
    WorkerStatus,
)

SAMPLE_BYTES = 56
"""A row of `WorkerStatus.samples`."""
OWNERS_MAX = 1_000
"""In a StorageStatusRequest. (MON-26)"""


def check(message: Message, limits: Limits) -> None:
    """Raises CodecError. `decode` has called this already; simulations that move records without bytes call it too."""
    checker = _CHECKS.get(type(message))
    if checker is not None:
        checker(message, limits)


def _check_ids(message: Cancel | CancelReply | Recall | Returned | Release | LiveOwners, limits: Limits) -> None:
    """May be empty. How many there can be is bounded by the size of the envelope. (FRM-4)"""
    if len(message.ids) % ID_BYTES:
        raise _bad_column("ids", f"{len(message.ids)} bytes, which are not whole ids of {ID_BYTES}")


def _check_cancel_reply(reply: CancelReply, limits: Limits) -> None:
    _check_ids(reply, limits)
    count = len(reply.ids) // ID_BYTES
    if reply.outcomes and len(reply.outcomes) != count:
        raise _bad_column("outcomes", f"{len(reply.outcomes)} bytes for {count} ids")


def _check_status(status: WorkerStatus, limits: Limits) -> None:
    if len(status.samples) % SAMPLE_BYTES:
        raise _bad_column("samples", f"{len(status.samples)} bytes, which are not whole rows of {SAMPLE_BYTES}")
    functions, buckets = status.functions, status.function_buckets
    if not functions and not buckets:
        return
    if len(functions) % FUNCTION_ROW.size or len(functions) > FUNCTION_ROW.size * (FUNCTIONS_MAX + 1):
        text = f"{len(functions)} bytes, which are not at most {FUNCTIONS_MAX + 1} rows of {FUNCTION_ROW.size}"
        raise _bad_column("functions", text)
    rows = len(functions) // FUNCTION_ROW.size
    if len(buckets) % BUCKET_ROW.size or len(buckets) > BUCKET_ROW.size * BUCKETS * rows:
        text = f"{len(buckets)} bytes, which are not at most {BUCKETS} rows of {BUCKET_ROW.size} for each of {rows}"
        raise _bad_column("functionBuckets", text)
    if any(row >= rows or bucket >= BUCKETS for row, bucket, _ in BUCKET_ROW.iter_unpack(buckets)):
        raise _bad_column("functionBuckets", f"a row of {rows}, or a bucket of {BUCKETS}, that does not exist")


def _check_names(message: NameFunctions, limits: Limits) -> None:
    if len(message.ids) != ID_BYTES * len(message.names):
        raise _bad_column("ids", f"{len(message.ids)} bytes for {len(message.names)} names")


def _check_owners(request: StorageStatusRequest, limits: Limits) -> None:
    if len(request.owners) % ID_BYTES or len(request.owners) > OWNERS_MAX * ID_BYTES:
        text = f"{len(request.owners)} bytes, which are not at most {OWNERS_MAX} ids of {ID_BYTES}"
        raise _bad_column("owners", text)


def _check_owned(status: StorageStatus, limits: Limits) -> None:
    if len(status.owner_objects) % 8 or len(status.owner_objects) != len(status.owner_bytes):
        sizes = f"{len(status.owner_objects)} bytes beside {len(status.owner_bytes)}"
        raise _bad_column("ownerObjects", f"{sizes}, which are not as many numbers of 8 bytes in both")
    if status.owner_user_bytes and len(status.owner_user_bytes) != len(status.owner_objects):
        text = f"{len(status.owner_user_bytes)} bytes beside {len(status.owner_objects)}, which are not as many or none"
        raise _bad_column("ownerUserBytes", text)


def _bad_column(name: str, text: str) -> CodecError:
    return CodecError(codes.BAD_ENVELOPE, f"column {name} has {text}", "FRM-8")


_CHECKS: dict[type, Callable[[Any, Limits], None]] = {
    Submit: check_submit,
    Dispatch: check_dispatch,
    Results: check_results,
    KeptResults: check_kept,
    Holding: check_holding,
    Cancel: _check_ids,
    CancelReply: _check_cancel_reply,
    Recall: _check_ids,
    Returned: _check_ids,
    Release: _check_ids,
    StorageStatusRequest: _check_owners,
    StorageStatus: _check_owned,
    LiveOwners: _check_ids,
    WorkerStatus: _check_status,
    NameFunctions: _check_names,
}
