"""Secrets in the environment and on the command line: which processes get them, and where they are never seen."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaler_protocol import secrets as taken
from scaler_protocol.process import ArgumentParser, UsageError, add_secret, given_secret, http_url, shown_url

NAMES = ("SCALER_NATIVE_WORKER_ADAPTER_AUTH_TOKEN", "SCALER_KEY", "SCALER_UI_TOKEN", "SCALER_SYMPHONY_PASSWORD")


@pytest.fixture(autouse=True)
def nothing_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken, "_taken", {})


@pytest.mark.parametrize(
    "name", [*NAMES, "SCALER_X_SECRET", "SCALER_WORKER_MANAGER_URL", "SCALER_SCHEDULER_ADAPTER_WEBHOOK_URL"]
)
def test_what_is_a_secret(name: str) -> None:
    assert taken.is_secret(name)


@pytest.mark.parametrize(
    "name", ["SCALER_KEY_FILE", "SCALER_UI_TOKEN_FILE", "SCALER_SCHEDULER_ADDRESS", "AWS_SECRET_ACCESS_KEY", "MY_TOKEN"]
)
def test_what_is_none_of_ours(name: str) -> None:
    assert not taken.is_secret(name)


def test_secrets_are_taken_once_and_handed_on_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_UI_TOKEN", "t0ken")
    monkeypatch.setenv("SCALER_KEY", "k3y")
    taken.take_secrets()
    assert "SCALER_UI_TOKEN" not in os.environ and "SCALER_KEY" not in os.environ
    assert taken.secret("SCALER_UI_TOKEN") == "t0ken"
    assert taken.secrets_for("SCALER_KEY", "SCALER_X_TOKEN") == {"SCALER_KEY": "k3y"}
    assert taken.settings_environment()["SCALER_UI_TOKEN"] == "t0ken"
    taken.forget_secrets(except_for=("SCALER_KEY",))
    assert taken.all_secrets() == {"SCALER_KEY": "k3y"}


def test_a_secret_set_since_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_KEY", "old")
    taken.take_secrets()
    monkeypatch.setenv("SCALER_KEY", "new")
    assert taken.secret("SCALER_KEY") == "new"


def test_the_memory_of_the_environment_is_overwritten() -> None:
    """Python's os.environ forgets a variable, and the system still shows what the process was started with."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux has /proc")
    program = (
        "from scaler_protocol.process import take_secrets; import os, subprocess; take_secrets();"
        "assert b't0ken' not in open('/proc/self/environ', 'rb').read();"
        "assert b't0ken' not in subprocess.run(['env'], capture_output=True).stdout;"
        "assert os.environ['MARK'] == 'kept'; print('fine')"
    )
    environment = {**os.environ, "SCALER_UI_TOKEN": "t0ken", "MARK": "kept"}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert found.stdout == "fine\n", found.stderr


# ---------------------------------------------------------------- options


def options(*arguments: str, **environment: str) -> argparse.Namespace:
    parser = ArgumentParser("scaler_thing", section="thing")
    add_secret(parser, "--auth-token", "thing", "the secret")
    return parser.parse_settings(arguments, environment)


def test_a_secret_on_the_command_line_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert given_secret(options("--auth-token", "t0ken"), "auth_token") == "t0ken"
    told = capsys.readouterr().err
    assert "--auth-token-file" in told and "t0ken" not in told


def test_a_secret_in_the_environment_or_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    assert given_secret(options("--auth-token-file", str(file)), "auth_token") == "t0ken"
    assert given_secret(options(SCALER_THING_AUTH_TOKEN_FILE=str(file)), "auth_token") == "t0ken"
    assert given_secret(options(SCALER_THING_AUTH_TOKEN="t1"), "auth_token") == "t1"
    assert given_secret(options(), "auth_token") == ""
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff", b"x" * 5000])
def test_a_file_that_is_no_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="--auth-token-file"):
        given_secret(options("--auth-token-file", str(file)), "auth_token")
    with pytest.raises(UsageError, match="cannot be read"):
        given_secret(options("--auth-token-file", str(tmp_path / "none")), "auth_token")


# ---------------------------------------------------------------- URLs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://joe:s3cret@host/", "must not contain user:password@"),
        ("http://s3cret@host/", "must not contain user:password@"),
        ("http://:s3cret@host/", "must not contain user:password@"),
        ("http://joe:s3cret@", "must not contain user:password@"),
        ("ftp://host/s3cret", "not a URL"),
        ("http://[s3cret", "not a URL"),
        ("http://host:s3cret/", "not a URL"),
        ("s3cret", "not a URL"),
        ("http://host/a b?s3cret", "no spaces"),
        ("http://host/\x1b?s3cret", "no spaces"),
    ],
)
def test_a_url_that_is_refused_is_not_repeated(text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words) as caught:
        http_url(text)
    assert "s3cret" not in str(caught.value)


def test_only_the_place_of_a_url_is_shown() -> None:
    url = http_url("https://adapter.example:8443/hooks/T0/s3cret?token=t0ken#x")
    assert shown_url(url) == "https://adapter.example:8443"
    assert shown_url(http_url("http://[::1]:80/x")) == "http://[::1]:80"
    assert shown_url(http_url("http://host/")) == "http://host"
