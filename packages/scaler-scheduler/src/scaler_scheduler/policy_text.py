"""The policy as one line of text: `allocate=capability; scaling=no`, or the lines of a waterfall."""

from __future__ import annotations

from dataclasses import field

from scaler_protocol.process import UsageError
from scaler_protocol.records import dataclass
from scaler_scheduler.core.policy import CAPABILITY, NONE, VANILLA, WATERFALL, Scaling, Tier

ENGINES = ("simple", "waterfall_v1")
ALLOCATIONS = {"even": "even", "even_load": "even", "capability": "capability"}
SCALINGS = (NONE, VANILLA, CAPABILITY)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    allocation: str = "even"
    scaling: Scaling = field(default_factory=Scaling)


def parse_policy(engine: str, content: str) -> PolicyChoice:
    """Raises UsageError."""
    if engine == "waterfall_v1":
        return PolicyChoice("capability", Scaling(WATERFALL, _waterfall(content)))
    return _simple(content)


def _simple(content: str) -> PolicyChoice:
    chosen = {"allocate": "even", "scaling": VANILLA}
    for part in filter(None, (part.strip() for part in content.split(";"))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in chosen:
            raise _wrong(f"{part!r} is neither allocate=… nor scaling=…")
        chosen[name] = value
    if chosen["allocate"] not in ALLOCATIONS:
        raise _wrong(f"allocate={chosen['allocate']} is none of: {', '.join(ALLOCATIONS)}")
    if chosen["scaling"] not in SCALINGS:
        raise _wrong(f"scaling={chosen['scaling']} is none of: {', '.join(SCALINGS)}")
    return PolicyChoice(ALLOCATIONS[chosen["allocate"]], Scaling(chosen["scaling"]))


def _waterfall(content: str) -> tuple[Tier, ...]:
    lines = [line.partition("#")[0].strip() for line in content.splitlines()]
    rules = tuple(_rule(line) for line in lines if line)
    if not rules:
        raise _wrong("a waterfall needs one line for each manager: priority,manager[,tasks]")
    names = [rule.manager_name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(f"the manager {name} has more than one line")
    return tuple(sorted(rules, key=lambda rule: rule.priority))


def _rule(line: str) -> Tier:
    fields = [field.strip() for field in line.split(",")]
    limit = fields[2] if len(fields) == 3 else ""
    is_formed = len(fields) in (2, 3) and fields[0].isdecimal() and fields[1] and (limit.isdecimal() or not limit)
    if not is_formed:
        raise _wrong(f"{line!r} is not of the form priority,manager[,tasks]")
    return Tier(int(fields[0]), fields[1], int(limit) if limit else -1)


def _wrong(text: str) -> UsageError:
    return UsageError(f"--policy-content: {text}")
