"""What a run lets a port say of itself: a claim for programs, and a badge for people."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from scaler_conformance.verdicts import PASS, WARN, exit_code_of

SHOWN = (PASS, WARN)


def claim(content: Mapping[str, Any], report_bytes: bytes) -> dict[str, Any]:
    """For each role, whether it conforms, and with what exceptions. Nothing is claimed from part of a run."""
    roles = {}
    for role in dict.fromkeys(entry["role"] for entry in content["clauses"]):
        duties = _duties(content, role)
        verdicts = [case["verdict"] for case in content["cases"] if case["role"] == role]
        roles[role] = {
            "conforms": exit_code_of(verdicts) == 0 and not content["partial"],
            "dutiesShown": sum(entry["verdict"] in SHOWN for entry in duties),
            "duties": len(duties),
            "knownFailures": verdicts.count("xfail"),
            "unsupported": sorted(
                {case["case"] for case in content["cases"] if case["role"] == role and case["verdict"] == "unsupported"}
            ),
        }
    return {
        "schemaVersion": 1,
        "port": content["port"],
        "protocol": content["suite"]["protocol"],
        "suite": content["suite"]["version"],
        "madeAt": content["madeAt"],
        "isFull": content["isFull"],
        "partial": content["partial"],
        "roles": roles,
        "reportSha256": hashlib.sha256(report_bytes).hexdigest(),
    }


def badge(content: Mapping[str, Any]) -> dict[str, Any]:
    """As badge services read it from a URL."""
    duties = [entry for role in {e["role"] for e in content["clauses"]} for entry in _duties(content, role)]
    good = sum(entry["verdict"] in SHOWN for entry in duties)
    is_good = content["exitCode"] == 0
    message = f"{good}/{len(duties)} clauses" if not content["partial"] else "part of the cases"
    if not is_good:
        message = f"does not conform ({message})"
    color = "red" if not is_good else "lightgrey" if content["partial"] else "brightgreen"
    label = f"scaler protocol {content['suite']['protocol']}"
    return {"schemaVersion": 1, "label": label, "message": message, "color": color}


def _duties(content: Mapping[str, Any], role: str) -> list[Mapping[str, Any]]:
    """What must be done and some case of this suite shows."""
    return [
        entry
        for entry in content["clauses"]
        if entry["role"] == role and entry["level"].startswith("MUST") and entry["cases"]
    ]
