"""Why a function, an argument or a result could not be made of its bytes, and what its reader can do (WRK-4)."""

from __future__ import annotations

_OF_WINDOWS = frozenset(("nt", "ntpath", "_winapi", "winreg", "msvcrt", "_wmi"))


def reason_of(error: Exception) -> str:
    """Why bytes could not be read, and what to do."""
    reason = f"{type(error).__name__}: {error}"
    top = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if top in _OF_WINDOWS or "WindowsPath" in str(error):
        return (
            f"{reason}. It names what only Windows has, as os.getpid and pathlib.Path do there: call it in a function "
            "of your own, and pass paths as text"
        )
    if top:
        return (
            f"{reason}. Send {top} if it is your own, Client(..., code=[...]) with its file or directory; if it is a "
            "package, install it where it is to be read, or Client(..., requirements=[...])"
        )
    return reason
