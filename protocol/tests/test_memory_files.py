"""Memory files: what is written is read by others, and nothing that is not one is ever read (STO-19, STO-20)."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.messages import MemoryFile
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.memory_files import Unreadable, create, open_file

pytestmark = pytest.mark.skipif(not memory_files.FEATURES, reason="memory files are Linux's")

NAME = b"sixteen bytes..."
PROOF = f"scaler-{NAME.hex()}"


@pytest.mark.parametrize("pieces", [[], [b""], [b"a"], [b"head", bytearray(5_000_000), b"", memoryview(b"tail")[1:]]])
def test_what_is_written_is_read(pieces):
    file = create(NAME, pieces)
    expected = b"".join(pieces)
    opened = open_file(file.reference(), len(expected))
    assert opened.content() == expected == opened.read(0, 1 << 30)
    assert opened.read(1, 2) == expected[1:3]


def test_more_pieces_than_one_call_takes():
    pieces = [b"%d," % number for number in range(5000)]
    assert create(NAME, pieces).content() == b"".join(pieces)


def test_content_is_the_readers_own_and_outlives_the_file():
    file = create(NAME, [bytes(3_000_000)])
    ours, theirs = memoryview(file.content()), memoryview(file.content())
    ours[5] = 1
    del file
    assert (ours[5], theirs[5]) == (1, 0)


def test_no_line_of_python_runs_when_a_file_or_a_mapping_dies():
    """A Ctrl-C there would be lost: whatever a destructor or a callback in Python raises is printed and ignored."""
    file = create(NAME, [bytes(3_000_000)])
    content, descriptor = file.content(), file.descriptor
    before = len(memory_files._files), len(memory_files._mappings)
    ran = []

    def note(frame, event, argument):
        ran.append((event, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        del file
        del content
    finally:
        sys.setprofile(None)
    assert [event for event, _ in ran] == ["c_call"], "the end of the profile alone"
    assert not is_open(descriptor), "the file is closed"
    assert (len(memory_files._files), len(memory_files._mappings)) == (before[0] - 1, before[1] - 1)


def test_a_file_in_a_cycle_is_closed_by_the_collector():
    gc.collect()
    before = len(memory_files._files)
    descriptors = []
    for _ in range(3):
        holder = [create(NAME, [b"abc"])]
        descriptors.append(holder[0].descriptor)
        holder.append(holder)
        del holder
    gc.collect()
    assert not any(map(is_open, descriptors)) and len(memory_files._files) == before


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_beyond_so_many_mappings_content_is_copied(monkeypatch):
    monkeypatch.setattr(memory_files, "MAPPINGS", 0)
    content = create(NAME, [b"abc" * 1000]).content()
    assert type(content) is bytearray and content == b"abc" * 1000


def test_nobody_can_change_a_sealed_file():
    file = create(NAME, [b"abc"])
    for change in (
        lambda fd: os.write(fd, b"x"),
        lambda fd: os.ftruncate(fd, 1),
        lambda fd: os.ftruncate(fd, 9),
    ):
        descriptor = os.open(f"/proc/self/fd/{file.descriptor}", os.O_RDWR)
        try:
            with pytest.raises(PermissionError):
                change(descriptor)
        finally:
            os.close(descriptor)


def sparse(size: int) -> int:
    """A sealed file of this name whose bytes are a hole but for the first."""
    descriptor = memory_files._create(f"scaler-{NAME.hex()}")
    os.write(descriptor, b"x")
    os.ftruncate(descriptor, size)
    memory_files._seal(descriptor, memory_files._SEALS)
    return descriptor


@pytest.mark.parametrize("size", [8193, 1 << 20, 1 << 60])
def test_a_file_with_holes_is_refused(size):
    descriptor = sparse(size)
    try:
        assert refused(descriptor, size) == "the memory file has holes"
    finally:
        os.close(descriptor)


def test_a_file_that_is_cut_short_before_it_is_sealed_has_the_size_it_has_then(monkeypatch):
    descriptor = memory_files._create(f"scaler-{NAME.hex()}")
    os.write(descriptor, bytes(100_000))
    get_seals = memory_files.fcntl.fcntl

    def cut_and_seal(fd, *arguments):
        monkeypatch.undo()
        os.ftruncate(descriptor, 5)
        memory_files._seal(descriptor, memory_files._SEALS)
        return get_seals(fd, *arguments)

    monkeypatch.setattr(memory_files.fcntl, "fcntl", cut_and_seal)
    try:
        assert refused(descriptor, 100_000) == "the memory file has 5 bytes and not 100000"
    finally:
        os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def refused(descriptor: int, size: int, name: bytes = NAME, process_id: int | None = None) -> str:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(Unreadable) as raised:
        open_file(MemoryFile(process_id or os.getpid(), descriptor, name), size)
    text = str(raised.value)
    del raised  # its traceback holds the frames
    # What an earlier test has left may be closed meanwhile.
    assert set(os.listdir("/proc/self/fd")) <= before, "nothing stays open"
    return text


def test_what_is_no_memory_file_is_not_opened(pipe):
    assert "no memory file" in refused(pipe, 0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, f"memfd:{PROOF} (deleted)")
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        assert refused(descriptor, 0)
        os.close(descriptor)


def test_name_size_and_seals_are_looked_at():
    file = create(NAME, [b"abc"])
    assert "another file" in refused(file.descriptor, 3, name=b"another name....")
    assert "another file" in refused(file.descriptor, 3, name=b"")
    assert "3 bytes and not 4" in refused(file.descriptor, 4)
    unsealed = os.memfd_create(PROOF, os.MFD_ALLOW_SEALING)
    assert "not sealed" in refused(unsealed, 0)
    os.close(unsealed)


def test_descriptors_and_processes_that_do_not_exist():
    descriptor = create(NAME).descriptor  # closed again already
    assert refused(descriptor, 0)
    assert refused(2**32 - 1, 0, process_id=2**32 - 1)


def test_without_descriptors_it_is_an_error_and_nothing_leaks():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            create(NAME, [b"abc"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_memory_is_gone_with_the_process_that_was_killed():
    program = (
        f"from scaler_protocol.objects import memory_files as m; f = m.create({NAME!r}, [b'abc']); "
        "print(f.descriptor, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        descriptor = int(process.stdout.readline())
        reference = MemoryFile(process.pid, descriptor, NAME)
        kept = open_file(reference, 3)
        process.kill()
        process.wait(20)
    with pytest.raises(Unreadable):
        open_file(reference, 3)
    assert kept.content() == b"abc", "whoever has it open keeps it"
