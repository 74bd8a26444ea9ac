"""No secret of an operator reaches tasks, names, logs or command lines: real processes, all started with secrets."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.support.clusters import watching
from tests.support.processes import WAIT, Stage

SECRETS = {
    "SCALER_NATIVE_WORKER_ADAPTER_AUTH_TOKEN": "s3same-of-the-adapter",
    "SCALER_WORKER_MANAGER_AUTH_TOKEN": "s3same-of-the-adapter",
    "SCALER_SYMPHONY_WORKER_ADAPTER_PASSWORD": "s3same-of-symphony",
    "SCALER_UI_TOKEN": "s3same-of-the-page",
}


def everything_a_task_sees() -> str:
    """Its environment as Python has it, as the system shows it, and what its own children inherit."""
    import subprocess

    inherited = subprocess.run(["env"], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    return repr(dict(os.environ)) + inherited + Path("/proc/self/environ").read_bytes().decode(errors="replace")


def test_secrets_stay_with_the_process_that_needs_them(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    port, http = stage.ports(), stage.ports()
    address, url = f"tcp://127.0.0.1:{port}", f"http://127.0.0.1:{http}/?token=s3same-of-the-url"
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SCALER_SCHEDULER_ADAPTER_WEBHOOK_URL", url)
    adapter = stage.start("scaler_worker.adapter", address, "--host", "127.0.0.1", "--port", str(http))
    adapter.wait_for("NativeWorkerAdapter: listen to")
    scheduler = stage.start("scaler_scheduler", address)
    for name in (*SECRETS, "SCALER_SCHEDULER_ADAPTER_WEBHOOK_URL"):
        monkeypatch.delenv(name)
    with Client(address) as client, watching(address) as watch:
        seen = client.submit(everything_a_task_sees).result(WAIT)
        assert "PATH" in seen
        assert "s3same" not in seen
        (manager,) = watch.snapshot().managers
        assert manager.name == f"webhook http://127.0.0.1:{http}"
        assert "s3same" not in repr(watch.snapshot())
        lines = [" ".join(process.cmdline()) for one in (adapter, scheduler) for process in stage.family(one)]
        assert lines and not [line for line in lines if "s3same" in line]
    for command in (scheduler, adapter):
        assert command.end(signal.SIGTERM) == 0
        assert "s3same" not in command.text


def test_workers_that_are_started_by_hand_forget_them_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"tcp://127.0.0.1:{stage.ports()}"
    stage.start("scaler_scheduler", address)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    workers = stage.start("scaler_worker", address)
    for name in SECRETS:
        monkeypatch.delenv(name)
    with Client(address) as client:
        assert "s3same" not in client.submit(everything_a_task_sees).result(WAIT)
    for process in stage.family(workers):
        try:
            shown = Path(f"/proc/{process.pid}/environ").read_bytes()
        except (OSError, psutil.Error):
            continue
        assert b"s3same" not in shown


def test_a_url_with_a_password_is_refused_and_not_repeated(stage: Stage) -> None:
    for command in (
        stage.start("scaler_scheduler", "tcp://127.0.0.1:1", "--adapter-webhook-url", "http://joe:s3same@127.0.0.1:1/"),
        stage.start("scaler_worker.manager", "webhook", "tcp://127.0.0.1:1", "--url", "http://joe:s3same@127.0.0.1:1/"),
    ):
        assert command.wait() == 2
        assert "must not contain user:password@" in command.text and "s3same" not in command.text
