"""Where a client finds its scheduler: an address, a cluster that has one, or the scheduler of its task."""

from __future__ import annotations

from typing import Protocol

from scaler_protocol import task_context


class HasAddress(Protocol):
    """Such as `SchedulerClusterCombo`."""

    def get_address(self) -> str: ...


def address_of(address: str | HasAddress | None) -> str:
    if address is None:
        context = task_context.current()
        if context is None:
            raise ValueError(
                "No scheduler address provided, and this is not running inside a task, which would have one: "
                "write Client(address) with the address of a scheduler, such as tcp://127.0.0.1:2345"
            )
        return context.scheduler_address
    if isinstance(address, str) or not hasattr(address, "get_address"):
        return address  # type: ignore[return-value]  # what is neither, parse_addresses refuses
    return address.get_address()
