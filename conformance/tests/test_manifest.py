"""A wrong manifest is told in one line that says what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler_conformance.commands import main
from scaler_conformance.manifest import PLACES, ManifestError, parse, read

GOOD = '[port]\nname = "p"\n[role.storage]\ncommand = ["./s", "{bind}"]\n'
BASE = '[port]\nname = "p"\n[role.storage]\ncommand = ["s"]\n'
WRONG = {
    "not TOML": "[port",
    "the table [port] is missing": '[role.storage]\ncommand = ["s"]',
    "needs a name": '[port]\n[role.storage]\ncommand = ["s"]',
    "name at least one role": '[port]\nname = "p"\n[role]',
    "is no role": '[port]\nname = "p"\n[role.shceduler]\ncommand = ["s"]',
    "unknown key 'comand'": '[port]\nname = "p"\n[role.storage]\ncomand = ["s"]',
    "must be a list of words": '[port]\nname = "p"\n[role.storage]\ncommand = "s --bind"',
    "{storage}": '[port]\nname = "p"\n[role.storage]\ncommand = ["s", "{storage}"]',
    "has no feature": '[port]\nname = "p"\nfeatures = ["teleport"]\n[role.storage]\ncommand = ["s"]',
    "timing.slack": GOOD + "[timing]\nslack = -1",
    "env is a table": f"{BASE}env = ['A=1']",
    "variants is a table": f"{BASE}variants = 'small'",
    "ready_seconds is a number": f"{BASE}ready_seconds = 'soon'",
    "stop is the name of a signal": f"{BASE}stop = 'SIGFOO'",
    "features is a list": '[port]\nname = "p"\nfeatures = "memfd"\n[role.storage]\ncommand = ["s"]',
}


@pytest.mark.parametrize("told", WRONG)
def test_what_is_wrong_is_told_in_one_line(told: str, tmp_path: Path) -> None:
    path = tmp_path / "port.toml"
    path.write_text(WRONG[told], encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read(path)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_good_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "port.toml"
    path.write_text(GOOD, encoding="utf-8")
    port = read(path)
    assert port.roles["storage"].command == ("./s", "{bind}") and port.roles["storage"].directory == tmp_path


def test_a_role_that_is_not_there_is_named() -> None:
    port = parse({"port": {"name": "p"}, "role": {"storage": {"command": ["s"]}}}, Path("x.toml"))
    with pytest.raises(ManifestError, match="the roles in it: storage"):
        port.role("worker")


def test_wrong_use_is_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--manifest", str(tmp_path / "none.toml")]) == 2
    assert "scaler-conformance init" in capsys.readouterr().err


def test_init_writes_a_manifest_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "port.toml"
    assert main(["init", "--manifest", str(path)]) == 0
    assert set(read(path).roles) == set(PLACES)
    assert main(["init", "--manifest", str(path)]) == 2


def test_the_vectors_are_as_they_were_frozen(tmp_path: Path) -> None:
    assert main(["vectors", "--check"]) == 0
    assert main(["vectors", "--copy", str(tmp_path / "copy")]) == 0
    assert (tmp_path / "copy" / "HASHES").exists()
