"""A real Prometheus scrapes a real cluster, with the alerts of docs/; Debian's package `prometheus` has both tools."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.architecture.sources import ROOT
from tests.support.clusters import RealCluster
from tests.support.processes import Stage, until

pytest.importorskip("aiohttp", reason="scaler_ui needs the extra [ui]")
pytest.importorskip("prometheus_client", reason="scaler_ui needs the extra [ui]")
pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="there is no Prometheus here: make tools installs Debian's",
)
FILES = ROOT / "docs" / "operations" / "prometheus"
SECONDS = 60.0


def promtool(*arguments: str, text: str = "") -> str:
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=FILES
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_files_are_right() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "--lint-fatal", "alerts.yml")
    promtool("test", "rules", "alerts.test.yml")


class Prometheus:
    def __init__(self, stage: Stage, folder: Path, target: str) -> None:
        config = (FILES / "prometheus.yml").read_text().replace("127.0.0.1:8081", target)
        config = re.sub(r"(scrape|evaluation)_interval: 15s", r"\1_interval: 500ms", config)
        assert config.count("500ms") == 2
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(FILES / "alerts.yml", folder)
        self.port = stage.ports()
        self._process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            cwd=folder, env=stage.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(SECONDS)

    def get(self, path: str, **query: str) -> Any:
        """None while it does not answer."""
        try:
            url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            assert self._process.poll() is None, "Prometheus has ended"
            return None

    def value(self, expression: str) -> float | None:
        found = self.get("query", query=expression)
        return float(found["result"][0]["value"][1]) if found and found["result"] else None


def test_it_is_scraped(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 2, scheduler=("--status-report-interval-seconds", "0.2"))
    ui = stage.start("scaler.ui", cluster.address, "--port", str(stage.ports()), "--no-token")
    ui.wait_for("is shown at")
    target = ui.lines[-1].rpartition("http://")[2].rstrip("/")
    with Prometheus(stage, tmp_path, target) as prometheus, Client(cluster.address) as client:
        assert client.map(abs, range(-100, 0))[0] == 100
        until(lambda: prometheus.value("scaler_workers") == 2, "the workers are counted", SECONDS)
        done = 'scaler_tasks_ended_total{outcome="success"} >= 100'
        until(lambda: prometheus.value(done) is not None, "the tasks are counted", SECONDS)
        (seen,) = prometheus.get("targets")["activeTargets"]
        assert seen["health"] == "up", seen["lastError"]
        check_rules(prometheus)
        check_dashboard(prometheus)
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as answer:
            assert not promtool("check", "metrics", text=answer.read().decode()).strip()
        cluster.scheduler.end(signal.SIGKILL)
        until(lambda: prometheus.value("scaler_up") == 0, "the scheduler's end is seen", SECONDS)
        until(lambda: alert_state(prometheus, "ScalerSchedulerDown") == "pending", "its alert is raised", SECONDS)
    assert ui.end(signal.SIGTERM) == 0, ui.text


def check_rules(prometheus: Prometheus) -> None:
    """Each has been evaluated, and none with an error."""
    until(lambda: all(rule["evaluationTime"] for rule in rules(prometheus)), "all rules were evaluated", SECONDS)
    assert len(rules(prometheus)) == 24
    assert {rule["health"] for rule in rules(prometheus)} == {"ok"}


def rules(prometheus: Prometheus) -> list[Any]:
    return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]


def alert_state(prometheus: Prometheus, name: str) -> str:
    (rule,) = [rule for rule in rules(prometheus) if rule["name"] == name]
    return str(rule["state"])


def check_dashboard(prometheus: Prometheus) -> None:
    """Grafana would ask just this; what always has a value has one."""
    dashboard = json.loads((FILES / "dashboard.json").read_text())
    for panel in [inner for one in dashboard["panels"] for inner in (one, *one.get("panels", ()))]:
        for target in panel.get("targets", ()):
            expression = re.sub(r"\$(job|instance|host)\b", ".+", target["expr"]).replace("$__rate_interval", "4s")
            found = prometheus.get("query", query=expression, time=str(time.time()))
            assert found is not None, f"{panel['title']}: {expression}"
            if panel["type"] == "stat":
                assert found["result"], f"{panel['title']} shows nothing: {expression}"
