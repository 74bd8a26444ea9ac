"""The files in deploy/, as far as they can be checked where there is neither a container engine nor a cluster.

Every command line in them is one that the commands accept, what they name is there, and the manifests are valid by
Kubernetes' own schemas. Nothing is built or started.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tools.site.commands import parsers_of, scripts

from scaler_protocol.process import byte_count
from scaler_worker.cluster import STOP_MARGIN_SECONDS
from tests.architecture.sources import ROOT

DEPLOY = ROOT / "deploy"
IMAGES = ("storage", "scheduler", "worker", "tools")
SERVED = ("storage", "scheduler", "worker")
KUBERNETES_VERSION = "1.30"


class Stage:
    """A stage of the Dockerfile: its instructions, after those of the stage it is made from."""

    def __init__(self, base: Stage | None = None) -> None:
        self.instructions: list[tuple[str, str]] = list(base.instructions) if base else []

    def last(self, name: str) -> str:
        return next(text for word, text in reversed(self.instructions) if word == name)

    @property
    def environment(self) -> dict[str, str]:
        pairs = [pair for word, text in self.instructions if word == "ENV" for pair in shlex.split(text)]
        return dict(pair.split("=", 1) for pair in pairs)

    @property
    def command(self) -> list[str]:
        """What its arguments are added to, without who only watches over it."""
        entry: list[str] = json.loads(self.last("ENTRYPOINT"))
        return entry[entry.index("--") + 1 :] if "--" in entry else entry


def stages() -> dict[str, Stage]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.M).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            current = found[name] = Stage(found.get(base))
        elif word != "ARG":
            current.instructions.append((word, rest))
    return found


def documents() -> list[dict[str, Any]]:
    paths = [DEPLOY / "kubernetes" / name for name in kustomization()["resources"]]
    return [document for path in paths for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8"))
    return found


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return found


def accept(command: list[str], environment: dict[str, str]) -> Any:
    """The settings that this command line means there; it is an error when it means none."""
    (parser,) = parsers_of(scripts()[command[0]])
    return parser.parse_settings(command[1:], environment)  # type: ignore[attr-defined]


# ---------------------------------------------------------------- images


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_locked_down(image: str) -> None:
    stage = stages()[image]
    assert stage.last("USER").isdecimal(), "a number, so that Kubernetes can see that it is not root"
    position = {word: number for number, (word, _) in enumerate(stage.instructions)}
    assert position["USER"] > position["RUN"]
    assert not {"ADD"} & set(position) and "HEALTHCHECK" in position
    for word, text in stage.instructions:
        if word == "RUN" and "pip install" in text:
            assert "--no-cache-dir" in text and "--no-index" in text, "only what the first stage has built"
        if word == "RUN" and "apt-get install" in text:
            assert "--no-install-recommends" in text and "rm -rf /var/lib/apt/lists" in text


def test_base_images_have_versions() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.M)
    assert re.fullmatch(r"[a-z]+:\d+\.\d+-slim-[a-z]+", base)
    assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"${BASE}", "base"}


@pytest.mark.parametrize("image", SERVED)
def test_the_health_check_of_a_server_is_a_command(image: str) -> None:
    """A worker has none, because tasks can use each ticket that their worker has."""
    stage = stages()[image]
    _, _, command = stage.last("HEALTHCHECK").partition("CMD ")
    if image == "worker":
        assert not command and "readinessProbe" not in deployments()["scaler-worker"]["spec"]["containers"][0]
    else:
        assert accept(json.loads(command), stage.environment).address.startswith("tcp://")


def expanded(text: str, environment: dict[str, str]) -> str:
    return re.sub(r"\$\(?(\w+)\)?", lambda match: environment[match[1]], text)


def test_what_is_built_is_in_the_context() -> None:
    kept = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    assert all((ROOT / path).exists() for path in kept)
    parts = re.findall(r" \./(\S+?)(?:\[|\s|$)", stages()["wheels"].last("RUN"))
    assert parts and all((ROOT / part / "pyproject.toml").exists() and part.split("/")[0] in kept for part in parts)


# ---------------------------------------------------------------- compose


@pytest.mark.parametrize("name", SERVED)
def test_a_compose_service_starts_a_command(name: str) -> None:
    service, stage = services()[name], stages()[name]
    assert (ROOT / service["build"]["dockerfile"]).exists() and service["build"]["target"] == name
    settings = accept([*stage.command, *service["command"]], {**stage.environment, **service.get("environment", {})})
    for other in re.findall(r"//([a-z]+):", " ".join([*service["command"], *service.get("environment", {}).values()])):
        assert other in services()
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    if name == "worker":
        assert int(service["stop_grace_period"].rstrip("s")) > settings.grace_seconds + STOP_MARGIN_SECONDS


@pytest.mark.parametrize("name", SERVED)
def test_a_compose_service_is_locked_down(name: str) -> None:
    service = services()[name]
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] and service["pids_limit"] and service["mem_limit"] and service["logging"]["options"]
    assert all({"nosuid", "nodev"} < set(one.split(":")[1].split(",")) and "size=" in one for one in service["tmpfs"])
    networks: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["networks"]
    is_published = any(not networks[network].get("internal") for network in service["networks"])
    assert is_published == bool(service.get("ports")), "what runs code of others reaches the servers and nothing else"
    assert all(set(service["networks"]) & set(other["networks"]) for other in services().values())


def test_a_storage_refuses_before_it_is_killed() -> None:
    settings = accept(
        [*stages()["storage"].command, *services()["storage"]["command"]], stages()["storage"].environment
    )
    assert settings.memory_limit * 2 <= byte_count(services()["storage"]["mem_limit"])
    (container,) = deployments()["scaler-storage"]["spec"]["containers"]
    settings = accept([*stages()["storage"].command, *container["args"]], stages()["storage"].environment)
    assert settings.memory_limit < byte_count(container["resources"]["limits"]["memory"] + "B")


def test_servers_have_the_key_and_workers_a_ticket() -> None:
    """Each from a place of its own, and never in a file of the repository."""
    asked = {name: service["environment"]["SCALER_KEY"].partition(":?")[0] for name, service in services().items()}
    assert asked == {"storage": "${SCALER_KEY", "scheduler": "${SCALER_KEY", "worker": "${SCALER_WORKER_KEY"}
    for name, secret in (("storage", "scaler-key"), ("scheduler", "scaler-key"), ("worker", "scaler-worker-key")):
        (container,) = deployments()[f"scaler-{name}"]["spec"]["containers"]
        (key,) = [one["valueFrom"]["secretKeyRef"] for one in container["env"] if one["name"] == "SCALER_KEY"]
        assert key["name"] == secret
        assert f"secret generic {secret} " in (DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8")
        assert f"--from-file {key['key']}" in (DEPLOY / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8")


def test_tickets_of_workers_give_no_other_right() -> None:
    """Each task has the rights of its worker's ticket."""
    pages = [DEPLOY / "compose.yaml", DEPLOY / "kubernetes" / "kustomization.yaml"]
    pages += [ROOT / "docs" / "operations" / name for name in ("containers.md", "deploying.md")]
    for page in pages:
        made = re.findall(r"scaler_key derive .*--output worker\.key", page.read_text(encoding="utf-8"))
        assert made and all(re.findall(r"--role (\w+)|(--operator)", one) == [("worker", "")] for one in made), page


def test_nothing_that_is_deployed_is_insecure() -> None:
    for path in (path for path in DEPLOY.rglob("*") if path.is_file()):
        assert "insecure" not in path.read_text(encoding="utf-8"), path


def test_compose_waits_for_what_is_needed() -> None:
    for service in services().values():
        for other, condition in service.get("depends_on", {}).items():
            assert other in services() and condition == {"condition": "service_healthy"}


# ---------------------------------------------------------------- Kubernetes


def test_manifests_are_valid() -> None:
    for document in documents():
        kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


def by_kind() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for document in documents():
        found[document["kind"]].append(document)
    return found


def deployments() -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"]["template"] for one in by_kind()["Deployment"]}


@pytest.mark.parametrize("name", SERVED)
def test_a_pod_starts_a_command(name: str) -> None:
    pod, stage = deployments()[f"scaler-{name}"]["spec"], stages()[name]
    (container,) = pod["containers"]
    variables = {one["name"]: one.get("value", "pod-1") for one in container.get("env", ())}
    arguments = [expanded(argument, variables) for argument in container["args"]]
    settings = accept([*stage.command, *arguments], {**stage.environment, **variables})
    for probe in ("readinessProbe", "livenessProbe"):
        words = container.get(probe, {}).get("exec", {}).get("command", ["scaler_health"])
        words = shlex.split(expanded(words[2], variables)) if words[0] == "sh" else words
        accept(words, {"SCALER_HEALTH_ADDRESS": "tcp://h:1", **stage.environment})
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert container["resources"]["limits"].keys() >= {"memory", "ephemeral-storage"}
    assert all(volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"])
    alive = container.get("livenessProbe")
    if alive is not None:
        assert "exec" not in alive, "a server that is too busy to answer must not be killed"
        assert alive["tcpSocket"]["port"] in {port["name"] for port in container["ports"]}
    if name == "worker":
        assert pod["terminationGracePeriodSeconds"] > settings.grace_seconds + STOP_MARGIN_SECONDS


def test_what_manifests_name_is_there() -> None:
    kinds, pods = by_kind(), deployments()
    for service in kinds["Service"]:
        spec = service["spec"]
        (template,) = [pod for pod in pods.values() if spec["selector"].items() <= pod["metadata"]["labels"].items()]
        ports = {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}
        assert {port["targetPort"] for port in spec["ports"]} == ports
    (autoscaler,) = kinds["HorizontalPodAutoscaler"]
    assert autoscaler["spec"]["scaleTargetRef"]["name"] in pods
    (images,) = [{one["name"] for one in kustomization()["images"]}]
    for pod in pods.values():
        assert {container["image"] for container in pod["spec"]["containers"]} <= images


# ---------------------------------------------------------------- which role may connect to which

SCHEDULER, STORAGE, WORKER = "scaler-scheduler", "scaler-storage", "scaler-worker"
CLIENT, WATCHER, STRANGER = {"scaler-client": "true"}, {"scaler-watcher": "true"}, {"app": "another"}


def labels_of(pod: str | dict[str, str]) -> dict[str, str]:
    labels: dict[str, str] = deployments()[pod]["metadata"]["labels"] if isinstance(pod, str) else pod
    return labels


def is_selected(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ())
    )


def allows(direction: str, of: dict[str, str], other: dict[str, str], port: int) -> bool:
    """By the rules of Kubernetes: what a policy of this direction selects may do only what some policy allows."""
    policies = [
        one["spec"]
        for one in by_kind()["NetworkPolicy"]
        if direction.capitalize() in one["spec"]["policyTypes"] and is_selected(one["spec"]["podSelector"], of)
    ]
    side = "from" if direction == "ingress" else "to"
    return not policies or any(
        any("namespaceSelector" not in peer and is_selected(peer["podSelector"], other) for peer in rule[side])
        and port in {one["port"] for one in rule["ports"]}
        for policy in policies
        for rule in policy.get(direction, ())
    )


def may_connect(dialer: str | dict[str, str], server: str | dict[str, str], port: int) -> bool:
    one, other = labels_of(dialer), labels_of(server)
    return allows("egress", one, other, port) and allows("ingress", other, one, port)


@pytest.mark.parametrize(
    ("dialer", "server", "ports"),
    [
        (WORKER, SCHEDULER, {2345}),
        (WORKER, STORAGE, {2346}),
        (WORKER, WORKER, set()),
        (WORKER, STRANGER, set()),
        (SCHEDULER, STORAGE, {2346}),
        (SCHEDULER, WORKER, set()),
        (SCHEDULER, STRANGER, set()),
        (STORAGE, SCHEDULER, set()),
        (STORAGE, STRANGER, set()),
        (CLIENT, SCHEDULER, {2345}),
        (CLIENT, STORAGE, {2346}),
        (CLIENT, WORKER, set()),
        (WATCHER, SCHEDULER, {2345, 2347}),
        (WATCHER, STORAGE, set()),
        (STRANGER, SCHEDULER, set()),
        (STRANGER, STORAGE, set()),
        (STRANGER, WORKER, set()),
    ],
    ids=str,
)
def test_each_role_reaches_what_it_needs(
    dialer: str | dict[str, str], server: str | dict[str, str], ports: set[int]
) -> None:
    assert {port for port in (2345, 2346, 2347, 443) if may_connect(dialer, server, port)} == ports


def test_kustomize_renders_them() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not here to render it: install it to see what a cluster would get")
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    rendered = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = list(yaml.safe_load_all(rendered))
    assert len(found) == len(documents())
    for document in found:
        kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)
