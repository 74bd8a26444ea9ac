"""Functions that tasks name, with bytes for arguments and result. (BAT-6, BAT-12)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.codes import (
    BAD_BATCH,
    CALL_RAW,
    FUNCTION_UNREADABLE,
    STATUS_FAILED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    TASK_RAISED,
)
from scaler_protocol.columns import join_u16
from scaler_protocol.ids import ObjectId, content_id
from scaler_protocol.process import UsageError
from scaler_worker.config import parse_arguments

MODULE = """
from json import dumps  # an import is no function of this module

def joined(*parts, by=b""):
    return by.join(parts)

def wrong():
    return "text"

def _hidden():
    return b""
"""


@pytest.fixture
def start_named(start_worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "named_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return start_worker(functions=("named_functions",))


def run_named(cluster: Any, name: str, *arguments: bytes, **header: Any) -> Any:
    content = b"name:" + name.encode()
    function = ObjectId(content_id(content))
    cluster.storage.objects[function] = content
    header.setdefault("call_format", CALL_RAW)
    counts = join_u16([len(arguments)])
    (task,) = cluster.dispatch_parts(function, list(arguments), count=1, part_counts=counts, **header)
    return cluster.wait_results([task])[0]


def test_a_named_function_is_called_with_bytes(cluster: Any, start_named: Any) -> None:
    assert run_named(cluster, "joined", b"a", b"", b"b").value == b"ab"
    assert run_named(cluster, "joined").value == b"", "a call without arguments, and a result of no bytes"
    result = run_named(cluster, "joined", b"a", b"b", b"-", keywords=("by",))
    assert (result.status, result.value) == (STATUS_SUCCESS, b"a-b"), "the last parts go by these names"


@pytest.mark.parametrize("name", ["missing", "_hidden", "dumps", ""])
def test_only_what_the_module_offers_can_be_named(cluster: Any, start_named: Any, name: str) -> None:
    result = run_named(cluster, name)
    assert (result.status, result.error.code) == (STATUS_REFUSED, FUNCTION_UNREADABLE)
    assert repr(name) in result.error.message and "named_functions" in result.error.message


def test_what_is_no_bytes_is_the_functions_failure(cluster: Any, start_named: Any) -> None:
    assert run_named(cluster, "wrong").status == STATUS_FAILED
    result = run_named(cluster, "joined", b"", keywords=("unknown",))
    assert (result.status, result.error.code) == (STATUS_FAILED, TASK_RAISED)


def test_an_unknown_call_format_is_refused(cluster: Any, start_named: Any) -> None:
    result = run_named(cluster, "joined", b"a", call_format=9)
    assert (result.status, result.error.code) == (STATUS_REFUSED, BAD_BATCH)


def test_a_worker_without_modules_says_what_it_lacks(cluster: Any, worker: Any) -> None:
    result = run_named(cluster, "joined")
    assert (result.status, result.error.code) == (STATUS_REFUSED, FUNCTION_UNREADABLE)
    assert "--functions" in result.error.message


def test_a_module_that_is_not_there_is_told_at_the_door(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_arguments(["tcp://127.0.0.1:1", "--functions", "json, os.path"]).functions == ("json", "os.path")
    with pytest.raises((UsageError, SystemExit)) as caught:
        parse_arguments(["tcp://127.0.0.1:1", "--functions", "json,no_such.module"])
    assert "no_such.module" in f"{caught.value}{capsys.readouterr().err}"
