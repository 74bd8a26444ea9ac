"""Why a function, an argument or a result could not be made of its bytes, and what its reader can do (WRK-4).

The same advice is given for a task whose own `import` finds no module.
"""

from __future__ import annotations

import sys

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
        return f"{reason}. {_how_to_send(top, 'where it is to be read')}"
    return reason


def import_hint(error: BaseException) -> str:
    """How a task gets the module that its `import` did not find. Empty for other errors, for modules of the standard
    library, and for a missing part of a package that is there."""
    if type(error) is not ModuleNotFoundError:
        return ""
    top = (error.name or "").partition(".")[0]
    if not top or top in sys.stdlib_module_names or top in sys.modules:
        return ""
    return f"The worker does not have this module. {_how_to_send(top, 'on the workers')}."


def _how_to_send(module: str, where: str) -> str:
    return (
        f"Send {module} if it is your own, Client(..., code=[...]) with its file or directory; if it is a package, "
        f"install it {where}, or Client(..., requirements=[...])"
    )
