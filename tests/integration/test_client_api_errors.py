"""How a task's failure reaches the caller, with real workers."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.utility.exceptions import (
    RemoteError,
    RemoteTraceback,
    ResultNotSerializableError,
    ScalerError,
    TaskExceptionNotSerializableError,
)
from tests.support import api_tasks, tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


def test_type_cause_notes_and_frames_are_the_tasks_own(client: Client) -> None:
    error = client.submit(api_tasks.raise_with_all).exception(WAIT)
    assert type(error) is ValueError and error.args == ("outer",)
    cause = error.__cause__
    assert type(cause) is KeyError and isinstance(cause.__cause__, RemoteTraceback)
    if sys.version_info >= (3, 11):
        assert error.__notes__ == ["a note"]
    told = "".join(traceback.format_exception(error))
    assert "in raise_with_all" in told and 'empty["inner"]' in told


def test_an_exception_that_does_not_survive_pickling(client: Client) -> None:
    with pytest.raises(TaskExceptionNotSerializableError, match="the story") as caught:
        client.submit(api_tasks.raise_broken).result(WAIT)
    assert caught.value.type_name.endswith("Broken") and "in raise_broken" in caught.value.text
    assert client.submit(tasks.square, 2).result(WAIT) == 4


def test_an_exception_whose_class_wants_more_than_its_arguments(client: Client) -> None:
    error = client.submit(api_tasks.raise_needs_two).exception(WAIT)
    assert type(error) is api_tasks.NeedsTwo and str(error) == "7: the reason"


def test_an_exception_whose_class_is_only_on_the_worker(client: Client) -> None:
    with pytest.raises(RemoteError, match="what happened there") as caught:
        client.submit(api_tasks.raise_unimportable).result(WAIT)
    assert caught.value.type_name == "only_on_the_worker.Gone"
    assert isinstance(caught.value, ScalerError)
    assert "in raise_unimportable" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("function", "kind"), [(api_tasks.leave, SystemExit), (api_tasks.press_ctrl_c, KeyboardInterrupt)]
)
def test_leaving_a_task_ends_the_task_and_nothing_else(
    client: Client, function: object, kind: type[BaseException]
) -> None:
    error = client.submit(function).exception(WAIT)  # type: ignore[arg-type]
    assert type(error) is RemoteError and type(error.__cause__) is kind
    assert error.type_name == f"builtins.{kind.__name__}", "raised as itself it would end the caller's program"
    assert client.submit(tasks.square, 2).result(WAIT) == 4, "the worker goes on"


def test_a_result_that_cannot_be_pickled(client: Client) -> None:
    with pytest.raises(ResultNotSerializableError, match=r"generator.*Return list\(\.\.\.\) of it"):
        client.submit(eval, "(x for x in ())").result(WAIT)


def test_wrong_arguments_are_pythons_own_error(client: Client) -> None:
    """In the line that submits where that is certain, else from the task."""
    for args, kwargs in (((), {}), ((1,), {"extra": 2}), ((1, 2), {})):
        with pytest.raises(TypeError, match="square"):
            client.submit(tasks.square, *args, **kwargs)
        with pytest.raises(TypeError):
            client.submit(math.fmod, *args[:1], **kwargs).result(WAIT)
