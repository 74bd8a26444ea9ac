"""A program whose working directory is gone, and one whose `sys.path` has what no PYTHONPATH can tell."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.cluster.process import _search_path

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def printed_by(program: Path, text: str) -> str:
    program.write_text(text)
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_cluster_starts_where_the_working_directory_was_deleted(tmp_path: Path) -> None:
    text = """
import os, sys, scaler
sys.path.insert(0, "")
os.mkdir(GONE)
os.chdir(GONE)
os.rmdir(GONE)
with scaler.local(workers=1) as client:
    print(client.map(lambda x: x + 1, range(3)), client.submit(os.getcwd).result())
try:
    os.getcwd()
except FileNotFoundError:
    print("and it is still gone")
"""
    told = printed_by(tmp_path / "program.py", f"GONE = {str(tmp_path / 'gone')!r}\n{text}")
    assert told.splitlines() == ["[1, 2, 3] /", "and it is still gone"]


def test_entries_of_the_search_path_are_read_as_python_reads_them(tmp_path: Path) -> None:
    odd = tmp_path / "with:colon"
    odd.mkdir()
    (odd / "helper_beside_a_colon.py").write_text("OFFSET = 7\ndef f(x):\n    return x + OFFSET\n")
    text = f"""
import pathlib, sys, scaler
sys.path[:0] = [pathlib.Path("."), b"/bytes", None, {str(odd)!r}]
import helper_beside_a_colon
with scaler.local(workers=1) as client:
    print(client.map(helper_beside_a_colon.f, [1]), client.submit(lambda: helper_beside_a_colon.OFFSET).result())
"""
    assert printed_by(tmp_path / "program.py", text) == "[8] 7"


def test_only_texts_without_a_separator_are_told_to_others() -> None:
    entries = [Path("/path"), b"/bytes", None, "/one", f"/with{os.pathsep}separator", "", "relative"]
    assert _search_path(entries) == os.pathsep.join(("/one", os.getcwd(), "relative"))


def test_a_relative_entry_is_where_the_program_has_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's finder for the entry keeps the directory of its first use, also after `os.chdir`."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper_of_a_relative_entry.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["lib", *sys.path])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    importlib.import_module("helper_of_a_relative_entry")
    monkeypatch.chdir("/")
    assert _search_path(["lib", "another"]) == os.pathsep.join((str(tmp_path / "lib"), "another"))
