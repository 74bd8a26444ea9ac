"""Addresses of servers: `tcp://host:port` everywhere, `ipc://path` where the system has it; of several, a list.

Parsing is strict and its errors are written for the person who typed the address. Only a server that binds may leave
things open: host `*` is every interface, port 0 or `*` is one the system chooses.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
from collections.abc import Iterable
from dataclasses import replace

from scaler_protocol.records import dataclass

#: `sun_path` of a Unix socket holds this many bytes with its terminator.
_IPC_PATH_BYTES = 107
_PORT_MAX = 65_535
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?\Z")
_EXAMPLE = "write it like tcp://127.0.0.1:2345"
_SEPARATOR = ","

MOST_ADDRESSES = 8
"""In a list. A dialer that finds no server would else be a long time on its way to the one that serves."""


class AddressError(ValueError):
    """An address that cannot be used; its text is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Either a host (without brackets) and a port, or a path."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"ipc://{self.path}"
        return f"tcp://{f'[{self.host}]' if self.is_ipv6 else self.host}:{self.port or '*'}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def is_wildcard(self) -> bool:
        """Can be bound, but names no place that could be dialed."""
        return not self.path and (self.port == 0 or self.host == "*")

    @property
    def is_loopback(self) -> bool:
        """Only reachable from this machine."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str, *, is_bind: bool = False) -> Address:
    if not isinstance(text, str):
        raise AddressError(f"an address is a string and {text!r} is not: {_EXAMPLE}")
    if _is_list(text):
        raise AddressError(f"{text!r} is a list of addresses, and one is wanted here: leave out the others")
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise AddressError(f"address {text!r} does not begin with tcp:// or ipc://: {_EXAMPLE}")
    if scheme == "ipc":
        return _parse_ipc(text, rest)
    if scheme != "tcp":
        raise AddressError(f"address {text!r} uses {scheme}://, which is not supported: {_EXAMPLE}")
    address = _parse_tcp(text, rest)
    if address.is_wildcard and not is_bind:
        raise AddressError(f"address {text!r} can be listened on but not connected to: name the host and its port")
    return address


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Of one server, or of several that a dialer turns to: `tcp://a:2345,tcp://b:2345`. (HSK-39)"""
    if not isinstance(text, str):
        raise AddressError(f"an address is a string and {text!r} is not: {_EXAMPLE}")
    if not _is_list(text):
        return (parse_address(text),)
    parts = [part.strip() for part in text.split(_SEPARATOR)]
    if "" in parts:
        raise AddressError(f"the list of addresses {text!r} has an empty place: leave out the comma that is too much")
    if len(parts) > MOST_ADDRESSES:
        raise AddressError(
            f"a list has at most {MOST_ADDRESSES} addresses and this one has {len(parts)}: leave some out"
        )
    addresses = tuple(parse_address(part) for part in parts)
    for address in addresses:
        if addresses.count(address) > 1:
            raise AddressError(f"the list of addresses {text!r} names {address} twice: name each server once")
    return addresses


def _is_list(text: str) -> bool:
    """A path may have commas, a host has none."""
    return _SEPARATOR in text and ("tcp://" in text or text.count("://") > 1)


def joined_addresses(addresses: Iterable[Address]) -> str:
    """A list as `parse_addresses` reads it."""
    return _SEPARATOR.join(str(address) for address in addresses)


def bindable(address: Address) -> str:
    """As libzmq wants it for bind: it takes numbers and interfaces there, but no host names."""
    if address.path or address.host == "*" or _is_number(address.host) or _is_interface(address.host):
        return str(address)
    try:
        found = socket.getaddrinfo(address.host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressError(f"address {address}: this machine does not know the host {address.host!r}") from None
    # IPv4 first: `localhost` is both, and peers that are given a name try IPv4 first as well.
    return str(replace(address, host=str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])))


def check_resolvable(text: str) -> None:
    """Raise if no host of these addresses is known; blocks for as long as the system's resolver does.

    libzmq resolves in the background and is silent about failure, so someone who mistyped a host name would only see
    a timeout. Of several servers some may be gone, and their names with them.
    """
    unknown: list[Address] = []
    for address in parse_addresses(text):
        if _is_known(address):
            return
        unknown.append(address)
    raise AddressError(
        f"the host {unknown[0].host!r} of {unknown[0]} is not known here: check its spelling, or use its IP address"
    )


def _is_known(address: Address) -> bool:
    if address.path or _is_number(address.host):
        return True
    try:
        socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return True


def offset_address(text: str, offset: int, suffix: str) -> str:
    """The address `offset` ports further, or for a path the same with `suffix`."""
    address = parse_address(text, is_bind=True)
    if address.path:
        return str(replace(address, path=f"{address.path}-{suffix}"))
    if address.port == 0:
        return str(address)
    if address.port + offset > _PORT_MAX:
        raise AddressError(f"address {text!r} leaves no port for {suffix} at {address.port + offset}: use a lower port")
    return str(replace(address, port=address.port + offset))


def default_storage_address(scheduler: str) -> str:
    """Where the storage of this scheduler is unless an option says otherwise: the next port."""
    return offset_address(scheduler, 1, "storage")


def default_monitor_address(scheduler: str) -> str:
    """Where this scheduler also listens, for monitors, unless another address is given."""
    return offset_address(scheduler, 2, "monitor")


def _parse_ipc(text: str, path: str) -> Address:
    if sys.platform == "win32":
        raise AddressError(f"address {text!r}: ipc:// does not exist on Windows: {_EXAMPLE}")
    if not path or path == "*":
        raise AddressError(f"address {text!r} names no path: write it like ipc:///run/user/1000/scaler")
    if len(path.encode()) > _IPC_PATH_BYTES:
        raise AddressError(f"the path of address {text!r} is longer than {_IPC_PATH_BYTES} bytes: use a shorter one")
    return Address(path=path)


def _parse_tcp(text: str, rest: str) -> Address:
    host, separator, port = rest.rpartition(":")
    if not separator or (rest.startswith("[") and rest.endswith("]")):
        raise AddressError(f"address {text!r} has no port: {_EXAMPLE}")
    return Address(host=_parse_host(text, host), port=_parse_port(text, port))


def _parse_host(text: str, host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise AddressError(f"address {text!r}: {host} is not an IPv6 address") from None
        return host[1:-1]
    if ":" in host:
        raise AddressError(f"address {text!r}: write an IPv6 address in brackets, like tcp://[::1]:2345")
    if host == "*":
        return host
    if not _HOST.match(host) or (re.fullmatch(r"[0-9.]+", host) and not _is_number(host)):
        raise AddressError(f"address {text!r}: {host!r} is neither a host name nor an IP address: {_EXAMPLE}")
    return host


def _parse_port(text: str, port: str) -> int:
    if port == "*":
        return 0
    if not (port.isascii() and port.isdigit()) or int(port[:6]) > _PORT_MAX:
        raise AddressError(f"address {text!r}: {port!r} is not a port, which is a number up to {_PORT_MAX}")
    return int(port)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_interface(host: str) -> bool:
    return any(host == name for _, name in socket.if_nameindex())
