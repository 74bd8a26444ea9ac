"""A person who watches cancels tasks and lets a worker leave: a real cluster, and its page in a browser."""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler import Client
from scaler.monitoring import Subscription
from scaler.monitoring.asking import answer
from scaler_protocol import codes
from scaler_protocol.ids import shown_task
from scaler_protocol.keys import KeyOptions, management
from scaler_protocol.messages import Control, ControlReply
from tests.integration.test_ui import started
from tests.support.browsers import NEEDS_BROWSER, seen
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOKEN = "of-an-operator"


def wait_in_a_task(path: str) -> None:
    Path(path).touch()
    time.sleep(300)


def confirm(page: Page, title: str, words: str, said: str) -> None:
    """In the box that asks once more."""
    box = page.get_by_role("dialog", name=title)
    seen(box, words)
    box.get_by_role("button", name=title).click()
    seen(page.locator("#control-said"), said)
    box.get_by_role("button", name="Close").click()


@NEEDS_BROWSER
def test_tasks_are_canceled_and_a_worker_leaves(browser: Browser, stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--allow-control",))
    command, url = started(stage, cluster.address, "--allow-control", access=("--token", TOKEN))
    page = browser.new_page()
    page.set_default_timeout(1000 * WAIT)
    page.goto(f"{url}?token={TOKEN}#/workers")
    with Client(cluster.address) as client:
        running = client.submit(wait_in_a_task, str(tmp_path / "one"))
        until((tmp_path / "one").exists, "it runs")
        page.locator("#worker-table td button").first.click()
        page.locator("#processor-table td button").get_by_text(shown_task(running.task_id)).click()
        page.get_by_role("button", name="Cancel the task").click()
        confirm(page, "Cancel the task", shown_task(running.task_id), "the task is being canceled")
        with pytest.raises(concurrent.futures.CancelledError):
            running.result(WAIT)
        page.locator("#task-close").click()

        futures = [client.submit(wait_in_a_task, str(tmp_path / "two")) for _ in range(20)]
        until((tmp_path / "two").exists, "one of them runs")
        page.get_by_role("tab", name="Overview").click()
        page.get_by_role("button", name="Cancel all its tasks").click()
        confirm(page, "Cancel all its tasks", "All unfinished tasks of client", "being canceled: 20")
        concurrent.futures.wait(futures, WAIT)
        assert all(future.cancelled() for future in futures)
        assert client.submit(abs, -1).result(WAIT) == 1, "the client goes on"

    page.get_by_role("tab", name="Workers").click()
    page.get_by_role("button", name="Let the worker leave").click()
    confirm(page, "Let the worker leave", "finishes what it runs", "the worker leaves when")
    cluster.wait_until(lambda status: not status.workers, "the worker has left")
    page.get_by_role("tab", name="Events").click()
    seen(page.locator("#event-table"), "asked this worker to leave")
    page.close()
    assert command.end() == 0
    assert cluster.workers[0].wait(WAIT) == 0


@NEEDS_BROWSER
def test_a_page_that_only_reads_has_no_such_buttons(browser: Browser, stage: Stage) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--allow-control",))
    _, url = started(stage, cluster.address)
    page = browser.new_page()
    page.set_default_timeout(1000 * WAIT)
    page.goto(url + "#/workers")
    page.locator("#worker-table td button").first.click()
    seen(page.locator("#worker-name"), "worker")
    assert not page.get_by_role("button", name="Let the worker leave").is_visible()
    page.close()


def test_a_ticket_that_is_no_operators_may_only_watch(stage: Stage, tmp_path: Path) -> None:
    key = tmp_path / "cluster.key"
    management.make(str(key))
    keys = {}
    for name, is_operator in (("watcher", False), ("operator", True)):
        keys[name] = str(tmp_path / f"{name}.key")
        roles = frozenset({codes.ROLE_MONITOR})
        management.derive(str(key), user=name, roles=roles, is_operator=is_operator, expires=0.0, output=keys[name])
    port = stage.ports()
    address, storage = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
    stage.start("scaler_storage", storage, "--key-file", str(key))
    stage.start("scaler_scheduler", address, "-osa", storage, "--key-file", str(key), "--allow-control")
    for name, outcome in (("watcher", codes.CONTROL_NO_OPERATOR), ("operator", codes.CONTROL_UNKNOWN)):
        with Subscription(address, ("status",), keys=KeyOptions(keys[name])) as subscription:
            subscription.first(WAIT)
            order = Control(7, codes.CONTROL_CANCEL_TASK, bytes(16))
            assert answer(subscription, order, ControlReply, WAIT).outcome == outcome
