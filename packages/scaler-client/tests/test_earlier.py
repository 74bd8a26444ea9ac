"""An earlier Scaler beside this one is told at import."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import scaler
from scaler.utility.earlier import warn_of_earlier


@pytest.mark.parametrize(("folder", "name"), [("scaler-1.9.9", "scaler"), ("opengris_scaler-2.9.0", "opengris-scaler")])
def test_an_earlier_scaler_is_told_with_what_to_do(tmp_path: Path, folder: str, name: str) -> None:
    (tmp_path / f"{folder}.dist-info").mkdir()
    with pytest.warns(UserWarning, match=f"`pip uninstall {name}`, and then `pip install --force-reinstall"):
        warn_of_earlier(str(tmp_path / "scaler"))


def test_our_own_dists_are_not_warned_of(tmp_path: Path) -> None:
    for name in ("scaler_client-0.1.0", "scaler_all-0.1.0", "scaler_protocol-0.1.0", "scaler_extra-1.0", "numpy-2.0"):
        (tmp_path / f"{name}.dist-info").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_earlier(str(tmp_path / "scaler"))
        warn_of_earlier(str(tmp_path / "archive.zip" / "scaler"))


def test_it_is_told_at_import(tmp_path: Path) -> None:
    """The package as pip puts it: beside the metadata of all others."""
    shutil.copytree(scaler.__path__[0], tmp_path / "scaler", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "scaler-1.9.9.dist-info").mkdir()
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import scaler"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "scaler 1.9.9 is installed in the same environment" in ended.stderr
