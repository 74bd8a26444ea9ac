"""codes.py and the schema's constants are one list."""

from __future__ import annotations

import re

from scaler_protocol import codes
from scaler_protocol.codec import schema

_VERSIONS = {"PROTOCOL_VERSION_MIN", "PROTOCOL_VERSION_MAX"}


def constants_of_the_schema() -> dict[str, int]:
    """As parsed, not as read by eye: the nodes that the file's own node lists."""
    module = schema.load()["constants"]
    names = [nested.name for nested in module._nodeProto.nestedNodes]
    return {re.sub("(?=[A-Z])", "_", name).upper(): getattr(module, name) for name in names}


def test_codes_are_the_constants_of_the_schema() -> None:
    ours = {name: value for name, value in vars(codes).items() if name.isupper() and type(value) is int}
    assert {name: value for name, value in ours.items() if name not in _VERSIONS} == constants_of_the_schema()


def test_no_two_errors_have_one_number() -> None:
    numbers = [value for name, value in constants_of_the_schema().items() if value >= 100]
    assert len(numbers) == len(set(numbers)) > 30


def test_error_codes_have_names_for_people() -> None:
    assert codes.error_code_name(codes.BAD_BATCH) == "BAD_BATCH"
    assert codes.error_code_name(codes.OK) == "OK"
    assert codes.error_code_name(64_000) == "error 64000"
