"""What simulated tasks do, written in their arguments, and what each must return: so that every value can be checked.

A task's first part is one of these lines; further parts are values it takes in. The result is a function of both.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random

from scaler_protocol.ids import ObjectId

FUNCTION = ObjectId(b"simulated.......")
QUICK_FUNCTION = ObjectId(b"simulated, quick")
"""Nothing but `quick`: workers find out that it never takes long."""
LARGE = 300
"""Results longer than this travel through the storage: small, so that simulations stay quick."""

KINDS = ("echo", "echo", "echo", "slow", "large", "fail", "crash", "crashonce", "nest", "stubborn")


def line(rng: Random, kind: str, name: str, depth: int) -> bytes:
    """`kind name argument`."""
    argument = {"nest": rng.randint(1, 3) if depth else 0, "large": LARGE + rng.randint(1, 500)}.get(kind, 0)
    return f"{kind} {name} {argument}".encode()


def tree(name: str, shape: tuple[int, ...], leaf: str, *, one_by_one: bool = False) -> bytes:
    """`tree name children shape leaf order`: it waits for its children, all at once or one after another. `shape` says
    how many children each of them has, and so on down; the last are of the kind `leaf`."""
    rest = ",".join(map(str, shape[1:])) or "-"
    return f"tree {name} {shape[0]} {rest} {leaf} {'ordered' if one_by_one else 'all'}".encode()


def meeting(name: str, group: str, size: int) -> bytes:
    """`meet name size group`: it waits until so many tasks of its group wait."""
    return f"meet {name} {size} {group}".encode()


def subtrees(call: bytes, names: list[str]) -> list[bytes]:
    """The children of a tree, with these names."""
    _, _, _, rest, leaf, order = call.decode().split()
    if rest == "-":
        return [f"{leaf} {name} 0".encode() for name in names]
    shape = tuple(map(int, rest.split(",")))
    return [tree(name, shape, leaf, one_by_one=order == "ordered") for name in names]


def heavy(name: str, size: int) -> bytes:
    """It takes a while, and its value is as large as this."""
    return f"heavy {name} {size}".encode()


def lasting(name: str, milliseconds: int) -> bytes:
    return f"lasts {name} {milliseconds}".encode()


def is_ordered(call: bytes) -> bool:
    return call.endswith(b" ordered")


def kind_of(call: bytes) -> str:
    return call.split()[0].decode()


def function(call: bytes) -> ObjectId:
    return QUICK_FUNCTION if kind_of(call) == "quick" else FUNCTION


def argument_of(call: bytes) -> int:
    return int(call.split()[2])


def seconds(rng: Random, call: bytes) -> float:
    kind = kind_of(call)
    if kind == "lasts":
        return argument_of(call) / 1000
    if kind in ("slow", "stubborn"):
        return rng.uniform(0.3, 3.0)
    if kind == "heavy":
        return rng.uniform(0.1, 0.8)
    return rng.uniform(0.00001, 0.02) if kind != "quick" else 0.0001


def value(call: bytes, inputs: tuple[bytes, ...] = ()) -> bytes:
    """What a task with this call and these inputs returns, whoever runs it."""
    digest = blake2b(b"|".join((call, *inputs)), digest_size=20).hexdigest().encode()
    return digest.ljust(argument_of(call), b".") if kind_of(call) in ("large", "heavy") else digest
