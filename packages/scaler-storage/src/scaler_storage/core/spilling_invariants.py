"""What `spilling` keeps twice, derived again and compared. Tests call it after every event."""

from __future__ import annotations

from collections import Counter

from scaler_storage.core.spilling import MOVES, Spilling
from scaler_storage.core.values import AnyValue, SpillFile


def check(spilling: Spilling, values: list[AnyValue]) -> None:
    """`values`: all that exist, each once."""
    limits = spilling.limits
    if not spilling.is_enabled:
        assert not spilling.in_memory and not spilling.moves and not spilling.files, "nothing is kept for nothing"
        return
    if spilling.keeping is None:
        _check_moves(spilling, values)
    on_disk = {value for value in values if value.extent is not None}
    assert spilling.spilled_bytes == sum(value.total_bytes for value in on_disk), "the bytes of all values on the disk"
    assert spilling.disk_bytes == sum(file.size for file in spilling.files), "the bytes of all files"
    copies = spilling.copies
    assert {value for value in values if value.copy is not None} == set(copies.kept_until) <= on_disk, "copies exist"
    assert copies.bytes == sum(value.total_bytes for value in [*copies.kept_until, *copies.coming]), "their bytes"
    assert len(copies.kept_until) + len(copies.coming) <= limits.copies, "copies are bounded"
    living = {value for value in values if value.total_bytes}
    assert spilling.read_until.keys() <= living, "of what is deleted nothing is kept"


def _check_moves(spilling: Spilling, values: list[AnyValue]) -> None:
    limits = spilling.limits
    moving = [value for move in spilling.moves.values() for value in move.values]
    in_memory, on_disk = set(spilling.in_memory), {value for value in values if value.extent is not None}
    assert len(moving) == len(set(moving)), "a value is in one move"
    assert not in_memory & set(moving) and not in_memory & on_disk and not on_disk & set(moving), "each is in one place"
    living = {value for value in values if value.total_bytes}
    assert in_memory | on_disk | {value for value in moving if value.names} == living, "and all are somewhere"
    assert spilling.moving_bytes == sum(value.total_bytes for value in moving), "the bytes of all moves"
    files: Counter[SpillFile] = Counter(value.extent.file for value in on_disk if value.extent is not None)
    files += spilling.reads
    assert spilling.files == files, "how many values lie in each file, and how many reads of it are under way"
    assert spilling.disk_bytes + spilling.moving_bytes <= (limits.disk_bytes or 0), "the disk limit holds"
    assert len(spilling.moves) <= MOVES and len(files) + len(spilling.moves) <= limits.spill_files, "files are bounded"
