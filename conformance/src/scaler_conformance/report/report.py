"""`report.json`: its content, and the files beside it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from scaler_conformance.clauses import catalog
from scaler_conformance.manifest import Manifest
from scaler_conformance.verdicts import NOT_CONFORMING, ORDER, Outcome, exit_code, worst

from .claim import badge, claim
from .junit import junit
from .page import page

SCHEMA_VERSION = 1
PROTOCOL_VERSION = 1
TRANSCRIPTS = "transcripts"


@dataclass(frozen=True, slots=True)
class Report:
    port: Manifest
    outcomes: tuple[Outcome, ...]
    seconds: float
    seed: int = 0
    is_full: bool = False
    #: why not every case of the manifest's roles was played; empty: every one was
    partial: tuple[str, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.verdict for outcome in self.outcomes)

    def summary(self) -> str:
        counts = ", ".join(f"{self.counts[verdict]} {verdict}" for verdict in ORDER if self.counts[verdict])
        broken = sorted({outcome.clause for outcome in self.outcomes if outcome.verdict in NOT_CONFORMING} - {""})
        said = "conforms" if exit_code(self.outcomes) == 0 else "does not conform"
        tail = f"; broken: {', '.join(broken)}" if broken else ""
        return f"{self.port.name} {self.port.version} {said}: {counts} in {self.seconds:.1f} s{tail}"

    def content(self) -> dict[str, Any]:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "suite": {"version": metadata.version("scaler-conformance"), "protocol": PROTOCOL_VERSION},
            "madeAt": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "port": {"name": self.port.name, "version": self.port.version, "features": list(self.port.features)},
            "seed": self.seed,
            "isFull": self.is_full,
            "partial": list(self.partial),
            "seconds": round(self.seconds, 2),
            "exitCode": exit_code(self.outcomes),
            "counts": dict(self.counts),
            "clauses": self._clauses(),
            "cases": [_case(outcome) for outcome in self.outcomes],
        }

    def _clauses(self) -> list[dict[str, Any]]:
        """Every clause that binds a role of this run, with the worst verdict of its cases."""
        roles = dict.fromkeys(outcome.role for outcome in self.outcomes)
        entries = []
        for clause in catalog().values():
            for role in (role for role in roles if role in clause.roles):
                shown = [outcome for outcome in self.outcomes if outcome.role == role and _shows(outcome, clause.id)]
                verdicts = [outcome.verdict for outcome in shown if not outcome.clause or outcome.clause == clause.id]
                entries.append(
                    {
                        "id": clause.id,
                        "role": role,
                        "level": clause.level,
                        "text": clause.text,
                        "testability": clause.testability,
                        "reason": clause.reason,
                        "cases": [outcome.case for outcome in shown],
                        "verdict": worst(verdicts) if verdicts else "not shown",
                    }
                )
        return entries


def _shows(outcome: Outcome, clause: str) -> bool:
    return clause in outcome.clauses or clause == outcome.clause


def _case(outcome: Outcome) -> dict[str, Any]:
    fields = dataclasses.asdict(outcome)
    del fields["events"]
    return fields


def write(report: Report, folder: Path) -> Report:
    """The files of a run; the report as it was written, with the places of its transcripts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRANSCRIPTS).mkdir(exist_ok=True)
    for old in (folder / TRANSCRIPTS).glob("*.transcript.jsonl"):
        old.unlink()
    before = _before(folder / "report.json")
    content = report.content()
    for outcome, case in zip(report.outcomes, content["cases"], strict=True):
        if outcome.events:
            case["transcript"] = _write_transcript(report, outcome, folder)
    told = _json(content)
    files = {
        "report.json": told,
        "report.html": page(content, before),
        "junit.xml": junit(content),
        "badge.json": _json(badge(content)),
        "claim.json": _json(claim(content, told.encode())),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return report


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _before(path: Path) -> dict[str, Any] | None:
    """The report that is going to be replaced, if it is one that this suite can read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_ours = isinstance(content, dict) and content.get("schemaVersion") == SCHEMA_VERSION
    return content if is_ours else None


def transcript_name(outcome: Outcome) -> str:
    return f"{outcome.role}-{outcome.case.replace('/', '-')}.transcript.jsonl"


def _write_transcript(report: Report, outcome: Outcome, folder: Path) -> str:
    name = transcript_name(outcome)
    head = {
        "format": 1,
        "case": outcome.case,
        "role": outcome.role,
        "clause": outcome.clause,
        "verdict": outcome.verdict,
        "text": outcome.text,
        "seed": report.seed,
        "steps": [list(step) for step in outcome.steps],
        "port": report.port.name,
    }
    lines = [json.dumps(entry, ensure_ascii=False) for entry in (head, *outcome.events)]
    (folder / TRANSCRIPTS / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{TRANSCRIPTS}/{name}"
