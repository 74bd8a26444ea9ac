"""Servers with a key of their own: their clients find it by the port, in the runtime directory of the tests."""

from __future__ import annotations

import time

from scaler_protocol.keys import Keyring, new_secret
from scaler_protocol.session.admission import Admission

#: One for all: a successor at the same address is of the same cluster.
_KEY = new_secret()


def keyed() -> Admission:
    return Admission(Keyring([_KEY]), time.time)
