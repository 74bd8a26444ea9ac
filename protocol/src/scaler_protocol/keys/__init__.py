"""Keys, tickets and grants: which program may talk to which in a cluster (spec chapter 17)."""

from scaler_protocol.keys.derivation import families_of, new_secret, own_family
from scaler_protocol.keys.errors import KeyFileError, NoKeyFound, NoServerFound
from scaler_protocol.keys.keyring import (
    ANY_USER,
    Granted,
    Keyring,
    Pass,
    lent_end,
    lent_to,
    local_identity,
    pass_of,
)
from scaler_protocol.keys.lookup import find_keyring, find_pass, read_named, renewed
from scaler_protocol.keys.options import KeyOptions
from scaler_protocol.keys.running import RuntimeFile
from scaler_protocol.keys.tickets import ALL_ROLES, TICKET_BYTES_MAX, Identity, Refusal, TicketError, user_of
from scaler_protocol.keys.watch import KeyWatch

__all__ = [
    "Identity",
    "Refusal",
    "user_of",
    "Keyring",
    "Pass",
    "KeyOptions",
    "find_pass",
    "find_keyring",
    "renewed",
    "read_named",
    "pass_of",
    "local_identity",
    "families_of",
    "ANY_USER",
    "Granted",
    "lent_end",
    "lent_to",
    "new_secret",
    "own_family",
    "RuntimeFile",
    "KeyWatch",
    "KeyFileError",
    "NoKeyFound",
    "NoServerFound",
    "TicketError",
    "ALL_ROLES",
    "TICKET_BYTES_MAX",
]
