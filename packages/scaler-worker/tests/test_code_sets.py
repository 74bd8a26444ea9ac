"""Directories of code sets on a host: whole or not there, unpacked once, found damaged, bounded. (WRK-51, WRK-52)"""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import multiprocessing
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler_protocol.code_set import CodeSet, pack
from scaler_protocol.codes import CODE_SET_REFUSED, ENVIRONMENT_FAILED, FUNCTION_UNREADABLE, STORAGE_UNREACHABLE
from scaler_protocol.ids import GRANT_BYTES, NO_OWNER, ObjectId, Owner, PeerId, content_id
from scaler_protocol.keys import Pass, own_family
from scaler_protocol.running import errors
from scaler_protocol.running.errors import TaskFailed
from scaler_worker.code_sets import entering, environments, folders
from scaler_worker.code_sets.entering import CodeSets
from scaler_worker.code_sets.folders import FolderError, Folders
from scaler_worker.code_sets.options import MODULES, CodeOptions

SET = pack(CodeSet({"mine.py": b"x = 1\n", "part/__init__.py": b"", "part/data.txt": b"d"}))
WAIT = 20.0


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entering changes the process for good: the one of these tests goes on."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    monkeypatch.setattr(errors, "hidden_prefixes", ())
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "")
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def entered(
    directory: Path, content: bytes = SET, owner: Owner = NO_OWNER, told: list[str] | None = None, **options: Any
) -> Path:
    """Where a new processor finds what it imports."""
    sets = CodeSets(CodeOptions(directory=str(directory / "root"), **options))
    sets.enter(content_id(content), owner, lambda *_: content, ([] if told is None else told).append)
    return Path(sys.path[0])


def refused(code: int, directory: Path, content: bytes = SET, told: list[str] | None = None, **options: Any) -> str:
    before = list(sys.path)
    with pytest.raises(TaskFailed) as failed:
        entered(directory, content, told=told, **options)
    assert failed.value.code == code and failed.value.is_refusal
    assert sys.path == before, "what is refused changes nothing"
    return str(failed.value)


def test_modules_are_imported_from_it(tmp_path: Path) -> None:
    root = entered(tmp_path)
    import mine  # type: ignore[import-not-found]

    assert mine.x == 1 and Path(mine.__file__) == root / "mine.py"
    assert (root / "part" / "data.txt").read_bytes() == b"d"
    assert not (root / "__pycache__").exists(), "bytecode would be found as a change"


def test_it_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = entered(tmp_path)
    monkeypatch.setattr(entering, "_write", lambda *_: pytest.fail("it is there"))
    assert entered(tmp_path) == first


def test_another_family_unpacks_its_own(tmp_path: Path) -> None:
    """To know an id is no right to what is unpacked under it."""
    one = Owner(PeerId(b"a" * 16), b"A" * 32)
    assert entered(tmp_path, owner=one) != entered(tmp_path)

    def denied(*_: object) -> bytes:
        raise TaskFailed(STORAGE_UNREACHABLE, "not allowed")

    sets = CodeSets(CodeOptions(directory=str(tmp_path / "root")))
    with pytest.raises(TaskFailed, match="not allowed"):
        sets.enter(content_id(SET), one, denied)


def test_programs_of_one_user_share_what_is_unpacked_and_users_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # WRK-68
    made = []
    monkeypatch.setattr(environments._Build, "fill", lambda build, directory: made.append(_installed(directory)))
    content = pack(CodeSet({"mine.py": b"x = 1\n"}, "some-package==1\n"))

    def places(program: bytes, user: str, cluster: bytes = b"one") -> tuple[str, ...]:
        shown = Pass((cluster,), b"", b"", b"")
        owner = Owner(PeerId(program * 16), own_family(program * 16, user) + b"proof".ljust(GRANT_BYTES))
        before = list(sys.path)
        sets = CodeSets(CodeOptions(directory=str(tmp_path / "root")), shown)
        sets.enter(content_id(content), owner, lambda *_: content)
        found = tuple(path for path in sys.path if path not in before)
        sys.path[:] = before
        return found

    first = places(b"a", "ana")
    assert len(first) == 2 and places(b"b", "ana") == first and len(made) == 1, "one installation"
    others = [places(b"a", "joe"), places(b"a", ""), places(b"a", "ana", b"another")]
    assert len({path for found in (first, *others) for path in found}) == 2 * 4, "nothing is shared"
    assert places(b"b", "joe") == others[0] and len(made) == 4


def _installed(directory: Path) -> Path:
    (directory / "packages").mkdir()
    (directory / "done").touch()
    return directory


def _write_into(root: Path) -> None:
    os.chmod(root, 0o700)
    (root / "other.py").write_text("x = 3\n")


def _change(root: Path) -> None:
    os.chmod(root / "mine.py", 0o600)
    (root / "mine.py").write_text("x = 2\n")


def _remove(root: Path) -> None:
    os.chmod(root, 0o700)
    (root / "mine.py").unlink()


def _link(root: Path) -> None:
    _remove(root)
    (root / "mine.py").symlink_to("/etc/passwd")


def _cache(root: Path) -> None:
    os.chmod(root, 0o700)
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "mine.cpython-311.pyc").write_bytes(b"")


@pytest.mark.parametrize("damage", [_write_into, _change, _remove, _link, _cache])
def test_what_was_changed_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    root = entered(tmp_path)
    damage(root)
    assert entered(tmp_path) == root
    assert (root / "mine.py").read_bytes() == b"x = 1\n"
    assert sorted(path.name for path in root.iterdir()) == ["mine.py", "part"]


def test_other_bytes_than_the_id_says_are_not_used(tmp_path: Path) -> None:
    sets = CodeSets(CodeOptions(directory=str(tmp_path / "root")))
    with pytest.raises(TaskFailed) as failed:
        sets.enter(ObjectId(bytes(16)), NO_OWNER, lambda *_: SET)
    assert failed.value.code == FUNCTION_UNREADABLE
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("name", ["random.py", "scaler/__init__.py", "zmq.py"])
def test_a_module_that_every_process_has_is_refused(tmp_path: Path, name: str) -> None:
    import random  # noqa: F401 - so that it is loaded

    assert name.partition("/")[0].partition(".")[0] in refused(CODE_SET_REFUSED, tmp_path, pack(CodeSet({name: b""})))


def test_a_module_that_preload_has_imported_is_imported_anew(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 'of the worker'\n")
    sys.path.insert(0, str(tmp_path))
    import mine

    assert mine.x == "of the worker"
    entered(tmp_path)
    assert importlib.import_module("mine").x == 1


def test_a_full_disk_is_the_trouble_of_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker gets the task, and nothing of it stays here."""

    def full(directory: Path, content: CodeSet) -> None:
        (directory / "half").write_bytes(b"x")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(entering, "_write", full)
    assert "No space left" in refused(STORAGE_UNREACHABLE, tmp_path)
    assert not [path for path in (tmp_path / "root" / "code").iterdir() if path.is_dir()]
    monkeypatch.undo()
    assert entered(tmp_path).is_dir()


def test_a_name_that_another_account_has_taken_costs_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any account can make names in the directory for temporary files."""
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = f"scaler-code-{os.getuid()}"
    assert folders.root_of("") == tmp_path / name, "it is ours"
    (tmp_path / name).chmod(0o777)
    assert folders.root_of("") == tmp_path / "cache" / name
    (tmp_path / name).rmdir()
    (tmp_path / name).symlink_to(tmp_path)
    assert folders.root_of("") == tmp_path / "cache" / name
    Folders(folders.root_of(""), 1000).use("key", lambda path: (path / "x").touch(), Path.exists, 1.0)
    assert folders.root_of("/named") == Path("/named")


def test_a_directory_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    os.chmod(tmp_path / "root", 0o755)
    assert "only this account" in refused(STORAGE_UNREACHABLE, tmp_path)


# ---------------------------------------------------------------- several processes


def _make_slowly(directory: Path, count_file: Path, started: Any, go_on: Any) -> None:
    def make(folder: Path) -> None:
        with count_file.open("a") as file:
            file.write("x")
        started.set()
        go_on.wait(WAIT)
        (folder / "done").touch()

    Folders(directory, 1 << 20).use("key", make, lambda folder: (folder / "done").exists(), WAIT)


def _processes(count: int, *arguments: Any) -> list[Any]:
    context = multiprocessing.get_context("fork")
    made = [context.Process(target=_make_slowly, args=arguments) for _ in range(count)]
    for process in made:
        process.start()
    return made


def test_several_processes_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    started, go_on = context.Event(), context.Event()
    processes = _processes(4, tmp_path / "folders", tmp_path / "count", started, go_on)
    assert started.wait(WAIT)
    go_on.set()
    for process in processes:
        process.join(WAIT)
        assert process.exitcode == 0
    assert (tmp_path / "count").read_text() == "x"


def test_a_maker_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    started, go_on = context.Event(), context.Event()
    (killed,) = _processes(1, tmp_path / "folders", tmp_path / "count", started, go_on)
    assert started.wait(WAIT)
    os.kill(killed.pid, signal.SIGKILL)
    killed.join(WAIT)
    assert [path for path in (tmp_path / "folders").iterdir() if ".making-" in path.name], "it was in the middle"
    go_on = context.Event()  # the process that was killed was waiting for the other one
    go_on.set()
    (second,) = _processes(1, tmp_path / "folders", tmp_path / "count", started, go_on)
    second.join(WAIT)
    assert second.exitcode == 0 and (tmp_path / "count").read_text() == "xx"
    assert not [path for path in (tmp_path / "folders").iterdir() if ".making-" in path.name]


def test_a_wait_for_another_maker_is_bounded(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    started, go_on = context.Event(), context.Event()
    (process,) = _processes(1, tmp_path / "folders", tmp_path / "count", started, go_on)
    assert started.wait(WAIT)
    with pytest.raises(FolderError, match="too long"):
        Folders(tmp_path / "folders", 1 << 20).use("key", lambda folder: None, lambda folder: False, 0.05)
    go_on.set()
    process.join(WAIT)
    assert process.exitcode == 0


@pytest.mark.filterwarnings("ignore:unclosed file")
def test_an_interrupt_between_a_lock_and_its_use_leaves_no_lock(tmp_path: Path) -> None:
    kept = Folders(tmp_path / "folders", 1 << 30)
    before = sys.gettrace()

    def interrupt_use(frame: Any, event: str, _: object) -> Any:
        if frame.f_code is not Folders.use.__code__:
            return None
        if event == "line" and "maker" in frame.f_locals:  # the first line behind it
            raise KeyboardInterrupt
        return interrupt_use

    def use_interrupted() -> bool:
        sys.settrace(interrupt_use)
        try:
            _filled(kept, "key")
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    assert use_interrupted()
    gc.collect()
    with open(tmp_path / "folders" / "key.maker", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------- the bound


def _filled(kept: Folders, key: str, size: int = 400) -> Path:
    def make(folder: Path) -> None:
        (folder / "content").write_bytes(bytes(size))

    return kept.use(key, make, lambda folder: folder.is_dir(), WAIT)


def test_what_was_not_used_for_longest_is_removed(tmp_path: Path) -> None:
    for age, key in enumerate(("c", "b", "a")):
        kept = Folders(tmp_path / "folders", 1300)
        folder = _filled(kept, key)
        kept.release()
        os.utime(folder.with_name(f"{key}.lock"), (1000 - age, 1000 - age))
    _filled(Folders(tmp_path / "folders", 1300), "d")
    assert sorted(path.name for path in (tmp_path / "folders").iterdir() if path.is_dir()) == ["b", "c", "d"]


def test_what_is_in_use_is_not_removed(tmp_path: Path) -> None:
    first, second = Folders(tmp_path / "folders", 1000), Folders(tmp_path / "folders", 1000)
    held = _filled(first, "held")
    _filled(second, "x")
    second.release()
    _filled(second, "y")
    assert held.is_dir() and not held.with_name("x").exists()
    first.release()


def test_what_is_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="at most 300"):
        _filled(Folders(tmp_path / "folders", 300), "key")
    assert not [path for path in (tmp_path / "folders").iterdir() if path.is_dir()]
    assert "at most 3 of such" in refused(CODE_SET_REFUSED, tmp_path, code_bytes=3)


@pytest.mark.parametrize("size", (0, 400))
def test_there_are_no_more_folders_than_may_be_however_small(tmp_path: Path, monkeypatch, size: int) -> None:
    """Each takes names and inodes, and the next maker looks at all of them."""
    monkeypatch.setattr(folders, "FOLDERS_MAX", 3)
    for number in range(8):
        kept = Folders(tmp_path / "folders", 1 << 30)
        os.utime(_filled(kept, f"key{number}", size).with_name(f"key{number}.lock"), (number, number))
        kept.release()
    names = sorted(path.name for path in (tmp_path / "folders").iterdir())
    assert [name for name in names if "." not in name] == ["key5", "key6", "key7"]
    assert len(names) == 3 * len(["folder", "lock", "maker", "size"])


@pytest.mark.parametrize("error", (ValueError("no such package"), KeyboardInterrupt()))
def test_what_cannot_be_made_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def make(folder: Path) -> None:
        (folder / "content").touch()
        raise error

    kept = Folders(tmp_path / "folders", 1 << 30)
    with pytest.raises(type(error)):
        kept.use("key", make, lambda folder: folder.is_dir(), WAIT)
    assert not list((tmp_path / "folders").iterdir())


def test_what_a_maker_without_a_lock_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "folders").mkdir(0o700)
    (tmp_path / "folders" / "gone.making-x").mkdir()
    _filled(Folders(tmp_path / "folders", 1 << 30), "key")
    assert not [path for path in (tmp_path / "folders").iterdir() if path.name.startswith("gone")]


def test_links_to_elsewhere_are_not_followed_when_it_is_removed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    kept = Folders(tmp_path / "folders", 500)
    (_filled(kept, "old") / "link").symlink_to(tmp_path / "elsewhere")
    kept.release()
    _filled(kept, "new")
    assert not (tmp_path / "folders" / "old").exists()
    assert (tmp_path / "elsewhere" / "file").exists()
    assert folders.size_of(tmp_path / "folders" / "new") == 400


# ---------------------------------------------------------------- packages


@pytest.fixture(params=["uv", "pip"])
def installer(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is found: of this environment, and no other."""
    found = tmp_path / "bin"
    found.mkdir()
    if request.param == "uv":
        uv = Path(sys.executable).with_name("uv")
        if not uv.exists():
            pytest.skip("uv is not installed here")
        (found / "uv").symlink_to(uv)
    elif importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed here")
    monkeypatch.setenv("PATH", str(found))


@pytest.fixture
def wheels(tmp_path: Path) -> str:
    """Requirement lines that find one small package on this machine, and nothing elsewhere."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    make_wheel(directory, "tiny_of_ours", "1.0", "value = 7\n")
    return f"--no-index\n--find-links {directory}\n"


def make_wheel(directory: Path, name: str, version: str, text: str) -> None:
    import zipfile

    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.mark.usefixtures("installer")
def test_packages_are_installed_once(tmp_path: Path, wheels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    required = pack(CodeSet({}, f"{wheels}tiny_of_ours==1.0\n"))
    told: list[str] = []
    first = entered(tmp_path, required, told=told)
    import tiny_of_ours  # type: ignore[import-not-found]

    assert tiny_of_ours.value == 7
    installer = "uv" if shutil.which("uv") else "pip"
    begun, done, end = told
    assert begun == f"host {platform.node()}: installing 1 required package with {installer}"
    assert re.fullmatch(r"host .*: installed 1 required package in \d+\.\d s", done) and end == ""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it is installed"))
    told.clear()
    assert entered(tmp_path, required, told=told) == first
    assert not told, "the task need not wait"


@pytest.mark.usefixtures("installer")
def test_why_an_installation_failed_is_told(tmp_path: Path, wheels: str) -> None:
    told: list[str] = []
    error = refused(ENVIRONMENT_FAILED, tmp_path, pack(CodeSet({}, f"{wheels}tiny_of_ours==2.0\n")), told)
    assert "tiny" in error.partition("\n")[2], "the last lines of the installer"
    assert "1 required package cannot be installed" in told[-2] and "ended with 1" in told[-2] and not told[-1]
    assert not [path for path in (tmp_path / "root" / "environments").iterdir() if path.is_dir()]


@pytest.mark.usefixtures("installer")
def test_an_installation_is_bounded_in_time_and_bytes(
    tmp_path: Path, wheels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    required = pack(CodeSet({}, f"{wheels}tiny_of_ours==1.0\n"))
    monkeypatch.setattr(environments, "POLL_SECONDS", 0.001)  # uv is quick
    assert "longer than 0 s" in refused(ENVIRONMENT_FAILED, tmp_path, required, environment_seconds=0.0)
    monkeypatch.setattr(environments, "TOLD_EVERY_SECONDS", 0.0)
    told: list[str] = []
    assert "at most 10 of such" in refused(ENVIRONMENT_FAILED, tmp_path, required, told, environment_bytes=10)
    assert "still installing 1 required package after 0 s" in told[1]


def test_an_installation_that_is_ended_takes_its_builds_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the process group of the processor, which goes on."""
    build = tmp_path / "build"
    builds = f"sleep 300 & echo $! > {build}.new; mv {build}.new {build}; wait"
    monkeypatch.setattr(environments._Build, "_command", lambda *_: ["/bin/sh", "-c", builds])

    wait = subprocess.Popen.wait

    def wait_or_interrupt(process: Any, timeout: float | None = None) -> int:
        if timeout is not None and build.exists():
            raise KeyboardInterrupt
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        entered(tmp_path, pack(CodeSet({}, "tiny_of_ours\n")))
    try:
        psutil.Process(int(build.read_text())).wait(WAIT)
    except psutil.NoSuchProcess:
        pass


def test_an_operator_may_refuse_packages(tmp_path: Path) -> None:
    assert "--client-code" in refused(ENVIRONMENT_FAILED, tmp_path, pack(CodeSet({}, "x\n")), takes=MODULES)
