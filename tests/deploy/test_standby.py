"""The files that add a second scheduler: compose.standby.yaml and kubernetes-standby/."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy import test_containers as base
from tests.deploy.test_containers import CLIENT, DEPLOY, SCHEDULER, STORAGE, STRANGER, WATCHER, WORKER, accept, stages

STANDBY = "scaler-standby"
BOTH = "tcp://scheduler:2345,tcp://standby:2345"
OWN = base.documents


def overlay() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.standby.yaml").read_text(encoding="utf-8"))["services"]
    return found


def kustomization() -> dict[str, Any]:
    path = DEPLOY / "kubernetes-standby" / "kustomization.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def documents() -> list[dict[str, Any]]:
    """Of both folders together, before patches."""
    folder = DEPLOY / "kubernetes-standby"
    own = [name for name in kustomization()["resources"] if name.endswith(".yaml")]
    added = [one for name in own for one in yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))]
    return [*OWN(), *added]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "documents", documents)


def test_each_compose_scheduler_is_the_standby_of_the_other() -> None:
    stage = stages()["scheduler"]
    named = {
        name: accept([*stage.command, *overlay()[name]["command"]], stage.environment)
        for name in overlay()
        if name != "worker"
    }
    assert {name: settings.standby_of for name, settings in named.items()} == {
        "scheduler": "tcp://standby:2345",
        "standby": "tcp://scheduler:2345",
    }
    assert {settings.object_storage_address for settings in named.values()} == {"tcp://storage:2346"}
    assert overlay()["worker"]["environment"]["SCALER_CLUSTER_ADDRESS"] == BOTH


def test_the_second_compose_scheduler_is_locked_down_as_the_first() -> None:
    first, second = base.services()["scheduler"], overlay()["standby"]
    own = {"command", "environment", "ports"}
    assert {key: value for key, value in second.items() if key not in own} == {
        key: value for key, value in first.items() if key not in own
    }
    assert second["environment"]["SCALER_KEY"].startswith("${SCALER_KEY:?")
    assert all(port.startswith("127.0.0.1:") for port in second["ports"])
    assert not {port.split(":")[1] for port in second["ports"]} & {port.split(":")[1] for port in first["ports"]}


def test_manifests_are_valid() -> None:
    for document in documents():
        kubernetes_validate.validate(document, base.KUBERNETES_VERSION, strict=True)


def _arguments_of_patch(name: str) -> Any:
    (patch,) = [one["patch"] for one in kustomization()["patches"] if one["target"]["name"] == name]
    return yaml.safe_load(patch)


@pytest.mark.usefixtures("together")
def test_each_pod_is_the_standby_of_the_other() -> None:
    stage = stages()["scheduler"]
    (replaced,) = _arguments_of_patch(SCHEDULER)
    assert replaced["path"] == "/spec/template/spec/containers/0/args"
    (container,) = base.deployments()[STANDBY]["spec"]["containers"]
    (first,) = base.deployments()[SCHEDULER]["spec"]["containers"]
    settings = [accept([*stage.command, *args], stage.environment) for args in (replaced["value"], container["args"])]
    assert [one.standby_of for one in settings] == [f"tcp://{STANDBY}:2345", f"tcp://{SCHEDULER}:2345"]
    assert {key: value for key, value in container.items() if key != "args"} == {
        key: value for key, value in first.items() if key != "args"
    }
    (worker,) = _arguments_of_patch(WORKER)["spec"]["template"]["spec"]["containers"]
    assert worker["env"] == [
        {"name": "SCALER_CLUSTER_ADDRESS", "value": f"tcp://{SCHEDULER}:2345,tcp://{STANDBY}:2345"}
    ]
    names = {one["metadata"]["name"]: one["spec"]["selector"] for one in base.by_kind()["Service"]}
    assert names[SCHEDULER] != names[STANDBY], "each service leads to one of the two"


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize(
    ("dialer", "server", "ports"),
    [
        (SCHEDULER, STANDBY, {2345}),
        (STANDBY, SCHEDULER, {2345}),
        (STANDBY, STORAGE, {2346}),
        (STANDBY, WORKER, set()),
        (STANDBY, STRANGER, set()),
        (STORAGE, STANDBY, set()),
        (WORKER, STANDBY, {2345}),
        (WORKER, SCHEDULER, {2345}),
        (WORKER, STORAGE, {2346}),
        (WORKER, STRANGER, set()),
        (CLIENT, STANDBY, {2345}),
        (WATCHER, STANDBY, {2345, 2347}),
        (STRANGER, STANDBY, set()),
    ],
    ids=str,
)
def test_each_role_reaches_what_it_needs(
    dialer: str | dict[str, str], server: str | dict[str, str], ports: set[int]
) -> None:
    assert {port for port in (2345, 2346, 2347, 443) if base.may_connect(dialer, server, port)} == ports
