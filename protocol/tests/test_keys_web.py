"""Tokens for HTTP from the cluster's key: one for each use, the same for all that have the key, none without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler_protocol.codes import ROLE_MONITOR
from scaler_protocol.keys import KeyOptions, Keyring
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from scaler_protocol.keys.web import ADAPTER_LABEL, PAGE_LABEL, token_of, web_token

ADDRESS = "tcp://127.0.0.1:8516"
KEY, OLDER = bytes(range(32)), bytes(range(1, 33))
LABELS = (PAGE_LABEL, ADAPTER_LABEL)


def test_they_stay_what_they_are() -> None:
    """Programs have them in their configuration."""
    assert [token_of(KEY, label) for label in LABELS] == [
        "MNEvgttB3Mxj9HeBI1hx1-wObntA4TmGrmf7I_xwV-Q",
        "OPyJd7wiw_POamIlIuzxlmSJEwb89vQibuKVJDr4lIo",
    ]
    assert len({token_of(key, label) for key in (KEY, OLDER) for label in LABELS}) == 4


def test_the_newest_key_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster.key")
    replace_file(path, key_text([KEY, OLDER]).encode())
    assert web_token(KeyOptions(path), ADDRESS, PAGE_LABEL) == token_of(KEY, PAGE_LABEL)


def test_without_the_key_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCALER_KEY", "SCALER_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    ticket = str(tmp_path / "monitor.key")
    replace_file(ticket, ticket_text(Keyring([KEY]).derive("ana", frozenset({ROLE_MONITOR}))).encode())
    assert web_token(KeyOptions(ticket), ADDRESS, PAGE_LABEL) == ""
    assert web_token(KeyOptions(insecure=True), ADDRESS, PAGE_LABEL) == ""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "config"))  # the same on Windows
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert web_token(KeyOptions(), "tcp://192.0.2.1:8516", PAGE_LABEL) == ""
