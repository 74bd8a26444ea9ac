"""What the page shows, made of messages: no socket, no clock."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.pages import LIVE, SERVER, failed, failures, graph, heard, printed, samples, status, task, worker

from scaler.monitoring import ClusterState, Condition
from scaler.ui.blocked import TASKS_KEPT, Blocked
from scaler.ui.events import FAILURES_KEPT
from scaler.ui.feed import Feed, packed
from scaler.ui.model import GRAPHS_KEPT, LOGS_KEPT, RUNS_KEPT, Model, capabilities_text
from scaler.ui.task_names import found_task
from scaler_protocol.ids import GraphId, PeerId, new_peer_id
from scaler_protocol.messages import Capability, ClientEntry, ClusterEvent, GraphShapes, Message

AT = 1_700_000_000.0
Told = list[tuple[str, dict[str, Any]]]


def take(model: Model, *messages: Message, state: ClusterState = LIVE, at: float = AT) -> Told:
    return model.take(*heard(*messages, state=state), at)


def kinds(told: Iterable[tuple[str, object]]) -> list[str]:
    return [kind for kind, _ in told]


def test_a_status_is_told_with_its_point_of_the_charts() -> None:
    model = Model("here")
    told = dict(take(model, status([worker(1), worker(2)], done=100, queued=7)))
    shown, point = told["status"]["status"], told["status"]["point"]
    assert shown["tasks"]["queued"] == 7 and len(shown["workers"]) == 2 and shown["server"] == SERVER.hex()
    assert point["workers"] == 2 and point["at"] == AT and point["tasks"] == shown["tasks"]
    assert point["worker_rss"] == sum(one["rss"] + one["agent_rss"] for one in shown["workers"])
    assert shown["managers"][0]["name"] == "slurm" and shown["functions"] == [["price", 7]]
    assert model.past()["history"] == [point] and json.dumps(model.beginning())


def test_users_are_told_with_what_is_theirs() -> None:
    model = Model("here")
    owner = ClientEntry(PeerId(b"the client of it"), task_count=3, user="ana", object_count=5, object_bytes=70)
    message = replace(status([replace(worker(1), user="bo")]), clients=(owner, ClientEntry(new_peer_id())))
    whole = replace(LIVE, status=message)
    drawn = graph(["a"], [2], [[]])
    drawn = replace(drawn, graphs=tuple(replace(one, client_id=owner.peer_id) for one in drawn.graphs))
    told = dict(take(model, message, drawn, state=whole))
    no_quota = {"arguments": 0, "quota": "", "part": 0.0}
    assert told["status"]["status"]["users"] == [
        {"name": "ana", "clients": 1, "workers": 0, "tasks": 3, "objects": 5, "bytes": 70, **no_quota},
        {"name": "bo", "clients": 0, "workers": 1, "tasks": 0, "objects": 0, "bytes": 0, **no_quota},
    ]
    assert [one["user"] for one in told["status"]["status"]["clients"]] == ["ana", ""]
    assert told["status"]["status"]["workers"][0]["user"] == "bo" and told["graphs"]["graphs"][0]["user"] == "ana"


def test_of_many_statuses_at_once_the_last_is_told() -> None:
    model = Model("here")
    first, last = status([], sequence=1), status([], sequence=2)
    take(model, status([], sequence=0))
    assert [content["status"]["sequence"] for kind, content in take(model, first, last) if kind == "status"] == [2]


def test_a_run_says_when_it_waited_for_tasks_of_its_own() -> None:
    """Seen blocked in two statuses, running in one, and blocked again: two times, each as long as it was seen."""
    model = Model("here")
    one = worker(1)

    def seen(state: int, at: float) -> None:
        processor = replace(one.status.processors[0], state=state, task_id=task(0))
        take(model, status([replace(one, status=replace(one.status, processors=(processor,)))]), at=at)

    for state, at in ((2, 0.0), (3, 1.0), (3, 2.0), (2, 3.0), (3, 4.0)):
        seen(state, AT + at)
    take(model, samples([one], each=1), at=AT + 4.2)  # it began 1 s ago and ran for 0.9 s
    (run,) = model.kept_runs()
    assert list(run.blocked) == pytest.approx([0.3, 0.6]), "what was before its begin is of another run"
    take(model, samples([one], each=1), at=AT + 4.2)
    assert [list(one.blocked) for one in model.kept_runs()][1] == [], "it is told once"


def test_tasks_that_wait_are_forgotten_when_they_are_too_many() -> None:
    blocked, one = Blocked(), worker(1)
    processor = replace(one.status.processors[0], state=3)
    for first in range(0, 2 * TASKS_KEPT, 256):
        processors = tuple(replace(processor, task_id=task(first + number)) for number in range(256))
        blocked.take(status([replace(one, status=replace(one.status, processors=processors))]), AT + first)
    assert len(blocked._spans) == TASKS_KEPT
    assert not blocked.of(task(0).hex(), AT, 9.0) and blocked.of(task(2 * TASKS_KEPT - 1).hex(), AT, 1e9)


def test_samples_are_counted_honestly() -> None:
    model = Model("here")
    workers = [worker(1), worker(2)]
    told = dict(take(model, samples(workers, ["price", "fit"], each=3, ended=30)))["tasks"]
    assert told["share"][1:] == (6, 60) and len(told["runs"]) == 6
    assert (model.sampled_count, model.ended_count) == (6, 60)
    run = next(model.kept_runs())
    assert run.task_id == task(0).hex() and run.function == "price" and run.worker == workers[0].name
    assert run.begun_at == AT - 1.0 and run.seconds == 0.3 and run.status == "success"
    assert kinds(take(model, samples([]))) == [], "nothing has ended, so nothing is told"


def test_a_row_that_is_cut_off_and_a_status_of_later_days() -> None:
    message = samples([worker(1)], each=2)
    block = message.blocks[0]
    broken = block.samples[:-1]
    later = block.samples[:52] + (9).to_bytes(4, "little")
    model = Model("here")
    take(model, replace(message, blocks=(replace(block, samples=broken), replace(block, samples=later))))
    assert [run.status for run in model.kept_runs()] == ["success", "9"]


def test_the_first_event_is_small_however_much_was_before() -> None:
    model = Model("here")
    workers = [worker(number) for number in range(20)]
    take(model, status(workers))
    small = len(packed("beginning", model.beginning()))
    for number in range(100):
        take(model, samples(workers, each=20, first=number), printed("x" * 4000))
    assert len(model.runs) == RUNS_KEPT and len(packed("beginning", model.beginning())) == small


def test_a_task_is_found_by_each_of_its_names() -> None:
    model = Model("here")
    ran, known = samples([worker(1)], each=2, first=7), task(8)
    take(model, ran, graph(["a"], [2], [[]]))
    assert found_task(model, known.hex()) == found_task(model, "6120636c:8") == found_task(model, "6120636C:8") == known
    assert found_task(model, "6120636c:500") == task(500), "of a graph"
    assert found_task(model, task(9).hex()) == task(9), "that was not heard of: the scheduler may know it"
    for wrong in ("6120636c:9", "6120636c", ":", "", "zz" * 16, "task 8"):
        assert found_task(model, wrong) is None


def test_the_condition_is_told_when_it_changes() -> None:
    model = Model("here")
    assert kinds(take(model)) == ["condition"] and kinds(take(model)) == []
    silent = replace(LIVE, condition=Condition.SILENT, text="not heard for 3 s")
    assert dict(take(model, state=silent))["condition"]["text"] == "not heard for 3 s"
    assert dict(take(model, state=replace(LIVE, restart_count=1)))["condition"]["restarts"] == 1


def test_a_graph_that_has_run_is_still_shown() -> None:
    model = Model("here")
    running = graph(["a", "b", "sum"], [4, 2, 0], [[], [], [0, 1]])
    assert kinds(take(model, running)) == ["graphs", "condition"] and kinds(take(model, running)) == []
    (shown,) = model.beginning()["graphs"]
    assert [node[1:] for node in shown["nodes"]] == [
        ["a", "ended", [], ""],
        ["b", "dispatched", [], ""],
        ["sum", "waiting", [0, 1], ""],
    ]
    take(model, GraphShapes(server_id=SERVER))
    (shown,) = model.beginning()["graphs"]
    assert not shown["runs"] and shown["unfinished"] == 0 and {node[2] for node in shown["nodes"]} == {"ended"}


def test_the_tasks_of_a_graph_have_their_keys_as_far_as_these_can_be_read() -> None:
    drawn = graph(["load", "load", "sum"], [4, 2, 0], [[], [], [0, 1]], keys=["läd-1", "", "sum"])
    (shape,) = drawn.graphs
    assert [node[4] for node in shown_of(drawn)["nodes"]] == ["läd-1", "", "sum"]
    cut = replace(shape, keys=b"\xff", key_sizes=bytes((1, 64, 64)))
    assert [node[4] for node in shown_of(replace(drawn, graphs=(cut,)))["nodes"]] == ["\ufffd", "", ""]
    fewer = replace(shape, key_sizes=b"\1")
    assert [node[4] for node in shown_of(replace(drawn, graphs=(fewer,)))["nodes"]] == [""] * 3


def shown_of(message: GraphShapes) -> Any:
    model = Model("here")
    take(model, message)
    (shown,) = model.beginning()["graphs"]
    return shown


def test_what_became_of_a_graph_of_a_scheduler_that_is_gone_nobody_knows() -> None:
    model = Model("here")
    take(model, graph(["a"], [2], [[]]))
    take(model, GraphShapes(server_id=new_peer_id()))
    (shown,) = model.beginning()["graphs"]
    assert not shown["runs"] and shown["unfinished"] == 1 and shown["nodes"][0][2] == "dispatched"


def test_failures_are_told_once_and_found_by_their_names() -> None:
    model = Model("here")
    told = dict(take(model, failures(failed(1), failed(2, "price", "no quote"))))["failures"]["failures"]
    assert [(one["function"], one["type"], one["line"], one["at"]) for one in told] == [
        ("fit", "ValueError", "too large", AT - 1.0),
        ("price", "ValueError", "no quote", AT - 1.0),
    ]
    assert "failures" not in dict(take(model, failures(failed(1), failed(2), is_history=True))), "they are known"
    again = dict(take(model, failures(replace(failed(1), attempt=2), count=300)))["failures"]["failures"]
    assert [one["attempt"] for one in again] == [2] and model.failures.count == 302
    assert model.past()["failures"] == [*told, *again] and found_task(model, "6120636c:1") == task(1)
    for number in range(FAILURES_KEPT + 5):
        take(model, failures(failed(number)))
    assert len(model.past()["failures"]) == FAILURES_KEPT


def test_what_was_before_fills_an_empty_page_and_no_other() -> None:
    model = Model("here")
    before = replace(samples([worker(1)], each=2, ended=50), is_history=True)
    assert dict(take(model, before))["tasks"]["share"][1:] == (2, 2), "of how many they are a sample is not known"
    assert "tasks" not in dict(take(model, before)), "after a lost connection it is known already"


def test_events_are_told_once_by_number_and_scheduler() -> None:
    model = Model("here")
    event, other = ClusterEvent(1, 5.0, "worker_lost", "w", "gone", 3), new_peer_id()
    first = dict(take(model, replace(status([]), events=(event,))))["events"]["events"]
    assert first == [{
        "server": SERVER.hex()[:8], "number": 1, "at": AT - 5.0, "kind": "worker_lost", "subject": "w", "text": "gone",
        "tasks": 3,
    }]  # fmt: skip
    assert "events" not in dict(take(model, replace(status([]), events=(event,))))
    assert "events" in dict(take(model, replace(status([]), events=(event,), server_id=other)))
    assert len(model.past()["events"]) == 2


def test_a_graph_that_failed_shows_where() -> None:
    model = Model("here")
    take(model, graph(["a", "b", "c", "d"], [4, 4, 4, 2], [[], [0], [1], []], [0, 1, 6, 0]))
    take(model, GraphShapes(server_id=SERVER))
    (shown,) = model.beginning()["graphs"]
    assert [node[2] for node in shown["nodes"]] == ["ended", "failed", "skipped", "ended"]
    assert (shown["failed"], shown["canceled"], shown["runs"]) == (2, 0, False)


def test_the_last_graphs_are_kept_and_no_more() -> None:
    model = Model("here")
    shape = graph(["a"], [2], [[]]).graphs[0]
    for number in range(GRAPHS_KEPT + 3):
        one = replace(shape, graph_id=GraphId(number.to_bytes(16, "big")))
        take(model, GraphShapes(server_id=SERVER, graphs=(one,)))
    numbers = [int(one["id"], 16) for one in model.beginning()["graphs"]]
    assert numbers == list(range(GRAPHS_KEPT + 2, 1, -1)), "the one that runs, then the latest"


def test_a_graph_whose_columns_do_not_agree_has_no_picture() -> None:
    shape = graph(["a", "b"], [0, 0], [[], [0]]).graphs[0]
    for broken in (
        replace(shape, states=b"\0"),
        replace(shape, dependency_counts=b"\0\0"),
        replace(shape, dependencies=b""),
        replace(shape, functions=b""),
    ):
        model = Model("here")
        take(model, GraphShapes(graphs=(broken,)))
        assert model.beginning()["graphs"][0]["nodes"] == []
    far = replace(shape, dependencies=(7).to_bytes(2, "little"), states=b"\0\xff")
    model = Model("here")
    take(model, GraphShapes(graphs=(far,)))
    assert [node[2:] for node in model.beginning()["graphs"][0]["nodes"]] == [["waiting", [], ""], ["ended", [], ""]]


def test_what_is_printed_is_bounded() -> None:
    model = Model("here")
    for number in range(LOGS_KEPT + 10):
        take(model, printed("x" * 10_000, number, stream=2))
    logs = model.past()["logs"]
    assert len(logs) == LOGS_KEPT and len(logs[0]["text"]) < 5000
    assert logs[-1]["task"] == task(LOGS_KEPT + 9).hex() and logs[-1]["stream"] == "stderr"


def test_lines_that_come_together_are_told_together() -> None:
    told = take(Model("here"), *(printed("x", number) for number in range(LOGS_KEPT + 1)))
    assert kinds(told) == ["logs", "condition"] and len(told[0][1]["lines"]) == LOGS_KEPT


def test_capabilities_read_well() -> None:
    assert capabilities_text([Capability("linux", -1), Capability("gpu", 2)]) == "linux, gpu=2"


def test_why_nothing_is_heard_is_logged_once_though_no_page_is_open(caplog: pytest.LogCaptureFixture) -> None:
    async def hear() -> None:
        feed = Feed(Model("tcp://here"))
        for text in (
            "not heard for 3 s",
            "not heard for 4 s",
            "not heard for 15 s",
            "the ticket has \x1b[1mexpired",
            "",
        ):
            condition = Condition.SILENT if text else Condition.LIVE
            feed.heard(ClusterState("tcp://here", condition, text=text), [])
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "scaler.ui"):
        asyncio.run(hear())
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "scaler_ui: not heard for 3 s"),
        ("WARNING", "scaler_ui: the ticket has \\x1b[1mexpired"),
        ("INFO", "scaler_ui: connected to the scheduler at tcp://here"),
    ]
