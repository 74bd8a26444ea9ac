"""The release workflow: its commands are those of this repository, and its upload runs here against an index."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.pythons import SUPPORTED
from tools.release.__main__ import reasons_against

from tests.architecture.sources import ROOT
from tests.packages.building import DISTS, Built
from tests.packages.index import REQUEST_TOKEN, Index

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
KEYS = {"runs-on", "timeout-minutes", "permissions", "steps", "needs", "environment"}
STEP_KEYS = {"name", "uses", "with", "run"}


def workflow() -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def steps(job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workflow()["jobs"][job]["steps"]
    return found


def commands(job: str) -> list[str]:
    return [step["run"] for step in steps(job) if "run" in step]


def test_the_workflow_is_one() -> None:
    found = workflow()
    assert found["on"] == {"push": {"tags": ["v*"]}}
    for job in found["jobs"].values():
        assert set(job) <= KEYS and {"runs-on", "timeout-minutes", "permissions"} <= set(job)
        for step in job["steps"]:
            assert set(step) <= STEP_KEYS and ("run" in step) != ("uses" in step)


def test_its_actions_are_pinned_to_commits() -> None:
    """A tag can be moved to other code later. The version in the comment is for readers, one for each action."""
    uses = re.findall(r"uses: (\S+)@(\S+) # (v\d+\.\d+\.\d+)$", WORKFLOW.read_text(encoding="utf-8"), re.M)
    assert len(uses) == sum("uses" in step for job in workflow()["jobs"].values() for step in job["steps"])
    assert all(name.startswith("actions/") and re.fullmatch(r"[0-9a-f]{40}", commit) for name, commit, _ in uses)
    assert len({name for name, _, _ in uses}) == len(set(uses))


def test_only_the_last_job_has_a_right_and_it_runs_no_code_of_ours() -> None:
    jobs = workflow()["jobs"]
    assert workflow()["permissions"] == {} and jobs["build"]["permissions"] == {"contents": "read"}
    assert jobs["publish"]["permissions"] == {"contents": "read", "id-token": "write"}
    assert jobs["publish"]["needs"] == "build" and jobs["publish"]["environment"] == "release"
    assert not [command for command in commands("publish") if not command.startswith("python -m ")]
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")


def test_its_commands_are_those_of_this_repository() -> None:
    named = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    called = [shlex.split(command) for command in commands("build")]
    made = [words[1] for words in called if words[0] == "make"]
    assert made == ["check", "test", "release-check", "build"] and set(made) <= set(named)
    assert called[0] == ["python", "-m", "tools.release", "$GITHUB_REF_NAME"]


def test_what_is_published_was_installed_with_each_supported_python() -> None:
    """A version that is missing there fails the release, and is not left out."""
    (setup,) = (step for step in steps("build") if step.get("uses", "").startswith("actions/setup-python@"))
    versions = setup["with"]["python-version"].split()
    assert sorted(versions, key=SUPPORTED.index) == list(SUPPORTED)
    assert "make release-check WHICH=each" in commands("build")


def test_everything_is_published_that_is_built() -> None:
    paths = {
        step["with"]["path"] for job in ("build", "publish") for step in steps(job) if "path" in step.get("with", {})
    }
    assert paths == {"dist/"} and "--outdir dist " in (ROOT / "Makefile").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------------- what comes before


def test_what_has_to_be_done_first_is_said(tmp_path: Path) -> None:
    for name in ("tools", "changelog.d"):
        (tmp_path / name).mkdir()
    for name, text in {
        "VERSION": "1.2.3\n",
        "CHANGELOG.md": "# Change log\n",
        "changelog.d/client-x.md": "x\n",
        "tools/hatch_metadata.py": 'HOME = "https://example.com/scaler"\n',
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [reason.split()[0] for reason in reasons_against("v1.2.4", tmp_path)] == [
        *("the", "CHANGELOG.md", "changelog.d", "HOME")
    ]
    (tmp_path / "CHANGELOG.md").write_text("# Change log\n\n## 1.2.3 (2030-01-02)\n", encoding="utf-8")
    (tmp_path / "changelog.d" / "client-x.md").unlink()
    (tmp_path / "tools" / "hatch_metadata.py").write_text('HOME = "https://scaler.invalid/x"\n', encoding="utf-8")
    assert not list(reasons_against("v1.2.3", tmp_path))


def test_it_is_a_command() -> None:
    command = [sys.executable, "-m", "tools.release", "v0.0.0"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1 and "the tag is v0.0.0" in ended.stderr


# --------------------------------------------------------------------------------------------------------------- upload


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path)
    try:
        yield index
    finally:
        index.close()


def upload(index: Index, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The workflow's own command, told that this index is the one that twine trusts by default."""
    address = f"{index.url}/legacy/"
    (place / "sitecustomize.py").write_text(f"import twine.utils\ntwine.utils.DEFAULT_REPOSITORY = {address!r}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TWINE_", "GITHUB_", "ACTIONS_"))}
    more = {
        "PYTHONPATH": str(place),
        "REQUESTS_CA_BUNDLE": str(index.certificate),
        "TWINE_REPOSITORY_URL": address,
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        **environment,
    }
    command = commands("publish")[-1].replace("python ", f"{shlex.quote(sys.executable)} ")
    return subprocess.run(
        command, shell=True, cwd=place, env=kept | more, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.fixture
def place(built: Built, tmp_path: Path) -> Path:
    """With what `make build` leaves in dist/."""
    (tmp_path / "dist").mkdir()
    for path in (*built.wheels.iterdir(), *built.sdists.iterdir()):
        shutil.copy(path, tmp_path / "dist")
    return tmp_path


def test_the_upload_is_rehearsed(index: Index, place: Path) -> None:
    refused = upload(index, place)
    assert refused.returncode != 0 and not index.files, "without the CI system's word there is no token"
    token = {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN, "ACTIONS_ID_TOKEN_REQUEST_URL": index.identity_url}
    ended = upload(index, place, GITHUB_ACTIONS="true", **token)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert index.files == {path.name: path.read_bytes() for path in (place / "dist").iterdir()}
    assert len(index.files) == 2 * len(DISTS)
