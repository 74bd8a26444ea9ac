"""The fast way into pycapnp is not its API: here a new release that lacks it is noticed, and shown to do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from protocol.tests import strategies

from scaler_protocol import codec
from scaler_protocol.codec import envelope as envelope_module
from scaler_protocol.codec import registry as registries
from scaler_protocol.codec.access import AttributeAccess, FieldAccess, choose


def test_pycapnp_still_has_the_fast_methods() -> None:
    """When this fails the codec works still, several times slower: look for what the methods are called now."""
    builder = registries.registry().envelope.new_message()
    missing = [name for name in FieldAccess.METHODS if not hasattr(builder, name)]
    assert missing == []
    assert isinstance(choose(builder), FieldAccess)


def test_without_the_fast_methods_attributes_are_used() -> None:
    assert isinstance(choose(object()), AttributeAccess)


@pytest.fixture
def slow_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    slow = registries.Registry(AttributeAccess())
    monkeypatch.setattr(envelope_module, "registry", lambda: slow)
    yield


@pytest.mark.usefixtures("slow_registry")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(strategies.messages())
def test_attributes_read_and_write_the_same(message: Any) -> None:
    envelope, *payload = codec.encode(message, 7, 5)
    assert codec.decode(bytes(envelope), payload) == codec.Envelope(7, 5, message)
