"""The agent keeps what its session has agreed. (LIM-1)"""

from __future__ import annotations

from dataclasses import replace

from tests.support.holder_story import OPENED, ids, sent
from tests.support.worker_story import Story

from scaler_protocol.messages import Limits, Results
from scaler_protocol.session import Lost


def test_results_go_in_messages_that_the_scheduler_takes() -> None:
    story = Story().start()
    story.step(Lost(OPENED.peer_id, 205, "silent for too long", False))
    story.step(replace(OPENED, welcome=replace(OPENED.welcome, limits=Limits(batch_tasks=1))))
    story.learn()
    story.dispatch(1, 2)
    assert [message.ids for message in sent(story.end(1, 1, 2), Results)] == [ids(1), ids(2)]
