"""The images of deploy/, built by buildah from a base of Debian's packages, and a cluster of them: `make test-images`.

The base that the Dockerfile names comes from a registry of images. This one comes from the archive of Debian, with its
Python: what is tested is each step of the Dockerfile and what it makes, not that base. Containers share the network of
this machine, and their processes see those of this machine, with the isolation `chroot` of buildah.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tools.pythons import archive

from tests.architecture.sources import ROOT
from tests.support.processes import Stage

ASKED_FOR = "SCALER_TEST_IMAGES"
BUILD_SECONDS = 600
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BASE = "localhost/scaler-test-base"
#: What an image may add to its base, in MB.
LARGEST = {"storage": 45, "scheduler": 45, "worker": 60, "tools": 80}

pytestmark = pytest.mark.timeout(4 * BUILD_SECONDS)


def buildah(*arguments: str | Path, seconds: float = BUILD_SECONDS) -> str:
    settings = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs", "STORAGE_OPTS": ""}
    ended = subprocess.run(
        ["buildah", *map(str, arguments)],
        env={**os.environ, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == 0, f"buildah {arguments}:\n{ended.stdout[-5_000:]}{ended.stderr[-5_000:]}"
    return ended.stdout.strip()


@contextmanager
def container(image: str) -> Iterator[str]:
    name = buildah("from", image)
    try:
        yield name
    finally:
        buildah("rm", name)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not os.environ.get(ASKED_FOR):
        pytest.skip("`make test-images` builds the images of deploy/")
    missing = [name for name in ("buildah", "debootstrap", "crun") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"it needs root, and Debian's packages buildah, debootstrap and crun; missing: {missing}")
    system = tmp_path_factory.mktemp("base") / "system"
    command = ["debootstrap", "--variant=minbase", "--include=python3,python3-pip,ca-certificates"]
    try:
        command += ["bookworm", str(system), archive()]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
        why = ended.stdout.splitlines()[-1] if ended.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        why = str(error)
    if why:
        pytest.skip(f"no base from Debian's archive: {why}")
    with container("scratch") as made:
        buildah("add", "--quiet", made, system, "/")
        buildah("copy", "--quiet", made, CERTIFICATES, CERTIFICATES)
        buildah("run", made, "--", "ln", "-s", "python3", "/usr/bin/python")
        # Debian's pip is told that this system is the image's own.
        settings = [f"--env=PIP_CERT={CERTIFICATES}", "--env=PIP_BREAK_SYSTEM_PACKAGES=1"]
        buildah("config", *settings, made)
        buildah("commit", "--quiet", made, BASE)
    shutil.rmtree(system)
    return BASE


@pytest.fixture(scope="module")
def images(base: str) -> Iterator[dict[str, str]]:
    built: dict[str, str] = {}
    try:
        for target in LARGEST:
            built[target] = f"localhost/scaler-test-{target}"
            options = ("--network", "host", "--build-arg", f"BASE={base}", "--file", "deploy/Dockerfile")
            buildah("build", *options, "--target", target, "--tag", built[target], ".")
        yield built
    finally:
        buildah("rmi", "--force", *built.values(), base)


@pytest.mark.parametrize("target", LARGEST)
def test_an_image_is_small_and_its_user_can_change_nothing(base: str, images: dict[str, str], target: str) -> None:
    assert megabytes(images[target]) - megabytes(base) < LARGEST[target]
    with container(images[target]) as name:
        assert buildah("run", name, "--", "id", "-u") == "10001"
        # It may not look into each folder, which find counts as a failure.
        look = "find / -xdev -type d -writable -not -path '/proc/*' 2>/dev/null || true"
        found = set(buildah("run", name, "--", "sh", "-c", look).splitlines())
        assert "/tmp" in found
        assert found <= {"/tmp", "/var/tmp", "/run/lock", "/data", "/dev/shm", "/dev/mqueue"}
        assert "usage:" in buildah("run", name, "--", "scaler_health", "--help")


def megabytes(image: str) -> float:
    (found,) = json.loads(buildah("images", "--json", image))
    return float(re.findall(r"^([\d.]+) MB$", found["size"])[0])


def test_containers_are_a_cluster(images: dict[str, str], tmp_path: Path) -> None:
    with ExitStack() as containers, Stage(tmp_path) as stage:
        names = {target: containers.enter_context(container(image)) for target, image in images.items()}
        with container(images["tools"]) as maker:
            key = buildah("run", maker, "--", "sh", "-c", "cd /tmp && scaler_key make k >/dev/null && cat k")
        port = stage.ports()
        address, objects = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
        start = {
            "storage": ("scaler_object_storage_server", objects),
            "scheduler": ("scaler_scheduler", address, "-osa", objects),
            "worker": ("tini", "--", "scaler_cluster", "-n", "2", address),
        }
        for target, command in start.items():
            options = ("--isolation", "chroot", "--env", f"SCALER_KEY={key}", names[target], "--")
            stage.start_program_file(Path("/usr/bin/env"), "STORAGE_DRIVER=vfs", "buildah", "run", *options, *command)
        program = f"from scaler import Client\nprint(sum(Client(address={address!r}).map(abs, range(-100, 0))))"
        said = buildah("run", "--env", f"SCALER_KEY={key}", names["tools"], "--", "python", "-c", program, seconds=100)
        assert said == "5050"
