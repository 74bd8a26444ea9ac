"""The directory of a storage: what is entered is found, and no more than a hint (STO-25 to STO-27)."""

from __future__ import annotations

import os

import pytest

from scaler_protocol.ids import ObjectId, new_object_id
from scaler_protocol.messages import MemoryFile
from scaler_protocol.objects import directory, memory_files
from scaler_protocol.objects.directory import Directory, DirectoryReader
from scaler_protocol.objects.memory_files import OpenedFile, Unreadable

pytestmark = pytest.mark.skipif(not memory_files.FEATURES, reason="memory files are Linux's")


def entered(table: Directory, object_id: ObjectId, value: bytes = b"value", name: bytes = b"") -> OpenedFile:
    file = memory_files.create(name or object_id, [value])
    table.add(object_id, file.reference(), len(value))
    return file


def test_what_is_entered_is_found_until_it_is_struck():
    table = Directory()
    reader = DirectoryReader(table.reference())
    files = {new_object_id(): str(number).encode() for number in range(500)}
    kept = [entered(table, object_id, value) for object_id, value in files.items()]
    for object_id, value in files.items():
        found = reader.open(object_id)
        assert found is not None and found.content() == value
    for object_id in files:
        table.remove(object_id)
        assert reader.open(object_id) is None
    assert len(kept) == 500


def test_a_bucket_that_is_full_leaves_out_what_comes_then():
    table = Directory()
    reader = DirectoryReader(table.reference())
    ids = [ObjectId(bytes(8) + os.urandom(8)) for _ in range(9)]
    files = [entered(table, object_id) for object_id in ids]
    assert [reader.open(object_id) is not None for object_id in ids] == [True] * 8 + [False]
    table.remove(ids[8])
    table.remove(ids[3])
    files.append(entered(table, ids[8]))
    assert [reader.open(object_id) is not None for object_id in ids] == [number != 3 for number in range(9)]


def test_only_files_of_the_objects_name_are_entered():
    table = Directory()
    object_id, other = new_object_id(), new_object_id()
    file = entered(table, object_id, name=other)
    assert DirectoryReader(table.reference()).open(object_id) is None and file.name == other


def test_an_entry_that_is_out_of_date_leads_nowhere():
    """Its descriptor is closed, or is another file by now."""
    table = Directory()
    reader = DirectoryReader(table.reference())
    object_id, later = new_object_id(), new_object_id()
    file = entered(table, object_id)
    descriptor = file.descriptor
    del file
    assert reader.open(object_id) is None
    other = memory_files.create(later, [b"value"])
    assert other.descriptor == descriptor and reader.open(object_id) is None


def test_a_directory_that_cannot_be_one_is_refused():
    sealed = memory_files.create(os.urandom(16), [bytes(64)])
    for file in (sealed.reference(), MemoryFile(), MemoryFile(os.getpid(), 0, bytes(16))):
        with pytest.raises(Unreadable):
            DirectoryReader(file)


def test_nobody_else_can_write_to_it_or_cut_it_short():
    table = Directory()
    opened = memory_files.open_table(table.reference())
    assert opened.size == directory._BUCKETS * directory._BUCKET_BYTES
    with pytest.raises(OSError):
        os.pwrite(opened.descriptor, b"x", 0)
    with pytest.raises(OSError):
        os.truncate(f"/proc/self/fd/{opened.descriptor}", 1)
