"""What `keeping` keeps twice, derived again and compared. Tests call it after every event."""

from __future__ import annotations

from collections import Counter

from scaler_storage.core.keeping import Keeping
from scaler_storage.core.objects import ObjectTable
from scaler_storage.core.values import SpillFile


def check(keeping: Keeping, objects: ObjectTable) -> None:
    spilling = keeping.spilling
    values = {stored.value for stored in objects.objects.values()}
    assert keeping.files.keys() <= values, "of what is deleted nothing is held"
    held: Counter[SpillFile] = Counter(keeping.files.values())
    held += spilling.reads
    assert spilling.files == held, "how many values and reads each file has"
    assert not set(keeping.dropped) & spilling.files.keys(), "what a value has is not dropped"
    away = {value for value in values if value.extent is not None}
    assert away <= keeping.files.keys(), "what has left memory is in the directory"
    assert all(value.extent is not None and value.extent.file is keeping.files[value] for value in away), "there"
    here = {value for value in keeping.files if value.extent is None and value.total_bytes}
    assert set(spilling.in_memory) == here, "what may leave memory"
    in_batch = 0 if keeping.batch is None else keeping.batch.total_bytes
    assert spilling.moving_bytes == in_batch, "what is being written"
    waiting = {row.object_id for row in keeping.batch.rows} if keeping.batch is not None else set()
    waiting |= keeping.changed.keys() | keeping.unfit.keys()
    settled = {one: stored.number for one, stored in objects.objects.items() if one not in waiting}
    assert settled == {one: life for one, life in keeping.rows.items() if one not in waiting}, "nothing is forgotten"
    assert all(objects.objects[one].value in keeping.files for one in settled), "and has its bytes"
