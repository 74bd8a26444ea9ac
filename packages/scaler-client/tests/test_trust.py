"""`Client(trust_results=False)`: whatever a worker returns, no code of its choice runs here."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict, deque
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler import Client
from scaler.client.errors import exception_of
from scaler.utility.exceptions import RemoteError
from scaler_protocol import codes, plain_values, values
from scaler_protocol.messages import TaskError
from scaler_protocol.plain_values import NotPlain

ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False),
    st.text(), st.binary(), st.builds(bytearray, st.binary()),
)  # fmt: skip
HASHABLE = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary())
PLAIN = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(HASHABLE, inner), st.sets(HASHABLE),
        st.frozensets(HASHABLE), st.lists(inner).map(deque), st.dictionaries(HASHABLE, inner).map(OrderedDict),
    ),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLAIN)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    data = b"".join(values.dumps(value))
    assert plain_values.loads(data) == values.loads(data) == value
    assert type(plain_values.loads(data)) is type(value)


@pytest.mark.parametrize(
    "value", [b"x" * 200_000, bytearray(b"y" * 200_000), [b"z" * 70_000, "text"], range(5), slice(1, 2), {1: {2, 3}}]
)
def test_large_ones_and_rare_ones_too(value: Any) -> None:
    for data in (b"".join(values.dumps(value)), bytearray(b"".join(values.dumps(value)))):
        assert plain_values.loads(data) == value
    for protocol in range(3, pickle.HIGHEST_PROTOCOL + 1):
        assert plain_values.loads(pickle.dumps(value, protocol)) == value


class Hostile:
    def __init__(self, *reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> Any:
        return self._reduced


def hostile(path: Path) -> list[bytes]:
    touch = str(path)
    made = [
        Hostile(os.mkdir, (touch,)),
        Hostile(eval, (f"__import__('os').mkdir({touch!r})",)),
        Hostile(getattr, ("text", "upper")),
        [1, {"deep": (Hostile(os.mkdir, (touch,)),)}],
        Decimal("1"),
        Path(touch),
        ValueError("no"),
        Hostile,
        len,
    ]
    written = [pickle.dumps(one, protocol) for one in made for protocol in (0, 2, 5)]
    mkdir = f"cos\nmkdir\n(V{touch}\ntR.".encode()
    return [
        *written,
        mkdir,
        f"cbuiltins\neval\n(V__import__('os').mkdir({touch!r})\ntR.".encode(),
        f"(V{touch}\nios\nmkdir\n.".encode(),
        b"cbuiltins\nset\nX\x07\x00\x00\x00__doc__\x93.",
        b"Vx\nP.",
        b"\x82\x01.",
        values.MAGIC + b"\x00\x00\x00\x00" + len(mkdir).to_bytes(8, "little") + mkdir,
    ]


def test_nothing_that_a_worker_names_is_called(tmp_path: Path) -> None:
    place = tmp_path / "made"
    for data in hostile(place):
        with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError)):
            plain_values.loads(data)
        assert not place.exists(), data


def test_the_hostile_ones_would_have_worked(tmp_path: Path) -> None:
    place = tmp_path / "made"
    values.loads(hostile(place)[0])
    assert place.exists()


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    try:
        plain_values.loads(data)
    except Exception:
        pass


@pytest.mark.parametrize("name", ["bytes", "bytearray"])
def test_a_number_of_zeros_is_not_bytes(name: str) -> None:
    with pytest.raises(NotPlain):
        plain_values.loads(f"cbuiltins\n{name}\n(I1000000000000\ntR.".encode())


# Writes that change the reader itself, of 40 to 80 bytes each: what they leave must not be seen by the next value.
POISONS = [
    b"ccollections\ndeque\n(N(dV__defaults__\n(I-666\nNttb.",  # BUILD with a state of slots
    b"ccollections\ndeque\n}V__name__\nVmine\nsb.",
    b"ccollections\ndeque\n}V__kwdefaults__\n}V_items\nI1\nssb.",
    b"\x80\x02ccollections\ndeque\n)\x81.",  # NEWOBJ
    b"\x80\x04ccollections\ndeque\n)}\x92.",  # NEWOBJ_EX
    b"(ccollections\ndeque\no.",  # OBJ
    b"(icollections\ndeque\n.",  # INST
    b"\x80\x02\x82\x01.",  # EXT1
    b"Vx\nQ.",  # BINPERSID
]


@pytest.mark.parametrize("poison", POISONS)
def test_a_value_cannot_change_how_later_ones_are_read(poison: bytes) -> None:
    with pytest.raises(NotPlain):
        plain_values.loads(poison)
    assert plain_values.loads(pickle.dumps(deque([1, 2]))) == deque([1, 2])


@pytest.mark.parametrize("name", ["bytes", "bytearray", "complex", "range", "slice", "set", "frozenset"])
@pytest.mark.parametrize("around", [b"%b.", b"(%bt.", b"(%bl.", b"(V\n%bd.", b"(%bl\x85.", b"\x80\x02}(K\x01%bu."])
def test_a_name_alone_is_no_value(name: str, around: bytes) -> None:
    with pytest.raises(NotPlain, match="name"):
        plain_values.loads(around % f"cbuiltins\n{name}\n".encode())


def deep(count: int, wrap: bytes = b"\x85") -> bytes:
    return b"\x80\x02)" + wrap * count


DOUBLED = b"q\x00h\x00\x86" * 64
"""A pair of itself, of itself … : a few hundred bytes, and 2**64 steps for a program that computes its hash."""
AS_KEY = [b"\x80\x02}%bNs.", b"\x80\x02}(%bNu.", b"\x80\x02(%bNd.", b"\x80\x04\x8f(%b\x90.", b"\x80\x04(%b\x91.",
          b"\x80\x02cbuiltins\nset\n(%bl\x85R.", b"\x80\x02ccollections\nOrderedDict\n(%bN\x86l\x85R."]  # fmt: skip


@pytest.mark.parametrize("around", AS_KEY)
@pytest.mark.parametrize("inner", [b")" + b"\x85" * 200_000, b")" + DOUBLED], ids=["deep", "doubled"])
def test_a_key_that_is_dear_to_hash_is_refused(around: bytes, inner: bytes) -> None:
    """A hash recurses in C without a bound: such a key ended the process, or took for ever."""
    with pytest.raises(NotPlain, match="nested"):
        plain_values.loads(around % inner)


def test_keys_of_all_sizes_that_programs_have() -> None:
    key: Any = ()
    for number in range(500):
        key = (key, number)
    for value in ({key: 1}, {(1, 2): {(3, (4, 5))}}, {tuple(range(100_000)): 1}, [{frozenset([(1, 2)]): 3}]):
        for protocol in range(3, pickle.HIGHEST_PROTOCOL + 1):
            assert plain_values.loads(pickle.dumps(value, protocol)) == value


def test_a_length_that_the_bytes_do_not_have_asks_for_no_memory() -> None:
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        plain_values.loads(b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"short.")


def test_an_exception_of_a_task_is_told_and_not_made(tmp_path: Path) -> None:
    place = tmp_path / "made"
    error = TaskError(
        codes.TASK_RAISED,
        "KeyError",
        "'x'",
        text="Traceback …",
        serialized=pickle.dumps(Hostile(os.mkdir, (str(place),))),
    )
    raised = exception_of(error, is_trusted=False)
    assert type(raised) is RemoteError
    assert str(raised) == "KeyError: 'x'"
    assert not place.exists()


def test_a_serializer_of_ones_own_reads_as_it_likes() -> None:
    class Own:
        serialize = staticmethod(pickle.dumps)
        deserialize = staticmethod(pickle.loads)

    with pytest.raises(ValueError, match="trust_results=False"):
        Client("tcp://127.0.0.1:1", serializer=Own(), trust_results=False)
