"""Memory files that peers of this host offer: which of them may, how many are held open, and the directory in which
their readers find them (STO-19 to STO-21, STO-25, STO-26)."""

from __future__ import annotations

import logging
import weakref

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Hello, MemoryFile, PutShared
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.directory import Directory
from scaler_protocol.objects.memory_files import FEATURE, OpenedFile, Unreadable
from scaler_protocol.transport.descriptors import descriptors_for
from scaler_storage.core.values import SharedFile

SHARE = 1 / 4
"""Of the descriptors; the others are for files on the disk and for connections. (LIM-32)"""


class SharedFiles:
    """Opens what is offered. Nothing of a file is read or mapped here: that its bytes are sealed protects readers."""

    def __init__(self, *, is_enabled: bool) -> None:
        self.features = memory_files.FEATURES if is_enabled else ()
        self._limit = descriptors_for(SHARE) if self.features else 0
        self._open: weakref.WeakSet[OpenedFile] = weakref.WeakSet()
        #: made for the first peer that could use it
        self._directory: Directory | None = None

    def withheld_features(self, hello: Hello) -> frozenset[str]:
        """The feature is for dialers whose files can be opened: on this host, of this user, and not in a container
        with process ids of its own. (HSK-25)"""
        if FEATURE not in hello.features or not self.features:
            return frozenset({FEATURE})
        try:
            memory_files.open_file(hello.memory_file, 0)
        except Unreadable:
            return frozenset({FEATURE})
        return frozenset()

    def open(self, put: PutShared) -> OpenedFile | str:
        """The file, or why it is not taken."""
        if len(self._open) >= self._limit:
            return f"this storage holds {self._limit} memory files open, as many as it may"
        try:
            file = memory_files.open_file(put.file, put.total_bytes)
        except Unreadable as error:
            return str(error)
        self._open.add(file)
        return file

    # ------------------------------------------------------------ the directory (STO-25)

    def directory(self) -> MemoryFile:
        """What a Welcome names: none while there is no room for one, then readers have to ask."""
        if self._directory is None:
            try:
                self._directory = Directory()
            except OSError as error:
                logging.warning("ObjectStorageServer: readers have to ask where objects are: %s", error)
                return MemoryFile()
        return self._directory.reference()

    def enter(self, object_id: ObjectId, file: SharedFile) -> None:
        if self._directory is not None:
            self._directory.add(object_id, file.reference(), file.size)

    def strike(self, object_id: ObjectId) -> None:
        if self._directory is not None:
            self._directory.remove(object_id)
