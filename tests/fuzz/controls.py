"""What operators and profiles add to a cluster: orders of monitors, and trees of calls that workers have sampled."""

from __future__ import annotations

import random
import struct

from scaler_conformance.wire import decode
from scaler_protocol.codes import CONTROL_CANCEL_CLIENT, CONTROL_CANCEL_TASK, CONTROL_DONE, CONTROL_DRAIN_WORKER
from scaler_protocol.ids import ID_BYTES, ObjectId
from scaler_protocol.stack_trees import Frame, StackTrees
from tests.fuzz.attack import Attack
from tests.fuzz.families import AT_P, CLIENT, MONITOR, WORKER, Peer, family, in_turns, submission
from tests.fuzz.monitors import AT_MONITOR
from tests.fuzz.mutations import Frames, frames, new_id
from tests.fuzz.outside import probe

TASKS = 2_000
WORKERS = 20
_ACTIONS = (0, CONTROL_CANCEL_TASK, CONTROL_CANCEL_CLIENT, CONTROL_DRAIN_WORKER, 4, 65_535)
_NO_SECONDS = (-1.0, 1e30, float("inf"), float("-inf"), float("nan"))
_WINDOWS = ("30", "120", "600", "31", "", "nan", "9" * 400)


# ---------------------------------------------------------------- orders


def order(action: int, subject: bytes, seconds: float = 1.0) -> Frames:
    return frames("control", requestId=1, action=action, subject=subject, graceSeconds=seconds)


@family(has_sessions=True)
def controls(attack: Attack) -> None:
    """Orders about tasks, workers and clients of the hostile peers, and about what is no id, many at once. In a cluster
    without keys, those that make sense are done."""
    outcomes: set[int] = set()

    def step(monitor: Peer) -> bool:
        client, worker = Peer(attack, AT_P, CLIENT), Peer(attack, AT_P, WORKER)
        made = submission(TASKS)
        client.send(made)
        tasks = bytes(decode(made).body["ids"])
        meant = [*_about_tasks(tasks), *_about_peers(monitor)]
        is_on = monitor.send(*(order(action, subject) for action, subject in meant))
        answers = [decode(answer, is_lenient=True) for answer in monitor.wire.received(0.1)]
        outcomes.update(answer.body["outcome"] for answer in answers if answer.kind == "controlReply")
        subjects = [*(subject for _, subject in meant), *_strange_subjects(attack.chance, tasks)]
        is_on = is_on and all(monitor.say(*_strange(attack.chance, subjects)) for _ in range(20))
        monitor.wire.drop_what_came()
        client.wire.close()
        worker.wire.close()
        return is_on

    in_turns(attack, lambda: Peer(attack, AT_MONITOR, MONITOR), step, peers=3)
    if attack.scene.access.is_insecure and CONTROL_DONE not in outcomes:
        attack.troubles.append(f"no order was done: the outcomes were {outcomes}")


def _about_tasks(tasks: bytes) -> list[tuple[int, bytes]]:
    return [(CONTROL_CANCEL_TASK, tasks[at : at + ID_BYTES]) for at in range(0, 50 * ID_BYTES, ID_BYTES)]


def _strange(chance: random.Random, subjects: list[bytes]) -> tuple[Frames, int]:
    """An order that means nothing, very often; with seconds that end a session when they come again, now and then."""
    action, subject = chance.choice(_ACTIONS), chance.choice(subjects)
    if chance.random() < 0.03:
        return order(action, subject, chance.choice(_NO_SECONDS)), 1
    return order(action, subject), chance.choice((1, 50, 300))


def _strange_subjects(chance: random.Random, tasks: bytes) -> list[bytes]:
    return [new_id(chance), b"", bytes(ID_BYTES), tasks[: ID_BYTES - 1], tasks[: ID_BYTES + 1], tasks]


def _about_peers(monitor: Peer) -> list[tuple[int, bytes]]:
    """Workers and clients of this family, as a snapshot shows them: the others are left alone, so that what the
    bystander notices is a fault. Its batches are small."""
    monitor.send(frames("snapshotRequest", requestId=1))
    for answer in monitor.wire.received(0.2):
        shown = decode(answer, is_lenient=True)
        if shown.kind == "clusterStatus":
            workers = [one["peerId"] for one in shown.body["workers"] if one["name"] == "hostile"]
            clients = [one["peerId"] for one in shown.body["clients"] if one["taskCount"] >= TASKS // 2]
            drains = [(CONTROL_DRAIN_WORKER, worker) for worker in workers]
            return drains + [(CONTROL_CANCEL_CLIENT, client) for client in clients]
    return []


# ---------------------------------------------------------------- profiles


@family(has_sessions=True, least_accepted=0.3)
def damaged_profiles(attack: Attack) -> None:
    """Workers that are asked for trees of calls tell deep, wide and damaged ones, while the page shows the profile."""

    def step(worker: Peer) -> bool:
        if attack.chance.random() < 0.1:
            probe(attack, attack.scene.page_port, "GET", _profile_path(attack.chance), statuses=(200, 400, 404, 503))
        worker.wire.drop_what_came()
        made = frames("workerStatus", stackSamples=_trees(attack.chance))
        return worker.say(made, attack.chance.choice((1, 3, 30)))

    probe(attack, attack.scene.page_port, "GET", "/profile.json?seconds=30")  # from then on workers are asked
    in_turns(attack, lambda: Peer(attack, AT_P, WORKER, features=["stack-samples"]), step, peers=WORKERS)


def _profile_path(chance: random.Random) -> str:
    kind, function = (
        chance.choice(("json", "json", "speedscope.json")),
        chance.choice(("", "", "x", "%ff", "x" * 3_000)),
    )
    return f"/profile.{kind}?seconds={chance.choice(_WINDOWS)}&function={function}"


def _trees(chance: random.Random) -> bytes:
    made = _whole_trees(chance)
    at = chance.randrange(len(made))
    head = chance.randbytes(ID_BYTES) + struct.pack("<IHH", chance.choice((0, 1, 2**32 - 1)), 65_535, 65_535)
    damaged = (
        made[:at],
        made[:at] + chance.randbytes(1) + made[at + 1 :],
        made[:at] + chance.randbytes(8) + made[at:],
        made * 2,
        made + head,
        (chance.randbytes(ID_BYTES) + bytes(8)) * 1_300,  # very many functions without calls
        chance.randbytes(chance.choice((1, 24, 30_000))),
        bytes(1 << 20),
    )
    return made if chance.random() < 0.4 else chance.choice(damaged)


def _whole_trees(chance: random.Random) -> bytes:
    trees = StackTrees()
    names = ("f", "", "</script>", "\x1b[2J", "é" * 300, "a\nb")
    for _ in range(chance.choice((1, 10, 100))):
        function = ObjectId(bytes(15) + chance.randbytes(1))
        path: list[Frame] = [
            (chance.choice(names), chance.choice(names), chance.choice((0, 1, 2**31, 2**32)))
            for _ in range(chance.choice((1, 5, 300)))
        ]
        trees.add(function, path, chance.choice((0, 1, 2**32 - 1, 2**64)))
    return trees.take(chance.choice((200, 8_000, 32_768, 100_000)))
