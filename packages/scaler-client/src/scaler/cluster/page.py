"""The page of a local cluster as a process of this program."""

from __future__ import annotations

import importlib.util
import secrets
import time
from typing import Any

from scaler.cluster.options import command_line
from scaler.cluster.process import ClusterStartError, CommandProcess
from scaler_protocol.process.ports import answers, free_ports

_NEEDED = ("aiohttp", "prometheus_client")
_ASK_SECONDS = 0.01


class PageProcess(CommandProcess):
    """`scaler_ui` for one scheduler, on a free port, open to those who know its link."""

    def __init__(self, scheduler_address: str, **program: Any) -> None:
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ImportError(f"the page needs {', '.join(missing)}: run `pip install 'scaler-client[ui]'`")
        port, token = free_ports(1), secrets.token_urlsafe(32)
        self.link = f"http://127.0.0.1:{port}/?token={token}"
        self._address = f"tcp://127.0.0.1:{port}"
        program.pop("event_loop")
        command = command_line("scaler.ui", scheduler_address, port=port, **program)
        super().__init__("page", command, {"SCALER_UI_TOKEN": token})

    def wait_until_ready(self, timeout_seconds: float) -> None:
        end_at = time.monotonic() + timeout_seconds
        while not answers(self._address):
            self.check()
            if time.monotonic() > end_at:
                raise ClusterStartError(f"the page did not start in {timeout_seconds:g} s")
            time.sleep(_ASK_SECONDS)
