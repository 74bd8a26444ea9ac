"""Build-time only: gives every dist its version, and lets its requirements name that version.

The version is one line in the file VERSION. A dist lists its requirements in its `hatch.toml`, where `{version}` stands
for that line, so the parts always require each other at exactly the version they were made at.

An sdist must build alone, without VERSION and this file. Both fields are already settled in its PKG-INFO, so all it
needs is to be left without the `hatch.toml` that points here.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class RequirementsHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        version = metadata["version"]
        extras = self.config.get("optional-dependencies", {})
        metadata["dependencies"] = fill(self.config["dependencies"], version)
        metadata["optional-dependencies"] = {extra: fill(names, version) for extra, names in extras.items()}


class StandaloneSdistHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        included = build_data["force_include"]
        for path in [path for path, name in included.items() if name == "hatch.toml"]:
            del included[path]


def fill(requirements: list[str], version: str) -> list[str]:
    return [requirement.replace("{version}", version) for requirement in requirements]
