"""Who may send what: the tables of the code are the table of chapter 02 (HSK-13, HSK-28)."""

from __future__ import annotations

from pathlib import Path

from scaler_protocol import codes, messages
from scaler_protocol.session.receivable import FROM_SCHEDULER, FROM_STORAGE
from scaler_scheduler import core as scheduling
from scaler_storage import core as storing

CHAPTER = Path(__file__).resolve().parents[2] / "protocol" / "spec" / "02-handshake.md"
ROLES = {"client": codes.ROLE_CLIENT, "worker": codes.ROLE_WORKER, "monitor": codes.ROLE_MONITOR}
ROLES["manager"] = codes.ROLE_MANAGER


def named(cell: str) -> frozenset[type]:
    names = [name.strip() for name in cell.split(",")]
    return frozenset(getattr(messages, name[0].upper() + name[1:]) for name in names)


def rows() -> dict[tuple[str, str], tuple[str, str]]:
    """(server, roles) -> what they may send, what they may receive."""
    lines = CHAPTER.read_text(encoding="utf-8").split("| server | role of the dialer |")[1].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    return {(server, role): (sent, received) for server, role, sent, received in cells}


def test_the_scheduler_and_its_dialers_keep_to_the_table() -> None:
    for name, role in ROLES.items():
        sent, received = rows()["scheduler", name]
        assert scheduling.ALLOWED_MESSAGES[role] == named(sent)
        assert FROM_SCHEDULER[role] == named(received)


def test_the_storage_and_its_dialers_keep_to_the_table() -> None:
    sent, received = rows()["storage", "client, worker"]
    for role in (codes.ROLE_CLIENT, codes.ROLE_WORKER):
        assert storing.ALLOWED_MESSAGES[role] == named(sent)
    assert named(received) == FROM_STORAGE
