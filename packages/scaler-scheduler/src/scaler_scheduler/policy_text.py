"""The policy as one line of text: `allocate=capability; scaling=no`, or the lines of a waterfall.

What it says of allocation is the scheduler's own; what it says of scaling is for those who start workers.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.process import UsageError

ENGINES = ("simple", "waterfall_v1")
ALLOCATIONS = {"even": "even", "even_load": "even", "capability": "capability"}
SCALINGS = ("no", "vanilla", "capability")


@dataclass(frozen=True, slots=True)
class WaterfallRule:
    """Managers with a lower number are filled first and drained last."""

    priority: int
    manager_name: str
    task_limit: int | None = None


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    allocation: str = "even"
    scaling: str = "no"
    waterfall: tuple[WaterfallRule, ...] = ()


def parse_policy(engine: str, content: str) -> PolicyChoice:
    """Raises UsageError."""
    if engine == "waterfall_v1":
        return PolicyChoice("capability", "waterfall", _waterfall(content))
    return _simple(content)


def _simple(content: str) -> PolicyChoice:
    chosen = {"allocate": "even", "scaling": "no"}
    for part in filter(None, (part.strip() for part in content.split(";"))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in chosen:
            raise _wrong(f"{part!r} is neither allocate=… nor scaling=…")
        chosen[name] = value
    if chosen["allocate"] not in ALLOCATIONS:
        raise _wrong(f"allocate={chosen['allocate']} is none of: {', '.join(ALLOCATIONS)}")
    if chosen["scaling"] not in SCALINGS:
        raise _wrong(f"scaling={chosen['scaling']} is none of: {', '.join(SCALINGS)}")
    return PolicyChoice(ALLOCATIONS[chosen["allocate"]], chosen["scaling"])


def _waterfall(content: str) -> tuple[WaterfallRule, ...]:
    lines = [line.partition("#")[0].strip() for line in content.splitlines()]
    rules = tuple(_rule(line) for line in lines if line)
    if not rules:
        raise _wrong("a waterfall needs one line for each manager: priority,manager[,tasks]")
    names = [rule.manager_name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(f"the manager {name} has more than one line")
    return tuple(sorted(rules, key=lambda rule: rule.priority))


def _rule(line: str) -> WaterfallRule:
    fields = [field.strip() for field in line.split(",")]
    limit = fields[2] if len(fields) == 3 else ""
    is_formed = len(fields) in (2, 3) and fields[0].isdecimal() and fields[1] and (limit.isdecimal() or not limit)
    if not is_formed:
        raise _wrong(f"{line!r} is not of the form priority,manager[,tasks]")
    return WaterfallRule(int(fields[0]), fields[1], int(limit) if limit else None)


def _wrong(text: str) -> UsageError:
    return UsageError(f"--policy-content: {text}")
