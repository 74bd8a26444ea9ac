"""What type checkers must refuse: each line that says so at its end, and no other."""

from __future__ import annotations

import scaler
from scaler import Client


def add(a: int, b: int = 2) -> int:
    return a + b


def parent(client: Client, count: int) -> float:
    return float(count)


def names() -> list[str]:
    return ["one"]


def calls(client: Client) -> None:
    number = client.submit(add, 1)
    text = client.submit(str, 1)
    client.submit(add, "one")  # wrong
    client.submit(add, 1, "two")  # wrong
    client.submit(add, number, "two")  # wrong
    client.submit(add, text)  # wrong
    client.submit(add, 1, 2, 3)  # wrong
    client.submit(add, client.send_object("one"))  # wrong
    client.submit(parent, 1, client)  # wrong
    client.submit("add", 1)  # wrong
    client.submit(add, number).result().upper()  # wrong
    client.map(3, [1])  # wrong
    client.map(add, [1], chunks=2)  # wrong
    client.map(sorted, [[1]], timeout=3)[0].upper()  # wrong
    client.imap(add, [1], progress=True)  # wrong
    next(client.as_completed([text])).result() + 1  # wrong
    client.as_completed([1])  # wrong
    client.stream(add, 1)  # wrong
    client.stream(names, 1)  # wrong
    next(client.stream(names)) + 1  # wrong
    client.submit_verbose(add, 1, {})  # wrong


def local_clusters() -> None:
    scaler.local(workers="two")  # wrong
    scaler.local(gpu="auto")  # wrong
    scaler.local(memory_limit="much")  # wrong
    scaler.local(on_exit="leave")  # wrong
    scaler.local(weight="half")  # wrong
    scaler.SchedulerClusterCombo(1).client(timeout="5")  # wrong
