"""Hypothesis strategies for every message of the protocol: `messages()`, or `of(Ping)` for one kind.

Records without columns are generated from the codec's own plans, so a new field is covered the day it is added. Batches
are built from tasks that are drawn one by one, so their columns agree.
"""

from __future__ import annotations

import typing
from typing import Any

from hypothesis import strategies as st

from scaler_protocol import codes
from scaler_protocol.codec.checks import SAMPLE_BYTES
from scaler_protocol.codec.plans import PAYLOAD, FieldPlan, RecordPlan
from scaler_protocol.codec.registry import registry
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Dispatch,
    Holding,
    KeptResults,
    LiveOwners,
    Message,
    NameFunctions,
    Recall,
    Release,
    Results,
    Returned,
    Submit,
    TaskError,
    TaskHeader,
)

MESSAGE_TYPES: tuple[type, ...] = typing.get_args(Message)
BATCH_TYPES = (Submit, Dispatch, Results)

texts = st.text(max_size=12)
ids = st.binary(min_size=ID_BYTES, max_size=ID_BYTES)
payloads = st.binary(max_size=64)


def _integers(kind: str) -> st.SearchStrategy[int]:
    bits = int(kind.lstrip("uint"))
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(low, high)


def _floats(width: int) -> st.SearchStrategy[float]:
    return st.floats(0, allow_nan=False, allow_infinity=False, width=width)


def _field(field: FieldPlan, is_peer_id: bool) -> st.SearchStrategy[Any]:
    if field.kind == "struct":
        return _record(field.plan)
    if field.kind == "list of struct":
        return st.lists(_record(field.plan), max_size=3).map(tuple)
    if field.kind == "list of text":
        return st.lists(texts, max_size=3).map(tuple)
    if field.is_required_id or is_peer_id:
        return ids
    if field.is_checked_id:
        return st.just(b"") | ids
    if field.name == "samples":
        return st.lists(st.binary(min_size=SAMPLE_BYTES, max_size=SAMPLE_BYTES), max_size=2).map(b"".join)
    if field.name == "functions" and field.kind == "data" and field.plan is None:
        return st.lists(st.binary(min_size=32, max_size=32), max_size=2).map(b"".join)
    if field.name == "function_buckets":  # there may be no row
        return st.just(b"")
    if field.name == "owners":
        return st.lists(ids, max_size=3).map(b"".join)
    if field.name in ("owner_objects", "owner_bytes", "owner_user_bytes"):  # of two owners: all columns have as many
        return st.binary(min_size=16, max_size=16)
    simple = {"text": texts, "data": payloads, "bool": st.booleans(), "float32": _floats(32), "float64": _floats(64)}
    return simple[field.kind] if field.kind in simple else _integers(field.kind)


def _record(plan: RecordPlan[Any] | None) -> st.SearchStrategy[Any]:
    assert plan is not None
    fields = {field.name: _field(field, field.name == "peer_id") for field in plan.fields}
    if plan.payload_index is not None:
        fields[PAYLOAD] = payloads
    return st.builds(plan.record, **fields)


def task_errors() -> st.SearchStrategy[TaskError]:
    return _record(registry().task_error_plan)


def headers(**fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[TaskHeader]:
    plan = registry().by_record[Submit].plan
    assert plan is not None
    header = next(field.plan for field in plan.fields if field.name == "header")
    assert header is not None
    drawn = {field.name: _field(field, False) for field in header.fields}
    return st.builds(TaskHeader, **{**drawn, **fixed})


def _or_empty(draw: st.DrawFn, column: bytes, default: bytes) -> bytes:
    """A column of defaults is left out, or written out: both mean the same. (BAT-1)"""
    is_default = column == default * (len(column) // len(default))
    return b"" if is_default and draw(st.booleans()) else column


_PARTS = {
    codes.KIND_INLINE: payloads,
    codes.KIND_OBJECT: ids,
    codes.KIND_TASK: ids,
}


@st.composite
def _tasks(draw: st.DrawFn, least_parts: int, kinds: typing.Sequence[int]) -> tuple[bytes, list[tuple[int, bytes]]]:
    parts = draw(st.lists(st.sampled_from(kinds).flatmap(lambda k: st.tuples(st.just(k), _PARTS[k])),
                          min_size=least_parts, max_size=least_parts + 3))  # fmt: skip
    return draw(ids), parts


@st.composite
def _batches(draw: st.DrawFn, record: type) -> Submit | Dispatch:
    is_submit = record is Submit
    header = draw(headers() if is_submit else headers(client=ids))
    least = max(len(header.keywords), header.call_format == codes.CALL_PACKED)
    tasks = draw(st.lists(_tasks(least, sorted(_PARTS)), min_size=1, max_size=5, unique_by=lambda task: task[0]))
    parts = [part for _, task_parts in tasks for part in task_parts]
    dependencies = [[value for kind, value in task_parts if kind == codes.KIND_TASK] for _, task_parts in tasks]
    functions = draw(st.lists(ids, min_size=1, max_size=3))
    count = len(tasks)
    indexes = draw(st.lists(st.integers(0, len(functions) - 1), min_size=count, max_size=count))
    columns: dict[str, bytes] = {
        "function_indexes": _or_empty(draw, join_u16(indexes), b"\0\0"),
        "part_counts": _or_empty(draw, join_u16([len(task_parts) for _, task_parts in tasks]), b"\1\0"),
        "part_kinds": _or_empty(draw, bytes(kind for kind, _ in parts), b"\0"),
        "task_flags": draw(st.binary(min_size=count, max_size=count)) if draw(st.booleans()) else b"",
    }
    payload = b"".join(value for _, value in parts)
    if is_submit:
        columns["dependency_counts"] = _or_empty(draw, join_u16([len(own) for own in dependencies]), b"\0\0")
        columns["dependencies"] = b"".join(value for own in dependencies for value in own)
        keys = draw(st.just([b""] * count) | st.lists(st.binary(max_size=8), min_size=count, max_size=count))
        columns["key_sizes"] = _or_empty(draw, bytes(map(len, keys)), b"\0")
        columns["keys"] = b"".join(keys)
    else:
        inputs = {value: draw(_inputs) for own in dependencies for value in own}
        columns["attempts"] = join_u16(draw(st.lists(st.integers(1, 65_535), min_size=count, max_size=count)))
        columns["input_ids"] = b"".join(inputs)
        columns["input_kinds"] = _or_empty(draw, bytes(kind for kind, _ in inputs.values()), b"\0")
        columns["input_sizes"] = join_u32([len(value) for _, value in inputs.values()])
        payload += b"".join(value for _, value in inputs.values())
    return record(  # type: ignore[no-any-return]
        header=header,
        functions=b"".join(functions),
        ids=b"".join(task_id for task_id, _ in tasks),
        payload=payload,
        part_sizes=join_u32([len(value) for _, value in parts]),
        is_graph_sealed=draw(st.booleans()),
        **columns,
    )


_inputs = st.tuples(st.just(codes.KIND_INLINE), payloads) | st.tuples(st.just(codes.KIND_OBJECT), ids)


@st.composite
def _results(draw: st.DrawFn) -> Results:
    rows = draw(st.lists(_result_rows, min_size=1, max_size=6, unique_by=lambda row: row[0]))
    count = len(rows)
    return Results(
        ids=b"".join(row[0] for row in rows),
        payload=b"".join(row[3] for row in rows),
        sizes=join_u32([len(row[3]) for row in rows]),
        attempts=_or_empty(draw, join_u16([row[4] for row in rows]), b"\1\0"),
        statuses=_or_empty(draw, bytes(row[1] for row in rows), b"\0"),
        kinds=_or_empty(draw, bytes(row[2] for row in rows), b"\0"),
        profiles=draw(st.just(b"") | st.binary(min_size=24 * count, max_size=24 * count)),
        credit=draw(st.integers(0, 2**32 - 1)),
    )


@st.composite
def _kept(draw: st.DrawFn) -> KeptResults:
    rows = draw(st.lists(st.tuples(ids, _inputs), min_size=1, max_size=6, unique_by=lambda row: row[0]))
    return KeptResults(
        ids=b"".join(row[0] for row in rows),
        payload=b"".join(row[1][1] for row in rows),
        sizes=join_u32([len(row[1][1]) for row in rows]),
        kinds=_or_empty(draw, bytes(row[1][0] for row in rows), b"\0"),
        task_flags=draw(st.just(b"") | st.binary(min_size=len(rows), max_size=len(rows))),
        graph_id=draw(st.just(b"") | ids),
    )


@st.composite
def _holding(draw: st.DrawFn) -> Holding:
    rows = draw(st.lists(st.tuples(ids, _attempts, ids), max_size=6, unique_by=lambda row: row[0]))
    clients = dict.fromkeys(row[2] for row in rows)
    grants = draw(st.just([]) | st.lists(st.binary(max_size=32), min_size=len(clients), max_size=len(clients)))
    return Holding(
        ids=b"".join(row[0] for row in rows),
        attempts=draw(st.sampled_from((b"", join_u16([row[1] for row in rows])))),
        states=draw(st.just(b"") | st.binary(min_size=len(rows), max_size=len(rows))),
        clients=b"".join(row[2] for row in rows),
        is_last=draw(st.booleans()),
        grants=b"".join(grants),
        grant_sizes=bytes(map(len, grants)),
        worker_count=draw(st.integers(0, 2**32 - 1)),
    )


_attempts = st.integers(1, 65_535)
_result_rows = st.one_of(
    st.tuples(ids, st.integers(0, 6), st.just(codes.KIND_INLINE), payloads, _attempts),
    st.tuples(ids, st.just(codes.STATUS_SUCCESS), st.just(codes.KIND_OBJECT), ids, _attempts),
    st.tuples(ids, st.just(codes.STATUS_CANCELED), st.just(codes.KIND_NONE), st.just(b""), _attempts),
)

_id_lists = st.lists(ids, max_size=5).map(b"".join)
_SPECIAL: dict[type, st.SearchStrategy[Any]] = {
    Submit: _batches(Submit),
    Dispatch: _batches(Dispatch),
    Results: _results(),
    KeptResults: _kept(),
    Holding: _holding(),
    Cancel: st.builds(Cancel, ids=_id_lists, is_all=st.booleans(), grace_seconds=_floats(64)),
    CancelReply: st.lists(ids, max_size=4).flatmap(
        lambda items: st.builds(
            CancelReply, st.just(b"".join(items)), st.just(b"") | st.binary(min_size=len(items), max_size=len(items))
        )
    ),
    Recall: st.builds(Recall, ids=_id_lists),
    Returned: st.builds(Returned, ids=_id_lists, is_recall_answer=st.booleans()),
    NameFunctions: st.lists(st.tuples(ids, texts), max_size=4).map(
        lambda named: NameFunctions(b"".join(one for one, _ in named), tuple(name for _, name in named))
    ),
    LiveOwners: st.builds(
        LiveOwners,
        request_id=st.integers(0, 2**64 - 1),
        ids=_id_lists,
        offset=st.integers(0, 2**32 - 1),
        total_count=st.integers(0, 2**32 - 1),
    ),
    Release: st.builds(Release, request_id=st.integers(0, 2**64 - 1), owner=ids, ids=_id_lists),
}


def of(record: type) -> st.SearchStrategy[Any]:
    """Messages of one kind, any of which `decode` accepts."""
    if record in _SPECIAL:
        return _SPECIAL[record]
    plan = registry().by_record[record].plan
    return st.builds(record) if plan is None else _record(plan)


def messages() -> st.SearchStrategy[Message]:
    return st.sampled_from(MESSAGE_TYPES).flatmap(of)
