"""Who may send what: the tables of the code are the table of chapter 02 (HSK-13, HSK-28)."""

from __future__ import annotations

from pathlib import Path

from scaler_protocol import codes, messages
from scaler_protocol.ids import TaskId, new_peer_id
from scaler_protocol.keys import Identity, KeyOptions, Keyring, pass_of
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.roles import ROLES as ROLES_BY_NAME
from scaler_protocol.keys.texts import key_text
from scaler_protocol.messages import NO_TASK, Hello
from scaler_protocol.session.admission import Admission, Proof
from scaler_protocol.session.handshake import ServerTerms
from scaler_protocol.session.receivable import FROM_SCHEDULER, FROM_STORAGE
from scaler_scheduler import core as scheduling
from scaler_storage import core as storing
from scaler_storage import service as storage_service
from scaler_storage.config import Config as StorageConfig

CHAPTER = Path(__file__).resolve().parents[2] / "protocol" / "spec" / "02-handshake.md"
ROLES = {"client": codes.ROLE_CLIENT, "worker": codes.ROLE_WORKER, "monitor": codes.ROLE_MONITOR}
ROLES |= {"manager": codes.ROLE_MANAGER, "scheduler": codes.ROLE_SCHEDULER}


def named(cell: str) -> frozenset[type]:
    names = [name.strip() for name in cell.split(",") if cell != "nothing"]
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


# ------------------------------------------------------------ which roles a ticket opens (SEC-16)

SECURITY = CHAPTER.with_name("17-security.md")
KEYRING = Keyring([b"k" * 32])
TASK = TaskId(b"t" * 16)


def opened() -> dict[tuple[str, str], set[tuple[str, bool]]]:
    """(server, role of the ticket) -> (role of the Hello, must it name a parentTask)."""
    lines = SECURITY.read_text(encoding="utf-8").split("| a ticket for |")[1].splitlines()[2:]
    found: dict[tuple[str, str], set[tuple[str, bool]]] = {}
    for line in lines[: lines.index("")]:
        ticket, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for server, cell in zip(("scheduler", "storage"), cells, strict=True):
            roles = [role.strip() for role in cell.split(",") if role.strip()]
            found[server, ticket] = {(role.split()[0], "parentTask" in role) for role in roles}
    return found


def storage_admission(folder: Path) -> Admission:
    path = folder / "cluster.key"
    replace_file(str(path), key_text(KEYRING.keys).encode())
    config = StorageConfig("tcp://127.0.0.1:*", keys=KeyOptions(str(path)))
    return storage_service.admission_of(config)


def test_the_table_of_tickets_is_what_servers_do(tmp_path: Path) -> None:
    table = opened()
    assert {ticket for _, ticket in table} == set(ROLES_BY_NAME)
    servers = {
        "scheduler": (Admission(KEYRING), scheduling.ALLOWED_MESSAGES),
        "storage": (storage_admission(tmp_path), storing.ALLOWED_MESSAGES),
    }
    for (server, ticket), allowed in table.items():
        admission, roles = servers[server]
        terms = ServerTerms(new_peer_id(), server, frozenset(roles))
        for name, role in ROLES_BY_NAME.items():
            for parent in (NO_TASK, TASK):
                derived = pass_of(KEYRING.derive("ana", frozenset({ROLES_BY_NAME[ticket]})))
                hello = Hello(1, 1, role, new_peer_id(), parent_task=parent, credential=derived.ticket)
                found = admission.admit(hello, Proof(derived.public_key), None, terms)
                is_admitted = isinstance(found, Identity) and role in roles
                is_expected = (name, False) in allowed or (parent == TASK and (name, True) in allowed)
                assert is_admitted == is_expected, f"{server}: a ticket for {ticket} as {name}"


def test_a_ticket_for_several_roles_opens_all_of_them() -> None:
    derived = pass_of(KEYRING.derive("ana", frozenset({codes.ROLE_MONITOR, codes.ROLE_CLIENT})))
    for role, is_admitted in ((codes.ROLE_MONITOR, True), (codes.ROLE_CLIENT, True), (codes.ROLE_WORKER, False)):
        found = KEYRING.admit(derived.ticket, derived.public_key, role, 0.0)
        assert isinstance(found, Identity) == is_admitted
