"""Every argument of the local cluster reaches commands that accept it: with all of them it starts and works."""

import html
import importlib.util
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import scaler
from scaler import Client, SchedulerClusterCombo

LOOP = "uvloop" if importlib.util.find_spec("uvloop") else "builtin"


def test_a_cluster_with_every_option_works(tmp_path: Path) -> None:
    combo = SchedulerClusterCombo(
        n_workers=1,
        per_worker_capabilities={"linux": -1, "gpu": 2},
        worker_io_threads=2,
        scheduler_io_threads=2,
        max_number_of_tasks_waiting=100_000,
        lost_processors_limit=2,
        heartbeat_interval_seconds=1,
        client_timeout_seconds=30,
        worker_timeout_seconds=30,
        object_retention_seconds=30,
        task_timeout_seconds=60,
        death_timeout_seconds=60,
        load_balance_seconds=2,
        load_balance_trigger_times=3,
        garbage_collect_interval_seconds=20,
        trim_memory_threshold_bytes=1 << 20,
        per_worker_task_queue_size=10,
        hard_processor_suspend=True,
        protected=False,
        allocate_policy="capability",
        event_loop=LOOP,
        logging_paths=(str(tmp_path / "cluster.log"),),
        logging_level="INFO",
        memory_limit=1 << 28,
        spill_directory=tmp_path / "spill",
        disk_limit=1 << 30,
        present_seconds=30,
        memory_per_processor="1GiB",
        tasks_per_processor=20,
    )
    with combo, Client(address=combo.get_address()) as client:
        assert client.map(abs, range(-50, 0)) == list(range(50, 0, -1))
    assert (tmp_path / "cluster.log").read_text().count(f"use event loop: {LOOP}\n") >= 2


def test_a_cluster_with_a_page_shows_itself_to_those_who_have_its_link() -> None:
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with scaler.local(workers=1, ui=True) as client:
        link = client.dashboard_link
        assert link is not None and html.escape(link) in client._repr_html_()
        assert html.escape(link) in client._cluster._repr_html_()  # type: ignore[union-attr]
        for shown in (client, client.cluster):
            told = shown._repr_html_()  # type: ignore[union-attr]
            assert "<th>Workers</th><td>1</td>" in told and "<th>Cores</th>" in told and "<th>Memory</th>" in told
        with browser.open(link, timeout=10) as page:
            assert page.status == 200 and b"<html" in page.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(link.partition("?")[0], timeout=10)
    assert "has ended" in client.cluster._repr_html_()  # type: ignore[union-attr]
    with pytest.raises(urllib.error.URLError):
        browser.open(link, timeout=10)


def test_a_page_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.cluster.page._NEEDED", ("no_such_library",))
    with pytest.raises(ImportError, match=r"the page needs no_such_library: run `pip install 'scaler-client\[ui\]'`"):
        scaler.local(workers=1, ui=True)


def test_a_cluster_without_a_page_has_no_link() -> None:
    with scaler.local(workers=1) as client:
        assert client.dashboard_link is None


def test_a_local_cluster_takes_the_code_of_its_client(tmp_path: Path) -> None:
    (tmp_path / "only_sent.py").write_text("VALUE = 17\n", encoding="utf-8")
    with scaler.local(workers=1, code=[tmp_path / "only_sent.py"]) as client:
        assert client.submit(lambda: __import__("only_sent").VALUE).result(30) == 17


def seen_gpus() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def test_each_worker_shows_its_tasks_the_gpus_that_it_has() -> None:
    with scaler.local(workers=3, gpus="4,7") as client:
        asking = [client.submit_verbose(seen_gpus, (), {}, capabilities={"gpu": 1}) for _ in range(50)]
        assert {future.result(30) for future in asking} <= {"4", "7"}
        others = [client.submit(seen_gpus) for _ in range(300)]
        assert {future.result(30) for future in others} <= {"4", "7", ""}
        assert "gpu=2" in client.explain(client.submit_verbose(seen_gpus, (), {}, capabilities={"gpu": 2}))
