"""Reading clauses out of the chapters.

A clause is a paragraph that begins with its number in bold and ends with a line of attributes:

    **XYZ-7** A storage MUST answer every request …
    `storage · 1.0 · wire`

or, when it has fallen, a paragraph `**XYZ-7** (retired in 1.3: the reason)`. Fenced blocks and `code` are never read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from speclib.problems import Problem

PREFIXES = {
    "01-framing.md": ("FRM",),
    "02-handshake.md": ("HSK",),
    "03-session.md": ("SES",),
    "04-liveness.md": ("LIV",),
    "05-client.md": ("CLI",),
    "06-scheduler.md": ("SCH",),
    "07-worker.md": ("WRK",),
    "08-batches.md": ("BAT", "PAY"),
    "09-cancellation.md": ("CAN",),
    "10-credit.md": ("CRD",),
    "11-errors.md": ("ERR",),
    "12-storage.md": ("STO",),
    "13-ownership.md": ("OWN",),
    "14-monitor.md": ("MON",),
    "15-limits.md": ("LIM",),
    "16-evolution.md": ("EVO",),
    "17-security.md": ("SEC",),
    "19-managers.md": ("MGR",),
    "20-lane.md": ("LAN",),
}
ROLES = frozenset(
    {"client", "scheduler", "worker", "storage", "monitor", "manager"}
    | {"dialer", "server", "sender", "receiver", "peer"}
)
KEYWORD = re.compile(
    r"\b(MUST NOT|SHALL NOT|SHOULD NOT|NOT RECOMMENDED|MUST|SHALL|SHOULD|MAY|REQUIRED|RECOMMENDED|OPTIONAL)\b"
)
#: Numbers of clauses that are being written side by side, and may come in any order. Empty at a release.
ALLOTTED = frozenset(
    f"{area}-{number}"
    for area, numbers in {
        "SCH": (50, 77, 78, 79, 85, 86, 87),
        "WRK": (48, 49, 56, 57),
        "MON": (37,),
        "LIM": (25, 27),
        "CLI": (26,),
    }.items()
    for number in numbers
)
LEVELS = frozenset({"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"})

_START = re.compile(r"\*\*([A-Z]{3})-(\d+)\*\* ")
_RETIRED = re.compile(r"\(retired in \d+\.\d+: [^)]+\)$")
_ATTRIBUTES = re.compile(r"`([^`]*) · ([^`]*) · ([^`]*)`$")
_TESTABILITY = re.compile(r"(wire|vector|timing)|review\((.+)\)")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True)
class Clause:
    id: str
    path: str
    line: int
    text: str
    level: str = ""
    role: str = ""
    since: str = ""
    testability: str = ""
    is_retired: bool = False

    @property
    def prefix(self) -> str:
        return self.id.partition("-")[0]

    @property
    def number(self) -> int:
        return int(self.id.partition("-")[2])

    @property
    def fingerprint(self) -> str:
        """Changes with every word of the clause and its attributes, and with nothing else."""
        if self.is_retired:
            return "retired"
        content = f"{self.text} | {self.role} | {self.since} | {self.testability}"
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Paragraph:
    line: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines)


def paragraphs(source: str) -> Iterator[Paragraph]:
    """Runs of lines between blank ones, fenced blocks left out."""
    gathered: list[str] = []
    is_fenced = False
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        is_fence = line.lstrip().startswith("```")
        if is_fence or is_fenced or not line.strip():
            if gathered:
                yield Paragraph(number - len(gathered), tuple(gathered))
                gathered = []
            is_fenced ^= is_fence
        else:
            gathered.append(line)


def read_chapters(spec: Path) -> tuple[list[Clause], list[Problem]]:
    clauses: list[Clause] = []
    problems: list[Problem] = []
    for path in sorted(spec.glob("*.md")):
        found, wrong = read_chapter(path.name, path.read_text(encoding="utf-8"))
        clauses += found
        problems += wrong
    return clauses, problems


def read_chapter(path: str, source: str) -> tuple[list[Clause], list[Problem]]:
    clauses: list[Clause] = []
    problems: list[Problem] = []
    for paragraph in paragraphs(source):
        start = _START.match(paragraph.lines[0])
        if start is None or start[1] not in _all_prefixes():
            problems += _stray_keywords(path, paragraph)
            continue
        clause, wrong = _read_clause(path, paragraph, start)
        clauses.append(clause)
        problems += (Problem(path, paragraph.line, f"{clause.id}: {text}") for text in wrong)
    return clauses, problems


def _all_prefixes() -> frozenset[str]:
    return frozenset(prefix for prefixes in PREFIXES.values() for prefix in prefixes)


def _stray_keywords(path: str, paragraph: Paragraph) -> Iterator[Problem]:
    for offset, line in enumerate(paragraph.lines):
        for keyword in KEYWORD.findall(_CODE.sub("", line)):
            text = f"{keyword} stands outside a clause: make it one, or write it small"
            yield Problem(path, paragraph.line + offset, text)


def _read_clause(path: str, paragraph: Paragraph, start: re.Match[str]) -> tuple[Clause, list[str]]:
    name = f"{start[1]}-{start[2]}"
    wrong = []
    if start[2].startswith("0"):
        wrong.append("numbers are written without leading zeros and begin at 1")
    if start[1] not in PREFIXES.get(path, ()):
        wrong.append(f"clauses of {start[1]} stand in another chapter")
    body = paragraph.text[start.end() :]
    if _RETIRED.match(body):
        return Clause(name, path, paragraph.line, body, is_retired=True), wrong
    attributes = _ATTRIBUTES.match(paragraph.lines[-1].strip())
    if attributes is None:
        wrong.append("the last line must be its attributes: `role · since · testability`")
        return Clause(name, path, paragraph.line, body), wrong
    body = body[: body.rindex(attributes[0])].strip()
    levels = KEYWORD.findall(_CODE.sub("", body))
    role, since, testability = attributes.groups()
    wrong += _wrong_attributes(role, since, testability)
    if len(levels) != 1 or levels[0] not in LEVELS:
        wrong.append(f"one keyword of {', '.join(sorted(LEVELS))} is wanted, found: {', '.join(levels) or 'none'}")
    level = levels[0] if levels else ""
    return Clause(name, path, paragraph.line, body, level, role, since, testability), wrong


def _wrong_attributes(role: str, since: str, testability: str) -> Iterator[str]:
    if role not in ROLES:
        yield f"unknown role {role!r}: one of {', '.join(sorted(ROLES))}"
    if not re.fullmatch(r"\d+\.\d+", since):
        yield f"the version it came with must look like 1.0, not {since!r}"
    if not _TESTABILITY.fullmatch(testability):
        yield f"testability must be wire, vector, timing or review(reason), not {testability!r}"


def check_numbers(clauses: Iterable[Clause]) -> Iterator[Problem]:
    """No number twice, none missing: a clause that falls stays as a retired line."""
    seen: dict[str, Clause] = {}
    highest: dict[str, int] = {}
    for clause in clauses:
        if clause.id in seen:
            first = seen[clause.id]
            yield Problem(clause.path, clause.line, f"{clause.id} is used already, in {first.path}:{first.line}")
        seen.setdefault(clause.id, clause)
        highest[clause.prefix] = max(highest.get(clause.prefix, 0), clause.number)
    for path, prefixes in PREFIXES.items():
        for prefix in prefixes:
            for number in range(1, highest.get(prefix, 0) + 1):
                if f"{prefix}-{number}" not in seen and f"{prefix}-{number}" not in ALLOTTED:
                    text = f"{prefix}-{number} is missing: numbers have no gaps, a fallen clause stays as retired"
                    yield Problem(path, 0, text)
