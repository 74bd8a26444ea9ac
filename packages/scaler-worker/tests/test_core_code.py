"""Code that the processors cannot read never reaches one. (WRK-26)"""

from __future__ import annotations

from tests.support.holder_story import ids, sent
from tests.support.worker_story import Story, handed

from scaler_protocol.codec import decode_task_error
from scaler_protocol.codes import FUNCTION_UNREADABLE, STATUS_REFUSED
from scaler_protocol.messages import Results


def test_code_of_another_version_is_refused() -> None:
    story = Story(code_tags=("cpython-312", "cpython-313")).start()
    actions = story.dispatch(1, 2, code_tag="cpython-311")
    assert not handed(actions) and not story.core.tables.tasks
    (results,) = sent(actions, Results)
    assert results.ids == ids(1, 2) and results.statuses == bytes([STATUS_REFUSED]) * 2
    error = decode_task_error(bytes(results.payload[: len(results.payload) // 2]))
    assert error.code == FUNCTION_UNREADABLE
    assert "Python 3.11" in error.message and "Python 3.12, 3.13" in error.message


def test_code_that_can_be_read_runs() -> None:
    story = Story(code_tags=("cpython-312",)).start()
    assert handed(story.dispatch(1, code_tag="cpython-312")) == {1: [1]}
    story.end(1, 1)
    assert handed(story.dispatch(2)) == {1: [2]}, "it carries none"


def test_a_worker_that_does_not_say_what_it_reads_takes_all() -> None:
    assert handed(Story().start().dispatch(1, code_tag="cpython-311")) == {1: [1]}
