"""What workers did with their time, and a recording as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import html as texts
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.pages import SERVER, failed, failures, graph, samples, status, worker

from scaler.monitoring import Recorder
from scaler.ui import __main__ as ui
from scaler.ui import report
from scaler.ui.utilisation import GAP_SECONDS, USES, Utilisation
from scaler_protocol.messages import ClusterStatus, Count, Message, ProcessorStatus, WaitingClass, WorkerEntry

NASTY = "</script><script>window.hacked=1</script><!--"


def record(path: Path, *messages: Message) -> Path:
    recorder = Recorder(path)
    for message in messages:
        recorder.write("any", message)
    recorder.close()
    return path


def with_states(*states: int, silent_seconds: float = 0.0) -> WorkerEntry:
    one = worker(1, silent_seconds=silent_seconds)
    return replace(one, status=replace(one.status, processors=tuple(ProcessorStatus(state=state) for state in states)))


def used(one: WorkerEntry, counts: dict[str, int], waiting: tuple[WaitingClass, ...] = ()) -> str:
    """What a second of this worker was used for."""
    found = Utilisation()
    told = ClusterStatus(
        server_id=SERVER,
        workers=(one,),
        waiting_classes=waiting,
        task_counts=tuple(Count(*pair) for pair in counts.items()),
    )
    found.take(told, 100.0)
    found.take(told, 101.0)
    assert sum(found.seconds.values()) == found.watched_seconds == 1.0
    return next(use for use in USES if found.seconds[use])


@pytest.mark.parametrize(
    ("states", "counts", "use"),
    [
        ((2,), {}, "ran"),
        ((3, 2), {}, "ran"),
        ((3, 1), {}, "blocked"),
        ((0,), {"queued": 3}, "starting"),
        ((1,), {"queued": 3}, "queued"),
        ((1,), {"waiting": 3, "queued": 0}, "waiting"),
        ((1,), {"success": 3}, "nothing"),
        ((), {}, "nothing"),
    ],
)
def test_each_second_of_a_worker_counts_once(states: tuple[int, ...], counts: dict[str, int], use: str) -> None:
    assert used(with_states(*states), counts) == use


def test_idle_because_no_queued_task_can_run_there() -> None:
    unable, able = WaitingClass(task_count=3), WaitingClass(task_count=1, able_count=2)
    assert used(with_states(1), {"queued": 3}, (unable,)) == "unable"
    assert used(with_states(1), {"queued": 4}, (unable, able)) == "queued"
    assert used(with_states(2, silent_seconds=9.0), {}) == "silent"


def test_what_was_not_watched_does_not_count() -> None:
    found = Utilisation()
    one = ClusterStatus(server_id=SERVER, workers=(with_states(2),))
    for at in (0.0, 1.0, 1.0, 2.0 + GAP_SECONDS, 3.0 + GAP_SECONDS):
        found.take(one, at)
    found.take(replace(one, server_id=worker(9).peer_id), 4.0 + GAP_SECONDS)
    assert found.seconds["ran"] == found.watched_seconds == 2.0
    assert found.told()["ran"] == 2.0 and set(found.told()) == {*USES, "cpu", "watched"}


def recorded(folder: Path, name: str = "run.rec", names: tuple[str, ...] = ("price", NASTY)) -> Path:
    them = [worker(1), worker(2)]
    return record(
        folder / name,
        status(them, done=100, names=names),
        samples(them, names, each=3),
        graph(["load", "sum"], [4, 4], [[], [0]]),
        failures(failed(700)),
        status(them, sequence=2, done=400, names=names),
    )


def told_in(text: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="recorded">(.*?)</script>', text, re.DOTALL)
    return dict(json.loads(data))


def test_a_report_has_all_that_a_page_would_have_been_told(tmp_path: Path) -> None:
    text = report.html(str(recorded(tmp_path)))
    told = told_in(text)
    assert told["beginning"]["condition"] == "ended" and told["beginning"]["address"] == "run.rec"
    assert told["beginning"]["status"]["tasks"]["success"] == 400 and len(told["past"]["history"]) == 2
    assert len(told["runs"]["runs"]) == 6 and len(told["past"]["failures"]) == 1
    assert [one["tasks"] for one in told["beginning"]["graphs"]] == [2] and "comparison" not in told
    assert NASTY in json.dumps(told) and NASTY not in text, "names of strangers end no element"


def test_a_report_needs_nothing_and_lets_only_its_own_script_run(tmp_path: Path) -> None:
    text = report.html(str(recorded(tmp_path)))
    assert not re.search(r"""(?:src|href)=["'](?!#|(?:trace|profile\.speedscope)\.json)""", text), "it fetches nothing"
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    for kind, opening in (("script-src", '<script type="module">'), ("style-src", "<style>")):
        content = text.partition(opening)[2].partition("</s")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in texts.unescape(policy)
    assert "default-src 'none'" in policy and text.count("</script>") == 2


def test_a_long_recording_has_charts_of_all_of_it(tmp_path: Path) -> None:
    many = [status([], sequence=number, done=number) for number in range(2 * report.POINTS_KEPT + 9)]
    found = report.read(str(record(tmp_path / "long.rec", *many)))
    done = [point["tasks"]["success"] for point in found.history]
    assert report.POINTS_KEPT / 2 <= len(done) <= report.POINTS_KEPT and done[0] == 0
    assert done == sorted(done) and done[-1] >= 2 * report.POINTS_KEPT


def test_the_command_writes_a_file_and_compares_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = recorded(tmp_path, "a.rec"), recorded(tmp_path, "b.rec.gz", ("price",))
    assert ui.main(["--html", str(first), "--against", str(second)]) == 0
    told = told_in((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert [side["name"] for side in told["comparison"]["sides"]] == ["a.rec", "b.rec.gz"]
    assert capsys.readouterr().out.startswith(str(tmp_path / "a.html"))
    assert ui.main(["--html", str(second), "-o", str(tmp_path / "other.html")]) == 0
    assert "comparison" not in told_in((tmp_path / "other.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--html", "none.rec"], "cannot be opened"),
        (["--html", "a.rec", "--replay", "a.rec"], "name the address of a scheduler, or a recording"),
        (["tcp://127.0.0.1:9", "--against", "a.rec"], "--against and --output belong to --html"),
        (["--html", "empty.rec"], "has no status of a scheduler"),
    ],
)
def test_reports_that_cannot_be(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "empty.rec")
    assert ui.main(arguments) in (1, 2)
    assert words in capsys.readouterr().err and not (tmp_path / "empty.html").exists()
