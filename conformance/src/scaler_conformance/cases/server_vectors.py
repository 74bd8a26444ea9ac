"""The golden vectors, said to a running server: each is accepted, or refused with its code (chapters 01 and 08).

Four Pings make the next message the fifth and give three to acknowledge, which is what the vectors say of themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scaler_conformance.case import Case, add, case_id
from scaler_conformance.clauses import catalog
from scaler_conformance.play.samples import frames_of, may_send, rights
from scaler_conformance.resources import toml, vectors_folder
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, code_name

ANYWHERE = frozenset({"Ping", "Envelope"})
#: These end the conversation or the cluster, or begin a session anew; other cases are about them.
NOT_SAID = frozenset({"Hello", "Welcome", "Reject", "Bye", "Error", "Shutdown", "Acknowledge", "TaskError"})
#: A server may look at who is allowed to say a thing before it looks at what is said.
FRAMING = (CODES.BAD_FRAMING, CODES.BAD_ENVELOPE, CODES.UNKNOWN_MESSAGE)


def _register() -> None:
    for folder in sorted(vectors_folder().glob("*/*")):
        kind = folder.parent.name
        if not folder.is_dir() or kind in NOT_SAID:
            continue
        roles = tuple(role for role in ("scheduler", "storage") if _speaker(role, kind))
        if roles:
            about = toml.loads((folder / "case.toml").read_text(encoding="utf-8"))
            if not _can_be_said(folder, about):
                continue
            clauses = tuple(clause for clause in about["clauses"] if clause in catalog()) or ("FRM-8",)
            name = f"vector-{kind}-{folder.name}"
            add(Case(case_id(clauses[0], name), clauses, roles, "vectors", _play(folder, kind, about)))


#: Layouts of an envelope whose place in the sequence is another than the fifth.
ELSEWHERE = frozenset({"seq-zero", "seq-highest", "older-sender"})
FLOORS = {"envelopeBytes": 65_536, "payloadFrameBytes": 8 << 20}


def _can_be_said(folder: Path, about: dict[str, Any]) -> bool:
    """Not, where the vector agrees on limits below the floors of chapter 15: no server would."""
    is_above = all(about.get("limits", {}).get(name, floor) >= floor for name, floor in FLOORS.items())
    return is_above and folder.name not in ELSEWHERE


def _speaker(server: str, kind: str) -> str:
    """The role that may say this to that server."""
    if kind in ANYWHERE:
        return "client"
    member = kind[0].lower() + kind[1:]
    return next((role for role in rights()[server] if member in may_send(server, role)), "")


def _play(folder: Path, kind: str, about: dict[str, Any]) -> Any:
    def play(scene: Scene) -> None:
        limits = {"limits": about["limits"]} if about.get("limits") else {}
        peer = scene.peer(_speaker(scene.role, kind), **limits)
        for _ in range(4):
            peer.fence()
        frames = frames_of(folder)
        peer.sent_seq = 5
        peer.raw(frames, f"#5   the vector {kind}/{folder.name}: {about['note']}")
        if about["verdict"] == "valid":
            _is_accepted(peer, about)
        else:
            _is_refused(peer, about)

    play.__doc__ = f"{kind}: {about['note']}"
    return play


def _is_accepted(peer: Any, about: dict[str, Any]) -> None:
    peer.fence()
    for error in peer.take("error"):
        if error["code"] in FRAMING:
            said = peer.transcript.describe(error)
            raise Breach(f"a valid message was refused: {said}")


def _is_refused(peer: Any, about: dict[str, Any]) -> None:
    error = peer.expect("error")
    said = peer.transcript.describe(error)
    if error["code"] != about["code"]:
        raise Breach(f"{peer.name} was sent {said}; expected Error {code_name(about['code'])}")
    is_numbered = about["seq"] != "0"
    if is_numbered and (error["refSeq"] != 5 or error["fatal"]):
        raise Breach(f"{peer.name} was sent {said}; its number is 5 and could be read, so it is not fatal", "SES-16")
    if not is_numbered and not error["fatal"]:
        raise Breach(f"{peer.name} was sent {said}; without a readable number the session is over", "SES-13")
    if is_numbered:
        peer.fence()


_register()
