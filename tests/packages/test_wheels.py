"""The wheels and sdists of all dists, built from a checkout: what an index takes, and what users can rely on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from tools.hatch_metadata import HOME, compatible_range, description, standalone, version_range
from tools.release.wheels import complaints

from tests.architecture.sources import ROOT
from tests.packages.building import DISTS, Built, build_all

LICENSE = (ROOT / "LICENSE").read_bytes()
VERSION = (ROOT / "VERSION").read_text(encoding="utf-8").strip()


@pytest.fixture(params=DISTS)
def wheel(request: pytest.FixtureRequest, built: Built) -> zipfile.ZipFile:
    return zipfile.ZipFile(built.wheel(request.param))


def content(wheel: zipfile.ZipFile, name: str) -> bytes:
    (path,) = [path for path in wheel.namelist() if re.fullmatch(rf"[\w.-]+\.dist-info/{name}", path)]
    return wheel.read(path)


def metadata_of(wheel: zipfile.ZipFile) -> Metadata:
    return Metadata.from_email(content(wheel, "METADATA"), validate=True)


def test_the_metadata_is_whole(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    assert metadata.metadata_version == "2.4", "the newest that every index takes"
    assert metadata.keywords and metadata.summary and metadata.description
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0" and metadata.license_files == ["LICENSE"]
    versions = [name.rpartition(" ")[2] for name in metadata.classifiers or () if name.startswith("Programming")]
    assert versions == ["3", "3.10", "3.11", "3.12", "3.13", "3.14"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == set(metadata.project_urls or ())


def test_what_an_index_checks(built: Built, tmp_path: Path) -> None:
    for path in [*built.wheels.iterdir(), *built.sdists.iterdir()]:
        (tmp_path / path.name).symlink_to(path)
    assert list(complaints(tmp_path)) == []


def test_a_wheel_that_an_index_refuses_is_told(built: Built, tmp_path: Path) -> None:
    whole = built.wheel("scaler-storage")
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(tmp_path / whole.name, "w") as target:
        for name in source.namelist():
            text = source.read(name)
            target.writestr(name, text.partition(b"\n\n")[0] if name.endswith("/METADATA") else text)
    assert "long_description" in "".join(complaints(tmp_path))
    assert list(complaints(tmp_path / "nothing")) == [f"no dists in {tmp_path / 'nothing'}: `make build` makes them"]


def test_the_license_is_in_it(wheel: zipfile.ZipFile) -> None:
    assert content(wheel, "licenses/LICENSE") == LICENSE


def test_it_holds_its_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    (information,) = [top for top in tops if top.endswith(".dist-info")]
    assert len(tops - {information}) == (0 if information.startswith("scaler_all") else 1)
    assert not [name for name in wheel.namelist() if "tests/" in name or name.endswith(".pyc")]


# ------------------------------------------------------------------------------------------------------- descriptions


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", re.sub(r"```.*?```", "", text, flags=re.S))


def test_links_of_a_description_work_on_an_index(wheel: zipfile.ZipFile) -> None:
    text = metadata_of(wheel).description or ""
    wrong = [link for pair in links(text) for link in pair if link and not link.startswith(("https://", "#"))]
    assert not wrong
    places = [link.partition(f"v{VERSION}/")[2] for pair in links(text) for link in pair if link.startswith(HOME)]
    assert not [place for place in places if not (ROOT / place.partition("#")[0]).exists()]


def test_the_readme_itself_keeps_links_that_work_in_a_checkout() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert HOME not in text and len(links(text)) == len(links(description(ROOT, VERSION))) > 10
    assert "![Clients submit" in text and "/raw/" in description(ROOT, VERSION)


def test_a_link_into_nothing_ends_a_build(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("see [that](gone.md)", encoding="utf-8")
    with pytest.raises(ValueError, match=r"README.md links to gone.md, which is not there"):
        description(tmp_path, VERSION)


# ---------------------------------------------------------------------------------------------------- what it requires


@pytest.mark.parametrize(
    ("version", "accepted", "refused"),
    [
        ("0.1.0", ["0.1.0", "0.1.7"], ["0.0.9", "0.2.0", "1.1.0"]),
        ("1.9.3", ["1.9.3", "1.9.10"], ["1.9.2", "1.10.0", "2.0.0"]),
    ],
)
def test_parts_require_each_other_by_range(version: str, accepted: list[str], refused: list[str]) -> None:
    found = Requirement("scaler-protocol" + compatible_range(version)).specifier
    assert all(found.contains(other) for other in accepted)
    assert not any(found.contains(other) for other in refused)


def test_no_part_names_one_version_of_another(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    for requirement in metadata.requires_dist or ():
        if requirement.name.startswith("scaler-") and requirement.name != metadata.name:
            assert requirement.specifier == Requirement("x" + compatible_range(VERSION)).specifier, requirement


# ------------------------------------------------------------------------------------------------- bills of materials


@cache
def validator() -> JsonStrictValidator:
    return JsonStrictValidator(SchemaVersion.V1_7)


def test_the_bill_of_materials_is_right(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    text = content(wheel, f"sboms/{metadata.name}.cdx.json").decode()
    assert validator().validate_str(text) is None
    bill: dict[str, Any] = json.loads(text)
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == (metadata.name, VERSION)
    required = {entry.name: entry for entry in metadata.requires_dist or () if entry.name != metadata.name}
    assert {part["name"] for part in bill["components"]} == set(required)
    for part in bill["components"]:
        assert part["isExternal"], "no wheel holds the code of another project"
        assert part.get("versionRange", "").count("|") + 1 == max(len(required[part["name"]].specifier), 1)


def test_ranges_are_told_in_order() -> None:
    assert version_range(Requirement("x<28,>=3.9").specifier) == "vers:pypi/>=3.9|<28"
    assert version_range(Requirement("x==0.1.0").specifier) == "vers:pypi/0.1.0"


# ------------------------------------------------------------------------------------------------------ reproducible


def test_builds_are_reproducible(built: Built, tmp_path: Path) -> None:
    """From another folder with another umask, byte for byte; and through an sdist, where the repository is not."""
    copy = tmp_path / "elsewhere"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=30)
    before = os.umask(0o077)
    try:
        for name in listed.stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, copy / name)
        second = build_all(copy, tmp_path / "second")
    finally:
        os.umask(before)
    assert len(digests(built.wheels)) == len(DISTS)
    assert digests(built.wheels) == digests(second.wheels) == digests(built.again)
    assert digests(built.sdists) == digests(second.sdists)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_an_sdist_that_would_need_the_repository_is_not_made() -> None:
    project = (ROOT / "protocol" / "pyproject.toml").read_text(encoding="utf-8")
    assert "hatch_metadata" not in standalone(project, "x.cdx.json").replace("# tools/hatch_metadata.py", "")
    with pytest.raises(ValueError, match="one hook each"):
        standalone(project.replace(".hooks.custom", ".hooks.other"), "x.cdx.json")
