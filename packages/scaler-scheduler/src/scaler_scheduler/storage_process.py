"""The object storage that a scheduler starts when it was given none and none answers (DESIGN §5, Addresses)."""

from __future__ import annotations

import logging

from scaler_protocol.keys import Keyring
from scaler_protocol.process import StartupError
from scaler_protocol.process.ports import answers
from scaler_scheduler.child_process import ChildProcess
from scaler_scheduler.config import Config


def warn_of_silence(address: str, reason: str) -> None:
    """Logs why there is no session with the storage yet. `reason`: what the storage itself has said. Waits for the
    network for a moment."""
    if not reason and answers(address):
        reason = (
            "a process listens there, and does not answer as an object storage does: another program may have the port"
        )
    logging.warning(
        "Scheduler: no object storage server answers at %s yet (%s); tasks that need one wait for it",
        address, reason or "no process listens there",
    )  # fmt: skip


class StorageProcess(ChildProcess):
    """A storage server of our own."""

    def __init__(self, config: Config, keyring: Keyring | None) -> None:
        arguments = [
            config.storage_address,
            *config.storage_arguments,
            "--event-loop",
            config.event_loop,
            *config.logging.arguments(),
        ]
        logging.info("Scheduler: start an object storage server at %s", config.storage_address)
        with config.keys.for_server(keyring) as (key_arguments, descriptors):
            super().__init__(
                "the object storage server",
                "scaler_storage",
                [*key_arguments, *arguments],
                remedy=f"no object storage answers at {config.storage_address} and none can be started here: "
                "run `pip install scaler-storage`, or name a running one with --object-storage-address",
                descriptors=descriptors,
            )

    def check(self) -> None:
        """Raises StartupError if it has ended."""
        code = self.exit_code()
        if code is not None:
            raise StartupError(f"the object storage server that the scheduler started ended with exit code {code}")
