"""Whatever a thread of the disk meets, each request has an answer, and the thread goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.storage_server import until

from scaler_protocol.ids import ObjectId
from scaler_storage.core import Copy, Keep, Move, Read
from scaler_storage.core.values import StoredValue
from scaler_storage.data_directory import DataDirectory
from scaler_storage.spill_files import THREADS, DiskThreads, SpillDirectory, SpilledFile

NAME = ObjectId(b"A" * 16)
NOTHING = Keep(1, (), (), (), (), (), ())
ERRORS = (MemoryError(), SystemExit(3), KeyboardInterrupt(), ValueError("unforeseen"))


def value(data: bytes) -> StoredValue:
    made = StoredValue(len(data))
    made.append(data)
    return made


@pytest.fixture
def spilled(tmp_path: Path) -> Iterator[tuple[DiskThreads, SpilledFile]]:
    directory = SpillDirectory(str(tmp_path / "spilled"))
    file = directory.written((value(b"hello"),))
    threads = directory.threads(lambda: None)
    yield threads, file
    threads.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[DiskThreads]:
    directory = DataDirectory(str(tmp_path / "kept"))
    threads = directory.threads(lambda: None)
    yield threads
    threads.close()
    directory.close()


def answers(threads: DiskThreads, actions: list[Any]) -> list[Any]:
    done: list[Any] = []
    for action in actions:
        threads.do(action)

    def are_all_there() -> bool:
        done.extend(threads.take_done())
        return len(done) == len(actions)

    until(are_all_there, "each request has an answer")
    return done


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_request_to_a_spill_directory_has_an_answer(spilled, monkeypatch, error) -> None:
    threads, file = spilled
    actions = [Move(1, (value(b"hello"),)), Read(2, file, 0, 5), Copy(3, file, 0, 5, NAME)]

    def broken(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        for name in ("write", "read", "copy"):
            patch.setattr(SpilledFile, name, broken)
        moved, read, copied = sorted(answers(threads, actions), key=lambda one: one.number)
        told = (moved.file, read.data, copied.file)
        assert all(isinstance(text, str) and text.startswith(type(error).__name__) for text in told), told
        answers(threads, [Read(number, file, 0, 5) for number in range(2 * THREADS)])
        threads.call(broken)
    again = sorted(
        answers(threads, [Read(number, file, 0, 5) for number in range(2 * THREADS)]), key=lambda one: one.number
    )
    assert [one.data for one in again] == [b"hello"] * 2 * THREADS, "no thread has ended"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_batch_for_a_data_directory_has_an_answer(kept, monkeypatch, error) -> None:
    def broken(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(DataDirectory, "_enter", broken)
        (told,) = answers(kept, [NOTHING])
        assert isinstance(told.files, str) and told.files.startswith(type(error).__name__)
    (told,) = answers(kept, [NOTHING])
    assert told.files == {} and not told.trouble


def test_a_job_without_an_answer_is_done_as_well(kept) -> None:
    done: list[None] = []
    kept.call(lambda: done.append(None))
    until(lambda: bool(done), "the job is done")
    assert not kept.take_done()
