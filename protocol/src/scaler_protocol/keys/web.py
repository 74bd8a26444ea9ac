"""Tokens for HTTP, from the cluster's key. Each has a label of its own, because a visitor of the page must not be able
to start workers: from one token neither the key nor the other token can be computed."""

from __future__ import annotations

from base64 import urlsafe_b64encode

from scaler_protocol.keys import lookup
from scaler_protocol.keys.derivation import derived
from scaler_protocol.keys.errors import NoKeyFound
from scaler_protocol.keys.options import KeyOptions
from scaler_protocol.keys.texts import KeyText

PAGE_LABEL = b"scaler page 1"
ADAPTER_LABEL = b"scaler adapter 1"


def web_token(keys: KeyOptions, address: str, label: bytes) -> str:
    """Of the newest key of the cluster at this address. Empty where no key is at hand: in an insecure cluster, where
    none was found yet, and where there is only a ticket."""
    try:
        return "" if keys.insecure else key_token(keys, address, label)
    except NoKeyFound:
        return ""


def key_token(keys: KeyOptions, address: str, label: bytes) -> str:
    """The same of a cluster with a key. NoKeyFound where none was found yet; empty where there is only a ticket."""
    found, _ = lookup.searched(address, keys.key_file)
    return token_of(found.keys[0], label) if isinstance(found, KeyText) else ""


def token_of(key: bytes, label: bytes) -> str:
    return urlsafe_b64encode(derived(key, label)).decode("ascii").rstrip("=")
