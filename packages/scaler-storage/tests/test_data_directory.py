"""The data directory on a real disk: at whatever step it is killed, a start finds the state after some batch."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.keys import Keyring
from scaler_protocol.objects import memory_files
from scaler_protocol.process import StartupError
from scaler_protocol.session.admission import Admission
from scaler_storage.core import Keep
from scaler_storage.core.values import FileValue, SpillFile, StoredValue
from scaler_storage.data_directory import FOLDER, INDEX, PART_SUFFIX, SMALL_BYTES, SUFFIX, DataDirectory, SmallFile
from scaler_storage.data_index import NAMED, VERSION
from scaler_storage.service import StorageService

FIRST, SECOND = PeerId(b"A" * 16), PeerId(b"B" * 16)
ONE, TWO, THREE = (ObjectId(bytes((n,)) * 16) for n in (1, 2, 3))
LARGE = bytes(range(256)) * (SMALL_BYTES // 256)
EMPTY_KEEP = Keep(1, (), (), (), (), (), ())
MARKS = (b"K" * 16, b"L" * 16)


def value(data: bytes) -> StoredValue:
    made = StoredValue(len(data))
    made.append(data)
    return made


def batch(**contents: bytes) -> Keep:
    """Objects by the names `one`, `two`, `three`, with values under their numbers; all are the first owner's."""
    numbers = {"one": (1, ONE), "two": (2, TWO), "three": (3, THREE)}
    rows = [(*numbers[name], data) for name, data in contents.items()]
    return replace(
        EMPTY_KEEP,
        values=tuple((number, value(data)) for number, _, data in rows),
        objects=tuple((one, number) for number, one, _ in rows),
        owners=tuple((one, FIRST, FIRST) for _, one, _ in rows),
    )


def state(directory: DataDirectory) -> dict[ObjectId, tuple[bytes, tuple[tuple[PeerId, bytes], ...]]]:
    return {found.object_id: (found.file.read(0, found.file.size), found.owners) for found in directory.found()}


def names(path: Path) -> list[str]:
    return sorted(one.name for one in (path / FOLDER).iterdir() if one.suffix in (SUFFIX, PART_SUFFIX))


class Opener:
    """Has one of them open at a time, as the lock demands."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: DataDirectory | None = None

    def __call__(self, **options: Any) -> DataDirectory:
        self.close()
        self._last = DataDirectory(str(self._path), **options)
        return self._last

    def close(self) -> None:
        if self._last is not None:
            self._last.close()
        self._last = None


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path)
    yield opener
    opener.close()


# ---------------------------------------------------------------- what is kept is there


def test_a_value_without_room_is_left_out_and_the_others_are_kept(opened, monkeypatch) -> None:
    """Checks that values of the index are left out too, so that other programs keep the room that they need on the file
    system."""
    directory = opened()
    monkeypatch.setattr(directory, "room_bytes", lambda: len(LARGE) + 10)
    kept = directory.keep(batch(one=LARGE, two=b"small", three=bytes(50)))
    assert set(kept.files) == {1, 2} and "95%" in kept.trouble
    assert set(state(directory)) == {ONE, TWO}


def test_all_that_was_entered_is_there_again(opened, tmp_path) -> None:
    directory = opened()
    keep = batch(one=b"", two=b"hello", three=LARGE)
    family = (TWO, SECOND, FIRST)
    kept = directory.keep(replace(keep, owners=(*keep.owners, family)))
    assert not kept.trouble and isinstance(kept.files, dict) and sorted(kept.files) == [1, 2, 3]
    assert kept.files[2].read(1, 3) == b"ell" and kept.files[3].read(100, 5) == LARGE[100:105]
    both = ((FIRST, FIRST), (SECOND, FIRST))
    before = {ONE: (b"", both[:1]), TWO: (b"hello", both), THREE: (LARGE, both[:1])}
    assert state(opened()) == before
    assert names(tmp_path) == [f"{3:016x}{SUFFIX}"], "only the large one has a file"


def test_owners_objects_and_files_go(opened, tmp_path) -> None:
    directory = opened()
    files = directory.keep(batch(one=b"hello", two=LARGE, three=LARGE)).files
    duplicate = replace(EMPTY_KEEP, objects=((ONE, 3),), owners=((ONE, SECOND, SECOND),), deleted=(ONE,))
    assert directory.keep(replace(duplicate, dropped=(files[1],))).files == {}
    second = ((SECOND, SECOND),)
    assert state(directory) == {
        ONE: (LARGE, second),
        TWO: (LARGE, ((FIRST, FIRST),)),
        THREE: (LARGE, ((FIRST, FIRST),)),
    }
    directory.keep(replace(EMPTY_KEEP, owners=((TWO, SECOND, SECOND),)))
    directory.keep(replace(EMPTY_KEEP, released=((TWO, FIRST),), deleted=(THREE,)))
    assert state(opened()) == {ONE: (LARGE, second), TWO: (LARGE, second)}
    opened().keep(replace(EMPTY_KEEP, deleted=(ONE, TWO), dropped=(files[2], files[3])))
    assert state(opened()) == {} and names(tmp_path) == []


def test_a_batch_of_a_thousand_small_objects(opened) -> None:
    ids = [ObjectId(n.to_bytes(16, "little")) for n in range(1_024)]
    contents = [n.to_bytes(4, "little") * (n % 70) for n in range(1_024)]
    values = tuple((n + 1, value(data)) for n, data in enumerate(contents))
    keep = replace(EMPTY_KEEP, values=values, objects=tuple((one, n + 1) for n, one in enumerate(ids)))
    opened().keep(replace(keep, owners=tuple((one, FIRST, SECOND) for one in ids)))
    assert state(opened()) == {one: (data, ((FIRST, SECOND),)) for one, data in zip(ids, contents, strict=True)}


def test_memory_files_are_written_and_copied_out_again(opened) -> None:
    shared = FileValue(memory_files.create(ONE, [LARGE, b"more"]))
    kept = opened().keep(replace(batch(one=b""), values=((1, shared),)))
    copy = kept.files[1].copy(ONE, 0, len(LARGE) + 4)
    assert bytes(memory_files.open_file(copy.reference(), len(LARGE) + 4).content()) == LARGE + b"more"


# ---------------------------------------------------------------- kills and errors at each step


BEFORE = batch(one=b"hello", two=LARGE)


def change(directory: DataDirectory, files: dict[int, SpillFile]) -> None:
    """One batch with all that a batch may have: `two` is deleted and its file goes, `one` begins another life."""
    directory.keep(
        Keep(
            2,
            ((3, value(LARGE + b"one")), (4, value(LARGE + b"three")), (5, value(b"small"))),
            ((ONE, 3), (THREE, 4), (ObjectId(b"4" * 16), 5)),
            ((ONE, SECOND, SECOND), (THREE, FIRST, FIRST), (ObjectId(b"4" * 16), FIRST, FIRST)),
            (),
            (ONE, TWO),
            (files[1], files[2]),
        )
    )


def steps_of_a_change(path: Path) -> list[str]:
    steps: list[str] = []
    directory = DataDirectory(str(path), passed=lambda step: steps.append(step))
    files = directory.keep(BEFORE).files
    assert isinstance(files, dict)
    steps.clear()
    change(directory, {**files})
    directory.close()
    return steps


def change_and_fail(path: Path, at: int, fail: Callable[[], None]) -> None:
    """In a process of its own. Each step of the change is counted, and at that one it fails."""
    child = os.fork()
    if not child:
        try:
            count = -1_000

            def passed(step: str) -> None:
                nonlocal count
                count += 1
                if count == at:
                    fail()

            directory = DataDirectory(str(path), passed=passed)
            files = directory.keep(BEFORE).files
            assert isinstance(files, dict)
            count = -1
            change(directory, {**files})
            directory.close()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0


def whole_states() -> tuple[dict, dict, dict]:
    """Before the change, after it, and before it without the file that was removed first."""
    first, second = ((FIRST, FIRST),), ((SECOND, SECOND),)
    before = {ONE: (b"hello", first), TWO: (LARGE, first)}
    after = {ONE: (LARGE + b"one", second), THREE: (LARGE + b"three", first), ObjectId(b"4" * 16): (b"small", first)}
    return before, after, {ONE: before[ONE]}


def test_a_kill_at_each_step_leaves_the_state_after_a_batch(tmp_path: Path) -> None:
    steps = steps_of_a_change(tmp_path / "all")
    assert len(steps) >= 11 and steps[-1] == "kept"
    for at, step in enumerate(steps):
        path = tmp_path / str(at)
        change_and_fail(path, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        directory = DataDirectory(str(path))
        before, after, without = whole_states()
        assert state(directory) == (after if step == "kept" else without if steps[0] == "removed" else before), step
        assert len(names(path)) == (2 if step == "kept" else 0), "what is not whole is removed"
        directory.keep(batch(three=LARGE) if step != "kept" else EMPTY_KEEP)
        directory.close()


def test_an_error_at_each_step_leaves_the_state_after_a_batch(tmp_path: Path) -> None:
    """A full disk, for instance. The storage lives on, and the batch is answered."""

    def fail() -> None:
        raise OSError(28, "No space left on device")

    steps = steps_of_a_change(tmp_path / "all")
    for at, step in enumerate(steps[:-1]):  # after the last one nothing can fail
        path = tmp_path / str(at)
        change_and_fail(path, at, fail)
        directory = DataDirectory(str(path))
        found = state(directory)
        before, after, without = whole_states()
        partly = {one: content for one, content in after.items() if one in found}
        assert found in (before, without, after) or (
            step in ("made", "written", "synced", "named") and found == partly
        ), step
        assert not [name for name in names(path) if name.endswith(PART_SUFFIX)]
        directory.close()


# ---------------------------------------------------------------- what may be wrong with a directory


def test_a_file_that_is_missing_or_cut_short_is_dropped(opened, tmp_path, caplog) -> None:
    opened().keep(batch(one=LARGE, two=LARGE, three=LARGE))
    missing, short, _ = names(tmp_path)
    (tmp_path / FOLDER / missing).unlink()
    (tmp_path / FOLDER / short).write_bytes(LARGE[:-1])
    (tmp_path / FOLDER / f"{99:016x}{SUFFIX}").write_bytes(b"of no object")
    (tmp_path / FOLDER / "notes.txt").write_bytes(b"of the operator")
    with caplog.at_level(logging.WARNING):
        assert list(state(opened())) == [THREE]
    assert "2 objects" in caplog.text and "not whole" in caplog.text
    assert len(names(tmp_path)) == 1 and (tmp_path / FOLDER / "notes.txt").exists()


def test_an_object_of_two_owners_without_its_file_goes_alone(opened, tmp_path, caplog) -> None:
    """Its rows stand between those of others, and each owner has one."""
    keep = batch(one=b"hello", two=LARGE, three=b"there")
    several = tuple((one, SECOND, SECOND) for one in (ONE, TWO, THREE))
    opened().keep(replace(keep, owners=(*keep.owners, *several)))
    (tmp_path / FOLDER / names(tmp_path)[0]).unlink()
    both = ((FIRST, FIRST), (SECOND, SECOND))
    with caplog.at_level(logging.WARNING):
        assert state(opened()) == {ONE: (b"hello", both), THREE: (b"there", both)}
    assert "1 objects" in caplog.text
    caplog.clear()
    assert len(state(opened())) == 2 and not caplog.text, "nothing is left of it"


def test_values_that_no_object_has_go_at_the_start(opened, tmp_path) -> None:
    keep = batch(one=b"hello", two=LARGE, three=b"there")
    opened().keep(replace(keep, objects=keep.objects[2:], owners=keep.owners[2:]))
    opened()
    opened.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FOLDER / INDEX)) as index:
        assert index.execute("SELECT number FROM vals").fetchall() == [(3,)]
    assert names(tmp_path) == []


# ---------------------------------------------------------------- a start with millions of objects


def test_a_start_reads_each_table_in_its_order(opened, tmp_path) -> None:
    """A row that is looked up at another place costs a page each: of a million objects that were half a minute."""
    opened().keep(batch(one=b"hello"))
    opened.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FOLDER / INDEX)) as index:
        plan = " ".join(str(row[-1]) for row in index.execute(f"EXPLAIN QUERY PLAN {NAMED}"))
    assert "SCAN objects" in plan and "USING PRIMARY KEY (id=?)" in plan
    assert "TEMP B-TREE" not in plan and "vals" not in plan


def test_equal_owners_are_kept_once(opened) -> None:
    opened().keep(batch(one=b"hello", two=b"there", three=LARGE))
    owners = {id(found.owners) for found in opened().found()}
    assert len(owners) == 1


@pytest.mark.parametrize("wreck", ["garbage", "empty", "middle"])
def test_a_damaged_index_is_begun_anew(opened, tmp_path, caplog, wreck: str) -> None:
    directory = opened()
    for n in range(40):
        many = [ObjectId((n * 1_000 + i).to_bytes(16, "big")) for i in range(200)]
        keep = replace(EMPTY_KEEP, values=((n + 1, value(b"hello")),), objects=tuple((one, n + 1) for one in many))
        directory.keep(replace(keep, owners=tuple((one, FIRST, FIRST) for one in many)))
    directory.keep(replace(batch(one=LARGE), values=((100, value(LARGE)),), objects=((ONE, 100),)))
    opened.close()
    path = tmp_path / FOLDER / INDEX
    data = path.read_bytes()
    wrecked = {"garbage": b"not a database " * 1_000, "empty": b"", "middle": data[:20_000] + bytes(len(data) - 20_000)}
    path.write_bytes(wrecked[wreck])
    directory = opened()
    assert state(directory) == {} and names(tmp_path) == [], "files that no index names are of no use"
    assert ("is damaged" in caplog.text) == (wreck != "empty")
    directory.keep(batch(one=b"again"))
    assert list(state(opened())) == [ONE]


def test_a_directory_of_a_later_version_or_of_another_program_is_left_alone(opened, tmp_path) -> None:
    opened()
    opened.close()
    path = tmp_path / FOLDER / INDEX
    for pragma, text in (
        (f"user_version={VERSION + 1}", f"version {VERSION + 1}"),
        ("application_id=7", "another program"),
    ):
        with sqlite3.connect(path) as index:
            index.execute(f"PRAGMA {pragma}")
        before = path.read_bytes()
        with pytest.raises(StartupError, match=text):
            DataDirectory(str(tmp_path))
        assert path.read_bytes() == before


def test_one_storage_at_a_time(opened, tmp_path) -> None:
    opened()
    with pytest.raises(StartupError, match="in use by another object storage: name another directory") as caught:
        DataDirectory(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_only_the_user_may_look(opened, tmp_path) -> None:
    opened().keep(batch(one=LARGE, two=b"hello"))
    for path in ((tmp_path / FOLDER), *(tmp_path / FOLDER).iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    opened.close()
    (tmp_path / FOLDER).chmod(0o750)
    with pytest.raises(StartupError, match="chmod it to 0700"):
        DataDirectory(str(tmp_path))
    (tmp_path / FOLDER).chmod(0o700)


@pytest.mark.parametrize("place", ["file", "link"])
def test_what_is_no_directory_is_told(tmp_path, place: str) -> None:
    if place == "file":
        (tmp_path / "data").write_bytes(b"")
    else:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / FOLDER).symlink_to(tmp_path)
    with pytest.raises(StartupError, match="cannot be used"):
        DataDirectory(str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        (MARKS[:1], MARKS, True),
        (MARKS, MARKS[1:], True),
        (MARKS[:1], MARKS[1:], False),
        (MARKS, (), False),
        ((), MARKS, False),
    ],
)
def test_another_clusters_objects_are_dropped(opened, tmp_path, caplog, before, after, stays: bool) -> None:
    opened(key_marks=before).keep(batch(one=b"hello", two=LARGE))
    assert len(state(opened(key_marks=after))) == (2 if stays else 0)
    assert ("another key" in caplog.text) != stays and len(names(tmp_path)) == stays


def test_keys_that_change_while_it_runs_are_followed(opened) -> None:
    directory = opened(key_marks=MARKS[:1])
    directory.keep(batch(one=b"hello"))
    for marks in (MARKS, MARKS[1:]):
        directory.mark(partial(frozenset, marks))
    assert len(state(opened(key_marks=MARKS[1:]))) == 1


def test_the_last_keys_stand_whichever_thread_of_the_disk_is_first(opened) -> None:
    """Both threads wait for the batch that is written while the keys change twice."""
    keyrings = [Keyring([key * 32 for key in keys]) for keys in ((b"1",), (b"2", b"1"), (b"2",))]
    admission = Admission(keyrings[0])
    directory = opened(key_marks=keyrings[0].marks)
    service, jobs = StorageService.__new__(StorageService), Jobs()
    service._admission, service._marked, service._directory = admission, keyrings[0], directory
    service._disk = jobs  # type: ignore[assignment]
    for keyring in keyrings[1:]:
        admission.keyring = keyring
        service._follow_keys()
    for job in reversed(jobs.called):
        job()
    assert len(jobs.called) == 2 and directory._index.keys() == keyrings[2].marks


class Jobs:
    """Those of threads that are busy."""

    def __init__(self) -> None:
        self.called: list[Callable[[], None]] = []

    def call(self, job: Callable[[], None]) -> None:
        self.called.append(job)


def test_room_of_small_values_is_given_back(opened, tmp_path) -> None:
    directory = opened()
    numbers = range(1, 601)
    for start in range(0, 600, 100):
        values = tuple((n, value(bytes(SMALL_BYTES - 1))) for n in numbers[start : start + 100])
        directory.keep(replace(EMPTY_KEEP, values=values))
    path = tmp_path / FOLDER / INDEX
    full = directory.keep(EMPTY_KEEP) and sum(one.stat().st_size for one in path.parent.iterdir())
    for start in range(0, 600, 50):
        dropped = tuple(SmallFile(directory._index, n, 1) for n in numbers[start : start + 50])
        directory.keep(replace(EMPTY_KEEP, dropped=dropped))
    opened.close()
    assert sum(one.stat().st_size for one in path.parent.iterdir()) < full / 2
