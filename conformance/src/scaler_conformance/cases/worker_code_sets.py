"""Modules and packages that tasks bring (chapter 07, feature `code-sets`). Optional; what is claimed is held to."""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import content_id, new_id
from scaler_conformance.play.roles import error_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

from .worker_running import call, is_success, run

case = cases_for("worker")
FEATURE = "code-sets"
MIB = 1 << 20


def taking_code(scene: Scene) -> WorkerGuest:
    """The worker, with which the feature is in force."""
    worker = scene.worker_under_test()
    scene.needs_feature(FEATURE, worker.hello)
    return worker


def code_set(files: Mapping[bytes, bytes], requirements: bytes = b"") -> bytes:
    """As WRK-51 has it; with names as they are given."""
    rows = b"".join(pack("<II", len(path), len(content)) for path, content in files.items())
    head = pack("<4sII", b"\xffCS1", len(files), len(requirements))
    return b"".join([head, rows, requirements, *files, *files.values()])


def stored(scene: Scene, content: bytes, client: bytes) -> bytes:
    identifier = content_id(content)
    scene.storage.store(identifier, content, client)
    return identifier


def is_refused(scene: Scene, worker: WorkerGuest, content: bytes, why: str, code: int = CODES.CODE_SET_REFUSED) -> str:
    client = new_id()
    identifier = stored(scene, content, client)
    (result,) = run(scene, worker, call(scene, "echo", b"x"), client=client, codeSet=identifier)
    scene.equal(result.status, CODES.STATUS_REFUSED, f"the status of a task whose code set {why}")
    error = error_of(result)
    scene.equal(error["code"], code, f"the code of the TaskError when the code set {why}")
    return str(error["message"])


@case("WRK-51")
def a_code_set_in_this_form_is_taken(scene: Scene) -> None:
    """With as much as each name may have."""
    worker, client = taking_code(scene), new_id()
    part = b"n" * 240
    deepest = b"/".join([b"d"] * 31 + [b"last.py"])
    longest = b"/".join([part] * 4 + [b"o" * 60])
    files = {b"a/__init__.py": b"", b"a/b.py": b"x = 1\n", deepest: b"", longest: b"data", "é.txt".encode(): b""}
    for content in (code_set({}), code_set({b"one.py": b"x = 1\n"}), code_set(dict(sorted(files.items())))):
        identifier = stored(scene, content, client)
        (result,) = run(scene, worker, call(scene, "echo", b"x"), client=client, codeSet=identifier)
        is_success(scene, result, b"x", "WRK-51")


@case("WRK-51")
def a_code_set_whose_names_lead_elsewhere_is_refused(scene: Scene) -> None:
    worker = taking_code(scene)
    names = (
        b"../x.py",
        b"a/../../x.py",
        b"/x.py",
        b"a//x.py",
        b"./x.py",
        b"a/.",
        b"",
        b"a/..",
        b"C:\\x.py",
        b"a\\x.py",
    )
    for name in (*names, b"x\0.py", b"\xff.py"):
        is_refused(scene, worker, code_set({name: b"x = 1\n"}), f"has the name {name!r}")
    (result,) = run(scene, worker, call(scene, "echo", b"after"))
    is_success(scene, result, b"after")


@case("WRK-51")
def a_code_set_of_another_form_is_refused(scene: Scene) -> None:
    worker = taking_code(scene)
    good = code_set({b"a.py": b"x = 1\n", b"b.py": b""}, b"")
    is_refused(scene, worker, b"", "is empty")
    is_refused(scene, worker, b"PK\3\4" + good[4:], "begins otherwise")
    is_refused(scene, worker, good[:-1], "is cut short")
    is_refused(scene, worker, good[:20], "is cut in its table")
    is_refused(scene, worker, good + b"\0", "has a byte too many")
    is_refused(scene, worker, code_set({b"b.py": b"", b"a.py": b""}), "is not sorted")
    is_refused(scene, worker, code_set({b"A.py": b"", b"a.py": b""}), "has names that differ in case only")
    is_refused(scene, worker, code_set({b"a": b"", b"a/b": b""}), "has a file that is a directory")
    twice = pack("<4sII", b"\xffCS1", 2, 0) + pack("<IIII", 4, 0, 4, 0) + b"a.pya.py"
    is_refused(scene, worker, twice, "has one name twice")


@case("WRK-51")
def a_code_set_that_is_too_large_is_refused(scene: Scene) -> None:
    """What it says of itself counts, and not only what is there."""
    worker = taking_code(scene)
    is_refused(scene, worker, pack("<4sII", b"\xffCS1", 0xFFFFFFFF, 0) + bytes(64), "says that it has 2^32 files")
    claimed = pack("<4sII", b"\xffCS1", 1, 0) + pack("<II", 4, 0xFFFFFFFF) + b"a.py"
    is_refused(scene, worker, claimed, "says that a file has 4 GiB")
    is_refused(scene, worker, code_set({b"/".join([b"d"] * 33): b""}), "has a name of 33 parts")
    is_refused(scene, worker, code_set({b"n" * 241: b""}), "has a name of 241 bytes")
    is_refused(scene, worker, code_set({b"/".join([b"n" * 205] * 5): b""}), "has a path of 1,029 bytes")
    many = {b"%05d" % number: b"" for number in range(20_001)}
    is_refused(scene, worker, code_set(many), "has 20,001 files")
    is_refused(scene, worker, code_set({}, b"#" * (MIB + 1)), "has more than 1 MiB of requirements")


@case("WRK-52")
def a_code_set_with_other_bytes_than_its_id_says_is_not_used(scene: Scene) -> None:
    worker, client = taking_code(scene), new_id()
    identifier = content_id(new_id())
    scene.storage.store(identifier, code_set({b"a.py": b""}), client)
    (result,) = run(scene, worker, call(scene, "echo", b"x"), client=client, codeSet=identifier)
    scene.equal(result.status, CODES.STATUS_REFUSED, "the status")
    scene.equal(error_of(result)["code"], CODES.FUNCTION_UNREADABLE, "the code of its TaskError")


@case("WRK-53", seconds=60.0)
def packages_that_cannot_be_installed_are_told(scene: Scene) -> None:
    """Nothing is looked for outside of this machine."""
    worker = taking_code(scene)
    requirements = b"--no-index\nno-such-package-anywhere==1.0\n"
    told = is_refused(scene, worker, code_set({}, requirements), "requires what there is not", CODES.ENVIRONMENT_FAILED)
    scene.check(len(told) > 40, f"its message says nothing of the reason: {told!r}")
