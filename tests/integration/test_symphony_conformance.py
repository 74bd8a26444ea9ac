"""The Symphony adapter through the conformance suite, as any other worker: what is special to workers, quickly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.support.processes import Stage
from tests.support.symphony import VARIABLE, new_world

MANIFEST = ROOT / "conformance" / "adapters" / "symphony" / "symphony.toml"
PLAY_SECONDS = 240.0


# Without WRK-6 and WRK-28: how it fails there (known-failures.toml) depends on how long the tasks before took.
DIRECTED = ("--layer", "directed", "--case", "WRK-[!26]*", "--case", "WRK-2[!8]*")
PRESENTING = ("--layer", "timing", "--case", "WRK-3[35679]*")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cases", (DIRECTED, PRESENTING), ids=("directed", "presenting"))
def test_the_adapter_conforms(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: tuple[str, ...]
) -> None:
    world = tmp_path / "world.json"
    new_world(tmp_path, services=3).write(world)
    monkeypatch.setenv(VARIABLE, str(world))
    suite = Path(sys.executable).parent / "scaler-conformance"
    arguments = ("run", "--manifest", str(MANIFEST), *cases, "--quiet")
    command = stage.start_program_file(suite, *arguments, "--out", str(tmp_path / "out"))
    assert command.wait(PLAY_SECONDS) == 0, command.text
    assert not (tmp_path / "breaches").exists(), (tmp_path / "breaches").read_text(encoding="utf-8")
