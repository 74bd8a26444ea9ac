"""The Cap'n Proto schemas, one page each."""

from __future__ import annotations

import re
from pathlib import Path

HEAD = """\
# The schemas

What travels on the wire, field by field. The comments below each field are part of the specification: who chooses the
value, what it may be, and what its absence means. They are the files of `protocol/schema/v1`, word for word.

"""


def pages(folder: Path) -> dict[str, str]:
    found = {f"protocol/schema/{path.stem}.md": _page(path) for path in sorted(folder.glob("*.capnp"))}
    names = [Path(page).stem for page in found]
    toctree = "```{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"
    return {**found, "protocol/schema/index.md": HEAD + toctree}


def _page(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    defined = re.findall(r"^(?:struct|enum|const|union|interface) (\w+)", text, re.MULTILINE)
    summary = f"Defines {', '.join(f'`{name}`' for name in defined)}.\n\n" if defined else ""
    return f"# {path.stem}\n\n{summary}```capnp\n{text}```\n"
