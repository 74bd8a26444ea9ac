"""Ports that are none, to see that the suite says so: `python fake_port.py BEHAVIOUR ADDRESS`."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time

import zmq


def silent(address: str) -> None:
    """Listens and never answers."""
    _router(address)
    threading.Event().wait()


def deaf(_: str) -> None:
    """Does not even listen."""
    threading.Event().wait()


def ends(_: str) -> None:
    print("fatal: this port has no configuration", file=sys.stderr)
    sys.exit(3)


def echoes(address: str) -> None:
    """Sends everything back as it came."""
    router = _router(address)
    while True:
        router.send_multipart(router.recv_multipart())


def garbage(address: str) -> None:
    router = _router(address)
    while True:
        routing_id, *_ = router.recv_multipart()
        router.send_multipart([routing_id, os.urandom(64)])


def crashes(address: str) -> None:
    """Ends with the first message that comes."""
    _router(address).recv_multipart()
    os._exit(11)


def noisy(_: str) -> None:
    """Writes to stdout what is no JSON, and much of it, without an end of line."""
    while True:
        sys.stdout.write("x" * 100_000)
        sys.stdout.flush()
        time.sleep(0.01)


def liar(_: str) -> None:
    """Claims everything in `info`, and then can do nothing."""
    for line in sys.stdin:
        command = json.loads(line)
        everything = {"adapter": 1, "name": "liar", "roles": ["client"], "features": ["memfd", "object-teleport"]}
        answer = {"ok": everything} if command["op"] == "info" else {"unsupported": True}
        print(json.dumps({"id": command["id"], **answer}), flush=True)


def shy(_: str) -> None:
    """Says yes to everything, and dials nobody."""
    for line in sys.stdin:
        print(json.dumps({"id": json.loads(line)["id"], "ok": {}}), flush=True)


def chatty(_: str) -> None:
    """Logs to stdout between the answers."""
    for line in sys.stdin:
        print("DEBUG: a command has come", flush=True)
        print(json.dumps({"id": json.loads(line)["id"], "ok": {}}), flush=True)


def unfinished(_: str) -> None:
    """Never ends a line."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps({"id": json.loads(line)["id"], "ok": {}}))
        sys.stdout.flush()


def mute(_: str) -> None:
    """Closes its stdout and stays."""
    os.close(1)
    threading.Event().wait()


def nested(_: str) -> None:
    """Lists in lists, deeper than any reader of JSON goes."""
    for _line in sys.stdin:
        print("[" * 200_000, flush=True)


def vague(_: str) -> None:
    """Its answers have an `ok` that is no object."""
    for line in sys.stdin:
        print(json.dumps({"id": json.loads(line)["id"], "ok": None}), flush=True)


def twice(_: str) -> None:
    """Answers every command two times."""
    for line in sys.stdin:
        answer = json.dumps({"id": json.loads(line)["id"], "ok": {}})
        print(answer, answer, sep="\n", flush=True)


def daemon(address: str) -> None:
    """Leaves a child behind that has the socket, and ends."""
    if os.fork() == 0:
        silent(address)
    sys.exit(0)


def elsewhere(_: str) -> None:
    """Listens at another address than it was told."""
    silent("tcp://127.0.0.1:*")


def colorful(_: str) -> None:
    """Its log moves the cursor of whoever reads it."""
    sys.stderr.buffer.write(b"\x1b[2J\x1b[31mno configuration\xff\n")
    sys.exit(3)


def moody(_: str) -> None:
    """Answers some commands, and then ends."""
    for line in sys.stdin:
        if random.random() < 0.4:
            sys.exit(1)
        print(json.dumps({"id": json.loads(line)["id"], "ok": {}}), flush=True)


def _router(address: str) -> zmq.Socket[bytes]:
    router: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    router.bind(address)
    return router


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
