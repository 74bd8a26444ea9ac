"""Addresses as people type them."""

from __future__ import annotations

import sys

import pytest

from scaler_protocol.addresses import (
    Address,
    AddressError,
    bindable,
    check_resolvable,
    default_monitor_address,
    default_storage_address,
    parse_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://127.0.0.1:8516", Address("127.0.0.1", 8516)),
        ("tcp://worker-3.example.org:1", Address("worker-3.example.org", 1)),
        ("tcp://[::1]:8516", Address("::1", 8516)),
    ],
)
def test_addresses_that_can_be_dialed(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["tcp://*:8516", "tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://*:*"])
def test_open_places_can_be_bound_but_not_dialed(text: str) -> None:
    assert parse_address(text, is_bind=True).is_wildcard
    with pytest.raises(AddressError, match="listened on but not connected to"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("127.0.0.1:8516", "does not begin with tcp://"),
        ("http://127.0.0.1:80", "uses http://, which is not supported"),
        ("inproc://x", "uses inproc://"),
        ("tcp://127.0.0.1", "has no port"),
        ("tcp://[::1]", "has no port"),
        ("tcp://::1:8516", "in brackets"),
        ("tcp://[::x]:8516", "is not an IPv6 address"),
        ("tcp://:8516", "neither a host name nor an IP address"),
        ("tcp://a b:8516", "neither a host name nor an IP address"),
        ("tcp://1.2.3.400:8516", "neither a host name nor an IP address"),
        ("tcp://host:70000", "is not a port"),
        ("tcp://host:-1", "is not a port"),
        ("tcp://host:", "is not a port"),
        ("tcp://host:12a", "is not a port"),
        ("tcp://host:999999999999999999999999", "is not a port"),
        ("", "does not begin with tcp://"),
    ],
)
def test_a_wrong_address_is_one_readable_sentence(text: str, part: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_the_storage_and_the_monitor_are_the_next_ports() -> None:
    assert default_storage_address("tcp://[::1]:8516") == "tcp://[::1]:8517"
    assert default_monitor_address("tcp://host:8516") == "tcp://host:8518"
    assert default_storage_address("tcp://host:*") == "tcp://host:*"
    with pytest.raises(AddressError, match="leaves no port for monitor"):
        default_monitor_address("tcp://host:65534")


@pytest.mark.skipif(sys.platform == "win32", reason="no ipc on Windows")
def test_ipc_addresses() -> None:
    assert parse_address("ipc:///run/x") == Address(path="/run/x")
    assert default_storage_address("ipc:///run/x") == "ipc:///run/x-storage"
    with pytest.raises(AddressError, match="names no path"):
        parse_address("ipc://")
    with pytest.raises(AddressError, match="longer than 107 bytes"):
        parse_address("ipc:///" + "x" * 120)


def test_there_is_no_ipc_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(AddressError, match="does not exist on Windows"):
        parse_address("ipc:///run/x")


def test_what_only_this_machine_reaches() -> None:
    assert parse_address("tcp://127.0.0.1:1").is_loopback and parse_address("tcp://[::1]:1").is_loopback
    assert parse_address("tcp://localhost:1").is_loopback
    assert not parse_address("tcp://10.0.0.1:1").is_loopback
    assert not parse_address("tcp://*:1", is_bind=True).is_loopback


def test_names_are_resolved_for_binding_since_libzmq_does_not() -> None:
    assert bindable(parse_address("tcp://localhost:1")) == "tcp://127.0.0.1:1"


def test_a_host_that_nobody_knows() -> None:
    with pytest.raises(AddressError, match="check its spelling"):
        check_resolvable("tcp://no-such-host.invalid:1")
    check_resolvable("tcp://127.0.0.1:1")
