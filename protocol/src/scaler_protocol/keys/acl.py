"""Who may read or write a file on Windows: its access control list, made and judged. (SEC-7)

Windows writes such a list as text (SDDL). The text is judged here, so that this is tested on every system. The calls of
the system that read and set a list are at the end.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

#: kind, flags, rights, two identifiers of objects, trustee, and perhaps a condition, which has brackets of its own
_ENTRY = re.compile(r"\(([A-Z]+;[^()]*)")
_ALLOWING = frozenset(("A", "OA", "XA"))
_INHERITED_ONLY = "IO"  #: about what is in a directory, and not about the file itself
_EVERYBODY = "WD"
#: SYSTEM, administrators, the owner of the file: who reads everything all the same, as root does elsewhere
_TRUSTED = frozenset(("SY", "S-1-5-18", "BA", "S-1-5-32-544", "OW", "S-1-3-4"))
#: rights by letters with which a file can be read or written, or taken: all, read, write, its list, its owner
_OPENING = frozenset(("FA", "FR", "FW", "GA", "GR", "GW", "KA", "WD", "WO", "CC", "DC", "LC"))
#: the same as bits: read, write and append data, its list, its owner, generic all, write and read
_OPENING_BITS = 0x1 | 0x2 | 0x4 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000 | 0x80000000


def private_list(user: str) -> str:
    """The list of a file for this user alone, and those who read everything; nothing is inherited."""
    return f"D:P(A;;FA;;;{user})(A;;FA;;;SY)(A;;FA;;;BA)"


def others_in(text: str, user: str) -> list[str]:
    """Who else than this user owns a file with this list, or can read or write it, as the system names them."""
    head, mark, entries = text.partition("D:")
    if not mark or entries.startswith("NO_ACCESS_CONTROL"):
        return [_EVERYBODY]  # a file without a list
    owner = head.partition("O:")[2].partition("G:")[0]
    allowed = [owner] if owner else []
    for entry in _ENTRY.findall(entries):
        kind, flags, rights, _, _, trustee, *_ = entry.split(";")
        if kind in _ALLOWING and _INHERITED_ONLY not in _pairs(flags) and _opens(rights):
            allowed.append(trustee)
    return [one for one in dict.fromkeys(allowed) if one not in {user, *_TRUSTED}]


def _opens(rights: str) -> bool:
    if rights[:2].lower() == "0x" or rights.isdecimal():
        return bool(int(rights, 0) & _OPENING_BITS)
    return not _OPENING.isdisjoint(_pairs(rights))


def _pairs(letters: str) -> list[str]:
    return [letters[at : at + 2] for at in range(0, len(letters), 2)]


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _OWNER, _LIST, _PROTECTED = 1, 4, 0x80000000
    _FILE_OBJECT, _REVISION, _TOKEN_QUERY, _TOKEN_USER = 1, 1, 8, 1
    _IDENTIFIER_BYTES = 256

    @cache
    def _calls() -> tuple[Any, Any]:
        """advapi32 and kernel32, with the types of what is called here: handles and pointers have 64 bits."""
        advapi, kernel = ctypes.WinDLL("advapi32", use_last_error=True), ctypes.WinDLL("kernel32", use_last_error=True)
        pointer, out, handle, number = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), wintypes.HANDLE, wintypes.DWORD
        text = wintypes.LPCWSTR
        kernel.GetCurrentProcess.restype = handle
        kernel.CloseHandle.argtypes = [handle]
        kernel.LocalFree.argtypes = [pointer]
        advapi.OpenProcessToken.argtypes = [handle, number, ctypes.POINTER(handle)]
        advapi.GetTokenInformation.argtypes = [handle, ctypes.c_int, pointer, number, ctypes.POINTER(number)]
        advapi.ConvertSidToStringSidW.argtypes = [pointer, out]
        advapi.GetSecurityInfo.argtypes = [handle, ctypes.c_int, number, out, out, out, out, out]
        advapi.GetSecurityInfo.restype = number
        advapi.SetFileSecurityW.argtypes = [text, number, pointer]
        advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW.argtypes = [text, number, out, pointer]
        advapi.ConvertSecurityDescriptorToStringSecurityDescriptorW.argtypes = [pointer, number, number, out, pointer]
        return advapi, kernel

    def _check(is_done: int) -> None:
        if not is_done:
            raise ctypes.WinError(ctypes.get_last_error())

    def _free(pointer: ctypes.c_void_p) -> None:
        _calls()[1].LocalFree(pointer)

    def _text_at(pointer: ctypes.c_void_p) -> str:
        try:
            return ctypes.wstring_at(pointer.value or 0)
        finally:
            _free(pointer)

    def _described(descriptor: ctypes.c_void_p, what: int) -> str:
        text = ctypes.c_void_p()
        convert = _calls()[0].ConvertSecurityDescriptorToStringSecurityDescriptorW
        _check(convert(descriptor, _REVISION, what, ctypes.byref(text), None))
        return _text_at(text)

    def _parsed(text: str) -> ctypes.c_void_p:
        """To be freed."""
        descriptor = ctypes.c_void_p()
        convert = _calls()[0].ConvertStringSecurityDescriptorToSecurityDescriptorW
        _check(convert(text, _REVISION, ctypes.byref(descriptor), None))
        return descriptor

    def _user() -> str:
        """The security identifier of this process's account."""
        advapi, kernel = _calls()
        token = wintypes.HANDLE()
        _check(advapi.OpenProcessToken(kernel.GetCurrentProcess(), _TOKEN_QUERY, ctypes.byref(token)))
        try:
            held = ctypes.create_string_buffer(_IDENTIFIER_BYTES)
            size = wintypes.DWORD()
            _check(advapi.GetTokenInformation(token, _TOKEN_USER, held, len(held), ctypes.byref(size)))
            text = ctypes.c_void_p()
            _check(advapi.ConvertSidToStringSidW(ctypes.c_void_p.from_buffer(held), ctypes.byref(text)))
            return _text_at(text)
        finally:
            kernel.CloseHandle(token)

    def keep_private(path: str) -> None:
        """For the user of this process alone. OSError if the file system keeps no such list."""
        descriptor = _parsed(private_list(_user()))
        try:
            _check(_calls()[0].SetFileSecurityW(path, _LIST | _PROTECTED, descriptor))
        finally:
            _free(descriptor)

    def others(file: int) -> list[str]:
        """Who else can read or write the file of this descriptor. OSError if the system does not say."""
        import msvcrt

        descriptor = ctypes.c_void_p()
        handle, given = msvcrt.get_osfhandle(file), ctypes.byref(descriptor)
        code = _calls()[0].GetSecurityInfo(handle, _FILE_OBJECT, _OWNER | _LIST, None, None, None, None, given)
        if code:
            raise ctypes.WinError(code)
        try:
            text = _described(descriptor, _OWNER | _LIST)
        finally:
            _free(descriptor)
        own = _parsed(f"O:{_user()}")  # such texts may have a short name for it
        try:
            return others_in(text, _described(own, _OWNER).removeprefix("O:"))
        finally:
            _free(own)
