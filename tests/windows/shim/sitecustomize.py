"""Imported by each start of the Windows Python in the tests: steps round what Wine 8 lacks. Does nothing on Windows.

* Cap'n Proto asks each schema file for its compressed size (GetFileInformationByHandleEx, class FileCompressionInfo).
  Wine does not know that class, and the exception of the C++ library ends the process. So the extension's import of
  that function is replaced by one that answers this class with the plain size.
* Python 3.12 asks WMI for the name of the machine, and Python 3.13 copies files by CopyFile2. Wine has neither; Python
  has another way for both.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import sys
from typing import Any

_EXTENSION = "capnp.lib.capnp"
_FUNCTION = b"GetFileInformationByHandleEx"
_FILE_COMPRESSION_INFO = 8
_COMPRESSION_INFO_BYTES = 16
_PAGE_READWRITE = 4

#: callbacks that the extension calls: they live as long as it does
_callbacks: list[Any] = []


def is_wine() -> bool:
    return sys.platform == "win32" and hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")


def _u32(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value


def _u64(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _slot_of(base: int, function: bytes) -> int:
    """Where the loaded image at `base` keeps the address of this imported function. (The import table of a PE image:
    descriptors of 20 bytes, each with a table of names and a table of addresses; 64-bit entries.)"""
    header = base + _u32(base + 0x3C)
    descriptor = base + _u32(header + 24 + 112 + 8)
    while _u32(descriptor + 12):
        names, addresses = base + (_u32(descriptor) or _u32(descriptor + 16)), base + _u32(descriptor + 16)
        position = 0
        while entry := _u64(names + position):
            is_by_number = entry >> 63
            if not is_by_number and ctypes.string_at(base + entry + 2) == function:
                return addresses + position
            position += 8
        descriptor += 20
    raise LookupError(f"{function!r} is not imported")


def _answer_compression(path: str) -> None:
    kernel = ctypes.WinDLL("kernel32")
    kernel.GetModuleHandleW.restype = ctypes.c_void_p
    kernel.GetModuleHandleW.argtypes = [ctypes.c_wchar_p]
    kernel.VirtualProtect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p]
    kernel.GetFileSizeEx.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    slot = _slot_of(kernel.GetModuleHandleW(path), _FUNCTION)
    prototype = ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)
    original = prototype(_u64(slot))

    def answer(handle: int, kind: int, buffer: int, size: int) -> int:
        if kind != _FILE_COMPRESSION_INFO:
            return int(original(handle, kind, buffer, size))
        ctypes.memset(buffer, 0, _COMPRESSION_INFO_BYTES)
        return int(kernel.GetFileSizeEx(handle, buffer))

    callback = prototype(answer)
    _callbacks.append((callback, original))
    before = ctypes.c_uint32()
    kernel.VirtualProtect(slot, 8, _PAGE_READWRITE, ctypes.byref(before))
    ctypes.c_uint64.from_address(slot).value = ctypes.cast(callback, ctypes.c_void_p).value


class _AfterTheExtension(importlib.abc.MetaPathFinder):
    """Replaces the function as soon as the extension is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _EXTENSION:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_replace(module: Any) -> None:
            execute(module)
            _answer_compression(module.__file__)

        spec.loader.exec_module = execute_and_replace  # type: ignore[method-assign]
        return spec


if is_wine():
    sys.meta_path.insert(0, _AfterTheExtension())
    if sys.version_info >= (3, 12):
        sys.modules["_wmi"] = None  # type: ignore[assignment]
    if sys.version_info >= (3, 13):
        import _winapi

        if hasattr(_winapi, "CopyFile2"):
            del _winapi.CopyFile2
