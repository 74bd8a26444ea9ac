"""May this schema follow that one? `python schema_gate.py OLD NEW` prints what is wrong, a line each. (EVO-1)

Two judges. Cap'n Proto's own checker sees what would make old data unreadable: types, defaults, positions. It lets a
last field vanish and any field take another name, so a comparison of our own sees to it that whatever had a name in the
old schema has the same name, number, type and value in the new one.

This runs in a process of its own: a schema that does not parse aborts it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import capnp

_STRUCT = re.compile(r"^\s*struct\s+(\w+)\s*(@0x[0-9a-f]{16})?", re.MULTILINE)
_FILE_ID = re.compile(r"^@0x[0-9a-f]{16};", re.MULTILINE)

Names = dict[str, str]
"""What a name stands for, in words that can be compared: `tasks.TaskHeader.depth` -> `field @6 of uint16 = 0`."""


def main() -> int:
    old, new = (Path(argument) for argument in sys.argv[1:3])
    findings = judge(old, new)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def judge(old: Path, new: Path) -> list[str]:
    old_files, new_files = load(old), load(new)
    return [*missing_ids(new), *changed_names(old_files, new_files), *unreadable_data(old_files, new_files)]


def load(directory: Path) -> dict[str, Any]:
    """Every file by its name. One parser for each schema: the same ids twice in one parser abort the process."""
    parser = capnp.SchemaParser()
    return {path.stem: parser.load(str(path)) for path in sorted(directory.glob("*.capnp"))}


# ---------------------------------------------------------------- ids


def missing_ids(directory: Path) -> list[str]:
    """An id that is not written down is made from names, and changes with them."""
    findings = []
    for path in sorted(directory.glob("*.capnp")):
        text = path.read_text(encoding="utf-8")
        if not _FILE_ID.search(text):
            findings.append(f"{path.stem}: the file has no explicit id")
        findings += [f"{path.stem}.{name} has no explicit id" for name, number in _STRUCT.findall(text) if not number]
    return findings


# ---------------------------------------------------------------- names


def changed_names(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before, after = names_of(old), names_of(new)
    gone = [f"{name} is gone: it was a {what}" for name, what in before.items() if name not in after]
    changed = [
        f"{name} was a {what}, and is a {after[name]}"
        for name, what in before.items()
        if name in after and after[name] != what
    ]
    return [*gone, *changed]


def names_of(files: dict[str, Any]) -> Names:
    return dict(pair for stem, module in files.items() for pair in names_within(stem, module))


def names_within(prefix: str, module: Any) -> Iterator[tuple[str, str]]:
    yield prefix, f"file {module._nodeProto.id:#x}"
    for nested in module._nodeProto.nestedNodes:
        yield from names_of_node(f"{prefix}.{nested.name}", getattr(module, nested.name))


def names_of_node(name: str, node: Any) -> Iterator[tuple[str, str]]:
    if not hasattr(node, "schema"):
        yield name, f"constant {node}"
        return
    proto = node.schema.node
    kind = str(proto.which())
    yield name, f"{kind} {proto.id:#x}"
    if kind == "struct":
        yield from names_of_fields(name, node.schema)
    elif kind == "enum":
        for position, enumerant in enumerate(proto.enum.enumerants):
            yield f"{name}.{enumerant.name}", f"enumerant @{position}"
    for nested in proto.nestedNodes:
        yield from names_of_node(f"{name}.{nested.name}", getattr(node, nested.name))


def names_of_fields(name: str, schema: Any) -> Iterator[tuple[str, str]]:
    for field_name, field in schema.fields.items():
        proto = field.proto
        place = f"{name}.{field_name}"
        if proto.which() == "group":
            yield place, "group"
            yield from names_of_fields(place, field.schema)
        else:
            type_name, default = type_of(proto.slot.type), default_of(proto.slot)
            yield place, f"field @{proto.ordinal.explicit} of {type_name} = {default}"


def type_of(slot_type: Any) -> str:
    kind = str(slot_type.which())
    if kind == "list":
        return f"list of {type_of(slot_type.list.elementType)}"
    return f"{kind} {getattr(slot_type, kind).typeId:#x}" if kind in ("struct", "enum", "interface") else kind


def default_of(slot: Any) -> str:
    kind = str(slot.defaultValue.which())
    is_simple = kind not in ("list", "struct", "anyPointer")  # for these Cap'n Proto's checker is enough
    return repr(getattr(slot.defaultValue, kind)) if is_simple else "none"


# ---------------------------------------------------------------- data


def unreadable_data(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What Cap'n Proto's checker says when it meets a new struct under the id of an old one."""
    loader = capnp.SchemaLoader()
    for _, schema in schemas_of(old):
        loader.load(schema.get_proto())
    findings = []
    for name, schema in schemas_of(new):
        try:
            loader.load(schema.get_proto())
        except capnp.KjException as error:
            findings.append(f"{name}: data of the old schema cannot be read with the new one: {reason(error)}")
    return findings


def schemas_of(files: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every struct and every group."""
    for stem, module in files.items():
        for nested in module._nodeProto.nestedNodes:
            node = getattr(module, nested.name)
            if hasattr(node, "schema") and node.schema.node.which() == "struct":
                yield from schemas_within(f"{stem}.{nested.name}", node.schema)


def schemas_within(name: str, schema: Any) -> Iterator[tuple[str, Any]]:
    yield name, schema
    for field_name, field in schema.fields.items():
        if field.proto.which() == "group":
            yield from schemas_within(f"{name}.{field_name}", field.schema)


def reason(error: Exception) -> str:
    first = str(error).split("\nstack:", 1)[0].split("failed: ", 1)[-1]
    return " ".join(first.split())


if __name__ == "__main__":
    sys.exit(main())
