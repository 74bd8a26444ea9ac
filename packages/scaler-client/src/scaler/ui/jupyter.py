"""The page as an app of Jupyter: what the package jupyter-server-proxy calls when a Jupyter server starts.

jupyter-server-proxy only sends on the requests of a user who is signed in at Jupyter. Other users of the machine reach
the port of `scaler_ui` without Jupyter, so the page asks for a token, which Jupyter adds to each request.
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import Any

from scaler.ui.__main__ import EVERY_NAME, TOKEN_VARIABLE
from scaler_protocol.process.modules import without_directory
from scaler_protocol.process.settings import environment_prefix

ADDRESS_VARIABLE = environment_prefix("ui") + "ADDRESS"
"""`scaler_ui` itself reads the address of the scheduler from this variable."""
START_SECONDS = 30


def setup() -> dict[str, Any]:
    """How to start `scaler_ui` on `{port}`, which jupyter-server-proxy fills in, and how to send requests to it."""
    token = secrets.token_urlsafe(32)
    return {
        # Jupyter has checked under which name it was reached.
        "command": without_directory(
            [sys.executable, "-m", "scaler.ui", "--port", "{port}", "--allowed-host", EVERY_NAME]
        ),
        "environment": {TOKEN_VARIABLE: token},
        "request_headers_override": {"Authorization": f"Bearer {token}"},
        "timeout": START_SECONDS,
        "launcher_entry": {
            "title": "Scaler",
            "icon_path": os.path.join(os.path.dirname(__file__), "static", "icon.svg"),
            "enabled": ADDRESS_VARIABLE in os.environ,
        },
    }
