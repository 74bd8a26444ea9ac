"""The wheels of all dists, built from a checkout: metadata that an index takes, the license, nothing of tests."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from tests.architecture.sources import PARTS, ROOT

DISTS = {"scaler-all": ".", **{ROOT.joinpath(part.folder).name: part.folder for part in PARTS.values()}}
LICENSE = (ROOT / "LICENSE").read_bytes()
BUILD_SECONDS = 60


def build(kind: str, folder: Path, place: Path) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(place), str(folder)]
    subprocess.run(command, capture_output=True, timeout=BUILD_SECONDS, check=True)
    (built,) = place.iterdir()
    return built


@pytest.fixture(scope="module", params=DISTS)
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", ROOT / DISTS[request.param], tmp_path_factory.mktemp("wheel")))


def content(wheel: zipfile.ZipFile, name: str) -> bytes:
    (path,) = [path for path in wheel.namelist() if re.fullmatch(rf"[\w.-]+\.dist-info/{name}", path)]
    return wheel.read(path)


def test_the_metadata_is_whole(wheel: zipfile.ZipFile) -> None:
    metadata = Metadata.from_email(content(wheel, "METADATA"), validate=True)
    assert metadata.keywords and metadata.summary and metadata.description
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0" and metadata.license_files == ["LICENSE"]
    versions = [name.rpartition(" ")[2] for name in metadata.classifiers or () if name.startswith("Programming")]
    assert versions == ["3", "3.10", "3.11", "3.12", "3.13"]


def test_the_license_is_in_it(wheel: zipfile.ZipFile) -> None:
    assert content(wheel, "licenses/LICENSE") == LICENSE


def test_it_holds_its_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    (information,) = [top for top in tops if top.endswith(".dist-info")]
    assert len(tops - {information}) == (0 if information.startswith("scaler_all") else 1)
    assert not [name for name in wheel.namelist() if "tests/" in name or name.endswith(".pyc")]


def test_wheels_are_reproducible(tmp_path: Path) -> None:
    """From another folder, and through an sdist, where neither VERSION nor the hook for metadata is."""
    sources = tmp_path / "sources"
    shutil.copytree(ROOT / "protocol", sources / "protocol")
    shutil.copytree(ROOT / "tools", sources / "tools")
    shutil.copy(ROOT / "VERSION", sources)
    first = build("wheel", ROOT / "protocol", tmp_path / "first")
    second = build("wheel", sources / "protocol", tmp_path / "second")
    sdist = build("sdist", ROOT / "protocol", tmp_path / "sdist")
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", sdist, "-C", tmp_path / "unpacked"], check=True)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    third = build("wheel", unpacked, tmp_path / "third")
    assert len({hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)}) == 1
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(third) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
        assert content(one, "METADATA") == content(other, "METADATA")
