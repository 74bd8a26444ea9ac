"""The worker manager that a scheduler starts for `--adapter-webhook-url`: it asks the adapter for workers."""

from __future__ import annotations

import logging

from scaler_protocol.keys import Keyring
from scaler_protocol.process import shown_url
from scaler_scheduler.child_process import ChildProcess
from scaler_scheduler.config import Config


class WebhookProcess(ChildProcess):
    def __init__(self, config: Config, address: str, keyring: Keyring | None) -> None:
        logging.info("Scheduler: workers come from the worker adapter at %s", shown_url(config.adapter_webhook_url))
        self._has_ended = False
        with config.keys.for_server(keyring) as (key_arguments, descriptors):
            super().__init__(
                "the worker manager of the webhook",
                "scaler_worker.manager",
                ["webhook", *key_arguments, address, *config.logging.arguments()],
                remedy="--adapter-webhook-url needs the worker manager: run `pip install 'scaler-worker[webhook]'`",
                stop_seconds=30.0,  # it shuts the worker groups down first
                secret_names=("SCALER_WORKER_MANAGER_AUTH_TOKEN", "SCALER_WORKER_MANAGER_AUTH_TOKEN_FILE"),
                environment={"SCALER_WORKER_MANAGER_URL": config.adapter_webhook_url},
                descriptors=descriptors,
            )

    def check(self) -> None:
        """It ends by itself when the adapter refuses us for good; the cluster goes on with the workers it has."""
        code = self.exit_code()
        if code is not None and not self._has_ended:
            self._has_ended = True
            logging.error(
                "Scheduler: the worker manager of the webhook ended with exit code %d: no workers are asked for now",
                code,
            )
