"""Build-time only: what every dist has in common is written once, here, and put into each when it is built.

* Its version: one line in the file VERSION.
* Its requirements: a dist lists them in its `hatch.toml`. There `{version}` stands for that line, and `{compatible}`
  for that version and all later ones of the same minor version. The parts require each other by `{compatible}`, so one
  part can be upgraded alone, and brings newer patches of the parts that it needs.
* Its addresses, and its README with links and pictures that also work outside of the repository, on an index.
* Its software bill of materials, in CycloneDX: what it needs at run time. No wheel holds the code of another project.

An sdist must build alone, without VERSION and this file. Every field is already settled in its PKG-INFO and its bill of
materials is a file in it, so all it needs is a `pyproject.toml` without the hooks that point here, and no `hatch.toml`.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

#: Where the project lives: a placeholder, to be set before anything is published.
HOME = "https://example.com/scaler"
PAGE = HOME + "/blob/v{version}/{path}"
PICTURE = HOME + "/raw/v{version}/{path}"

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)(\[[^\]]*\])\(([^)\s]+)\)")
HOOK_TABLE = re.compile(r"^\[tool\.hatch\.build\.targets\.\w+\.hooks\.custom\]\n(?:.+\n)*\n?", re.M)
WHEEL_TABLE = "[tool.hatch.build.targets.wheel]\n"


class MetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        version = metadata["version"]
        metadata["dependencies"] = fill(self.config["dependencies"], version)
        if extras := self.config.get("optional-dependencies"):
            metadata["optional-dependencies"] = {extra: fill(names, version) for extra, names in extras.items()}
        metadata["urls"] = addresses(version)
        metadata["readme"] = {"content-type": "text/markdown", "text": description(Path(self.root), version)}


class BillHook(BuildHookInterface[Any]):
    """Puts the bill of materials into wheels and sdists, and makes an sdist independent of the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.made = Path(tempfile.mkdtemp())
        core = self.metadata.core
        bill = self.made / f"{core.name}.cdx.json"
        bill.write_text(bill_of_materials(core, self.metadata.version), encoding="utf-8")
        if self.target_name == "wheel":
            build_data["sbom_files"].append(str(bill))
            return
        project = self.made / "pyproject.toml"
        project.write_text(standalone((Path(self.root) / project.name).read_text(encoding="utf-8"), bill.name), "utf-8")
        included = build_data["force_include"]
        for path in [path for path, name in included.items() if name in ("hatch.toml", project.name)]:
            del included[path]
        readme = Path(self.root) / "README.md"
        included.update({str(path): path.name for path in (project, bill, readme)})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self.made)


def fill(requirements: list[str], version: str) -> list[str]:
    compatible = compatible_range(version)
    return [entry.replace("{version}", version).replace("{compatible}", compatible) for entry in requirements]


def compatible_range(version: str) -> str:
    """This version and later ones of its minor version, which have the same Python names and the same protocol."""
    major, minor = (int(number) for number in version.split(".")[:2])
    return f">={version},<{major}.{minor + 1}"


def addresses(version: str) -> dict[str, str]:
    return {
        "Homepage": HOME,
        "Documentation": PAGE.format(version=version, path="docs/index.md"),
        "Source": HOME,
        "Issues": f"{HOME}/issues",
        "Changelog": PAGE.format(version=version, path="CHANGELOG.md"),
    }


def description(folder: Path, version: str) -> str:
    """The README of a dist, with absolute links. A link to what is not in the repository is an error."""

    def absolute(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        path, hash_, place = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link.group()
        found = (folder / path).resolve()
        if not found.exists():
            raise ValueError(f"{folder / 'README.md'} links to {target}, which is not there")
        form = PICTURE if picture else PAGE
        inside = found.relative_to(ROOT.resolve()).as_posix()
        return f"{picture}{text}({form.format(version=version, path=inside)}{hash_}{place})"

    return LINK.sub(absolute, (folder / "README.md").read_text(encoding="utf-8"))


def standalone(project: str, bill: str) -> str:
    """A `pyproject.toml` without hooks, whose wheel has the bill of materials that lies beside it."""
    without, hooks = HOOK_TABLE.subn("", project)
    if hooks != 2 or without.count(WHEEL_TABLE) != 1:
        raise ValueError("pyproject.toml has one table for wheels, and one hook each for wheels and sdists")
    return without.replace(WHEEL_TABLE, f'{WHEEL_TABLE}sbom-files = ["{bill}"]\n')


def bill_of_materials(core: Any, version: str) -> str:
    """CycloneDX 1.7. Nothing in it depends on the day, the machine or the environment, so builds are reproducible."""
    own = package_url(core.name, version)
    parts: dict[str, dict[str, Any]] = {}
    for entry in core.dependencies:
        add_component(parts, Requirement(entry), "required")
    for entries in core.optional_dependencies.values():
        for entry in entries:
            if Requirement(entry).name != core.name:
                add_component(parts, Requirement(entry), "optional")
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own)}",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": core.name,
                "version": version,
                "description": core.description,
                "licenses": [{"expression": core.license_expression}],
                "purl": own,
                "externalReferences": [{"type": "website", "url": core.urls["Homepage"]}],
            },
        },
        "components": list(parts.values()),
        "dependencies": [{"ref": own, "dependsOn": [*parts]}, *({"ref": part} for part in parts)],
    }
    return json.dumps(bill, indent=2) + "\n"


def add_component(parts: dict[str, dict[str, Any]], requirement: Requirement, scope: str) -> None:
    """A package of another project: external, with the versions that are accepted."""
    purl = package_url(requirement.name)
    if purl in parts:
        return
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": requirement.name,
        "scope": scope,
        "purl": purl,
        "isExternal": True,
    }
    if requirement.specifier:
        component["versionRange"] = version_range(requirement.specifier)
    if requirement.marker:
        component["properties"] = [{"name": "python:marker", "value": str(requirement.marker)}]
    parts[purl] = component


def package_url(name: str, version: str = "") -> str:
    return f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}" + (f"@{version}" if version else "")


def version_range(specifiers: SpecifierSet) -> str:
    """As a `vers:` range, with its bounds in the order of their versions."""
    bounds = sorted(specifiers, key=lambda bound: [int(number) for number in re.findall(r"\d+", bound.version)])
    return "vers:pypi/" + "|".join(bound.operator.replace("==", "") + bound.version for bound in bounds)
