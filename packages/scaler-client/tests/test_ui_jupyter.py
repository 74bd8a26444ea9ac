"""The page as an app of Jupyter: what jupyter-server-proxy is told, and what the page then answers."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

from scaler.ui.__main__ import guard_of, parser
from scaler.ui.jupyter import setup
from scaler_protocol.process.modules import without_directory

ADDRESS = "tcp://127.0.0.1:2345"


def test_jupyter_finds_the_app() -> None:
    (found,) = (entry for entry in entry_points(group="jupyter_serverproxy_servers") if entry.name == "scaler")
    assert found.load() is setup


def test_the_page_starts_at_the_chosen_port_and_answers_jupyter_only(monkeypatch: pytest.MonkeyPatch) -> None:
    app = setup()
    environment = {**app["environment"], "SCALER_UI_ADDRESS": ADDRESS}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command = [text.format(port=40_001) for text in app["command"]]
    start = without_directory([sys.executable, "-m", "scaler.ui"])
    assert command[: len(start)] == start
    arguments = command[len(start) :]
    options = parser().parse_settings(arguments, environment)
    assert (options.address, options.host, options.port) == (ADDRESS, "127.0.0.1", 40_001)
    guard = guard_of(options)
    of_a_browser = {"Host": "hub.example", "Origin": "https://hub.example", "Authorization": "token of-jupyter"}
    sent_on = {**of_a_browser, **app["request_headers_override"]}
    assert guard.refusal(sent_on, {}, 0.0) == ""
    assert "token is needed" in guard.refusal(of_a_browser, {}, 0.0)
    assert "other origins" in guard.refusal({**sent_on, "Origin": "https://other.example"}, {}, 0.0)


def test_each_server_has_a_token_of_its_own() -> None:
    first, second = setup(), setup()
    assert first["environment"] != second["environment"]


@pytest.mark.parametrize("address", [None, ADDRESS])
def test_the_launcher_shows_it_where_an_address_is_set(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.delenv("SCALER_UI_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("SCALER_UI_ADDRESS", address)
    launcher: dict[str, Any] = setup()["launcher_entry"]
    assert launcher["title"] == "Scaler" and launcher["enabled"] is (address is not None)
    assert os.path.isfile(launcher["icon_path"])
