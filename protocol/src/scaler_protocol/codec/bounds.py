"""How many items a list may have that peers send to servers, where honest peers never need more (LIM-9).

To read a struct of a list takes microseconds, and a list of 65,536 of them would stop a server for a tenth of a second.
"""

from __future__ import annotations

from scaler_protocol.messages import (
    Hello,
    ManagerOffer,
    ManagerStatus,
    NameFunctions,
    TaskHeader,
    Unit,
    WorkerOffer,
    WorkerStatus,
)

LIST_ITEMS_MAX = 65_536
"""No list is longer. A list of structs without content costs no bytes, so its length must not be believed."""

NAMES_MAX = 10_000
UNITS_MAX = 4_096
PROCESSORS_MAX = 4_096
OFFERS_MAX = 256

_MOST_ITEMS: dict[tuple[type, str], int] = {
    (Hello, "features"): OFFERS_MAX,
    (WorkerOffer, "capabilities"): OFFERS_MAX,
    (WorkerOffer, "code_tags"): OFFERS_MAX,
    (ManagerOffer, "capabilities"): OFFERS_MAX,
    (TaskHeader, "capabilities"): OFFERS_MAX,
    (Unit, "worker_names"): UNITS_MAX,
    (ManagerStatus, "units"): UNITS_MAX,
    (WorkerStatus, "processors"): PROCESSORS_MAX,
    (NameFunctions, "names"): NAMES_MAX,
}


def most_items(record: type, name: str) -> int:
    """Of this list of this kind of record."""
    return _MOST_ITEMS.get((record, name), LIST_ITEMS_MAX)
