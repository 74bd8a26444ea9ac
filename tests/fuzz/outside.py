"""Families against what is not a ZeroMQ port of a server: the local lane, the page, the adapter, and the programs that
dial a server which is hostile itself."""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
import sys
import threading

import psutil
import zmq

from scaler_conformance.play.samples import samples
from scaler_conformance.wire import Message, Unreadable, decode, encode
from tests.fuzz import mutations
from tests.fuzz.arena import MEMORY_BYTES
from tests.fuzz.attack import PAGE_TOKEN, Attack
from tests.fuzz.curve import CurveWire
from tests.fuzz.families import ROLES, family, rest
from tests.fuzz.mutations import Frames, hello
from tests.fuzz.wire import Wire

PROBE_SECONDS = 5.0
_LANE_COUNTS = (0, 1, 2, 3, 5, 6, 2**16, 2**32 - 1)
_LANE_LENGTHS = (0, 1, 64, 4096, 1 << 20, 64 << 20, 2**32 - 1)


# ---------------------------------------------------------------- the lane


def _framed(frames: Frames) -> bytes:
    return struct.pack(f"<{1 + len(frames)}I", len(frames), *map(len, frames)) + b"".join(frames)


@family(place="lane")
def lane(attack: Attack) -> None:
    """A process of the same user: lies about sizes, mutated messages, silence."""
    if not sys.platform.startswith("linux"):
        return
    chance, kinds = attack.chance, sorted(mutations.vectors())
    held: list[socket.socket] = []
    suffix = "" if attack.scene.access.is_insecure else "/keys"
    while attack.is_on:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(0.5)
        try:
            connection.connect(f"\0scaler/1/127.0.0.1:{attack.port + chance.choice((0, 1))}{suffix}")
            if chance.random() < 0.5:
                connection.sendall(_framed(encode(hello(chance, chance.choice(ROLES)))))
            for number in range(chance.randrange(1, 40)):
                attack.count()
                connection.sendall(_framed(mutations.mutated(chance, chance.choice(kinds), number + 1)))
            count = chance.choice(_LANE_COUNTS)
            lengths = [chance.choice(_LANE_LENGTHS) for _ in range(min(count, 6))]
            connection.sendall(struct.pack(f"<{1 + len(lengths)}I", count, *lengths) + chance.randbytes(50))
        except OSError:
            rest()
        if len(held) < 200 and chance.random() < 0.3:
            held.append(connection)
            attack.at_end(connection.close)
        else:
            connection.close()


@family(place="lane")
def lane_descriptors(attack: Attack) -> None:
    """Files passed along by a process of the same user, with bytes of the framing one at a time."""
    if not sys.platform.startswith("linux"):
        return
    chance = attack.chance
    suffix = "" if attack.scene.access.is_insecure else "/keys"
    with open("/dev/null", "rb") as given:
        while attack.is_on:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
                one.settimeout(0.5)
                try:
                    one.connect(f"\0scaler/1/127.0.0.1:{attack.port + chance.choice((0, 1))}{suffix}")
                    said = _framed(encode(hello(chance, chance.choice(ROLES))))
                    for at in range(0, len(said), chance.choice((1, 7, 64))):
                        files = [given.fileno()] * chance.choice((0, 1, 250))
                        socket.send_fds(one, [said[at : at + 64]], files)
                        attack.count()
                except OSError:
                    rest()


# ---------------------------------------------------------------- a standby


@family(place="standby, no session", needs_keys=True)
def standby(attack: Attack) -> None:
    """A scheduler that waits for its turn refuses Hellos of all roles, with and without tickets, and all else."""
    chance, kinds, access = attack.chance, sorted(mutations.vectors()), attack.scene.access
    held: list[Wire | CurveWire] = []
    while attack.is_on:
        role, port = chance.choice(ROLES), attack.scene.standby_port
        peer = access.connect(port, role) if chance.random() < 0.5 else Wire(port)
        if chance.random() < 0.7:
            peer.send(encode(hello(chance, role, credential=access.ticket(role))))
        for number in range(chance.randrange(1, 40)):
            attack.count()
            if not peer.send(mutations.mutated(chance, chance.choice(kinds), number + 1)):
                break
        if len(held) < 300 and chance.random() < 0.5:
            held.append(peer)
            attack.at_end(peer.close)
        else:
            peer.close()


# ---------------------------------------------------------------- HTTP


_WORDS = (
    b"GET", b"POST", b"TRACE", b" ", b"/", b"/events", b"/state.json", b"/metrics", b"/static/../x",
    b"/explain?task=zz", b"http://[", b" HTTP/1.1\r\n", b" HTTP/9.9\r\n", b"Host: localhost\r\n",
    b"Host: evil.example\r\n", b"Host: \r\n", b"Origin: null\r\n", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Content-Type: application/json\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Cookie: a=\xff\r\n", b"Authorization: Bearer \xff\r\n", b"\r\n",
    b"\r\n", b"{}", b'{"action": NaN}', b"zz\r\n", b"\0", b"\xff",
)  # fmt: skip
_NO_ID = b"0" * 32
_PATHS = (
    b"/", b"/events", b"/state.json", b"/metrics", b"/trace.json", b"/explain", b"/explain?task=zz",
    b"/explain?task=" + _NO_ID, b"/stack", b"/stack?task=" + _NO_ID, b"/replay?seconds=nan&speed=1e999",
    b"/profile.json?seconds=30", b"/profile.json?seconds=120&function=%ff", b"/profile.json?seconds=1e9",
    b"/profile.json?seconds=600&function=" + b"x" * 4_000, b"/profile.speedscope.json?seconds=600",
    b"/control", b"/control?do=cancel-task&id=" + _NO_ID, b"/control?do=cancel-client&id=zz&seconds=nan",
    b"/control?do=drain-worker&id=" + _NO_ID, b"/control?do=cancel-task&id=" + _NO_ID + b"&seconds=1e30",
)  # fmt: skip
"""Of the page. No order is about a task, client or worker that there is."""
_ALLOWED = b"Host: localhost\r\nAuthorization: Bearer " + PAGE_TOKEN.encode() + b"\r\n"


def _requested(chance: random.Random) -> bytes:
    """Words in any order; or a request that the page lets in, with or without a few of them."""
    words = b"".join(chance.choice(_WORDS) for _ in range(chance.randrange(1, 15)))
    how = chance.random()
    if how < 0.3:
        return b"GET /events HTTP/1.1\r\n" + _ALLOWED + b"\r\n"
    if how < 0.7:
        method, path = chance.choice((b"GET", b"GET", b"POST")), chance.choice(_PATHS)
        return method + b" " + path + b" HTTP/1.1\r\n" + _ALLOWED + chance.choice((b"", words)) + b"\r\n"
    return words


@family(place="page and adapter")
def http_requests(attack: Attack) -> None:
    """Requests of words in any order, half requests, streams that are never read."""
    chance = attack.chance
    ports = attack.scene.page_port, attack.scene.adapter_port
    held: list[socket.socket] = []
    while attack.is_on:
        try:
            one = socket.create_connection(("127.0.0.1", chance.choice(ports)), timeout=0.5)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(_requested(chance))
        except OSError:
            rest()
            continue
        attack.count()
        if len(held) < 300:
            held.append(one)
            attack.at_end(one.close)
        else:
            one.close()
    probe(attack, attack.scene.page_port, "GET", "/state.json")
    probe(attack, attack.scene.page_port, "GET", "/events", statuses=(200, 503))
    probe(attack, attack.scene.adapter_port, "POST", "/", json.dumps({"action": "get_worker_adapter_info"}))


@family(place="page and adapter")
def slow_requests(attack: Attack) -> None:
    """Very many requests, each of which comes a byte at a time, and answers of which as little is read."""
    chance = attack.chance
    ports = attack.scene.page_port, attack.scene.adapter_port
    held: list[tuple[socket.socket, bytes]] = []
    while attack.is_on:
        for one, left in held:
            try:
                one.sendall(left[:1])
                attack.count()
            except OSError:
                one.close()
        held = [(one, left[1:]) for one, left in held if one.fileno() >= 0 and left]
        for _ in range(min(20, 600 - len(held))):
            try:
                one = socket.create_connection(("127.0.0.1", chance.choice(ports)), timeout=0.5)
            except OSError:
                break
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            attack.at_end(one.close)
            head = (
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 65536\r\n\r\n"
            )
            held.append((one, chance.choice((head + b" " * 65_536, b"GET /state.json HTTP/1.1\r\nX: " + b"x" * 9_000))))
        rest()
    probe(attack, attack.scene.page_port, "GET", "/state.json")
    probe(attack, attack.scene.adapter_port, "POST", "/", json.dumps({"action": "get_worker_adapter_info"}))


def probe(
    attack: Attack, port: int, method: str, path: str, body: str = "", statuses: tuple[int, ...] = (200,)
) -> None:
    """While all of them are there, a visitor is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_SECONDS)
    headers = {"Authorization": f"Bearer {PAGE_TOKEN}", **({"Content-Type": "application/json"} if body else {})}
    try:
        connection.request(method, path, body or None, headers)
        status = connection.getresponse().status
        if status not in statuses:
            attack.troubles.append(f"{method} {path:.100} at port {port} was answered with {status}")
    except (OSError, http.client.HTTPException) as error:
        attack.troubles.append(f"{method} {path:.100} at port {port} was not answered: {error!r}")
    finally:
        connection.close()


# ---------------------------------------------------------------- a hostile server


class HostileServer:
    """Answers each Hello with a Welcome, and then sends anything."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self._chance = random.Random(attack.chance.getrandbits(64))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 1000)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="hostile-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close()
        self._context.term()

    def _serve(self) -> None:
        kinds = sorted(set(mutations.vectors()) - {"hello"})
        numbers: dict[bytes, int] = {}
        while not self._is_over.is_set():
            if not self._socket.poll(50):
                continue
            routing_id, *frames = self._socket.recv_multipart()
            try:
                message = decode(frames, is_lenient=True)
            except Unreadable:
                continue
            if message.kind == "hello":
                numbers[routing_id] = 0
                self._send(routing_id, self._welcome(message))
            for _ in range(self._chance.randrange(1, 20)):
                numbers[routing_id] = numbers.get(routing_id, 0) + 1
                self._send(routing_id, mutations.mutated(self._chance, self._chance.choice(kinds), numbers[routing_id]))
            if len(numbers) > 1000:
                numbers.clear()

    def _welcome(self, message: Message) -> Frames:
        self._attack.sessions += 1
        body = {
            **samples()["welcome"].body,
            "serverId": mutations.new_id(self._chance),
            "incarnation": self._chance.randrange(1, 1 << 62),
            "sessionId": self._chance.randrange(1, 1 << 62),
            "timers": {"heartbeatSeconds": 0.2, "leaseSeconds": 2.0},
            "storageAddress": self.address,
        }
        return encode(Message("welcome", {name: body[name] for name in samples()["welcome"].body}))

    def _send(self, routing_id: bytes, frames: Frames) -> None:
        self._attack.count()
        try:
            self._socket.send_multipart([routing_id, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:
            pass


@family(has_sessions=True, place="client, worker and manager, from a server")
def hostile_server(attack: Attack) -> None:
    """The client, the worker and the manager that dial it lose their sessions or get errors of ours: no traceback, no
    memory."""
    server = HostileServer(attack)
    victims = {
        "client": attack.scene.start("tests.fuzz.victim", server.address),
        "worker": attack.scene.start(
            "scaler_worker", server.address, "-n", "1", "--death-timeout-seconds=600", "--insecure"
        ),
        "manager": attack.scene.start(
            "scaler_worker.manager", "baremetal_native", server.address, "-mtc", "1", "--insecure"
        ),
    }
    try:
        while attack.is_on or (not attack.sessions and attack.is_on_after(10.0)):
            rest(0.05)
        for name, victim in victims.items():
            if victim.process.poll() is not None and victim.process.returncode not in (0, 1):
                attack.troubles.append(f"the {name} of a hostile server ended: {victim.text[-1000:]}")
            elif victim.process.poll() is None:
                rss = psutil.Process(victim.pid).memory_info().rss
                if rss > 100 << 20 and rss > MEMORY_BYTES:
                    attack.troubles.append(f"the {name} of a hostile server has {rss >> 20} MiB")
    finally:
        for name, victim in victims.items():
            victim.end()
            if "Traceback" in victim.text or "UNEXPECTED" in victim.text:
                at = max(victim.text.find("Traceback"), victim.text.find("UNEXPECTED"))
                attack.troubles.append(f"the {name} of a hostile server: {victim.text[at : at + 2000]}")
        server.close()
