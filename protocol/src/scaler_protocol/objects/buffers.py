"""Memory for a value that is about to be received."""

from __future__ import annotations

import ctypes
import sys


def new_buffer(size: int) -> bytearray:
    """A bytearray whose bytes mean nothing yet: every one of them must be written before other code sees it.

    `bytearray(size)` clears what it allocates, which touches every page once more: 117 of the 290 ms that it took to
    allocate and fill 256 MiB. CPython's C interface can leave that out. Raises MemoryError.
    """
    if size >= sys.maxsize:
        raise MemoryError
    if _resize is None:
        return bytearray(size)
    # Not PyByteArray_FromStringAndSize: where memory is short, that one destroys a half-made object, noisily.
    buffer = bytearray()
    _resize(buffer, size)
    return buffer


_resize = None
if hasattr(ctypes, "pythonapi"):
    _resize = ctypes.pythonapi.PyByteArray_Resize
    _resize.restype = ctypes.c_int
    _resize.argtypes = (ctypes.py_object, ctypes.c_ssize_t)
