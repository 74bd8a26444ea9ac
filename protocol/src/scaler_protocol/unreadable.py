"""Why a function, an argument or a result could not be made of its bytes, and what its reader can do (WRK-4).

The same advice is given for a task whose own `import` finds no module.
"""

from __future__ import annotations

import pickle
import re
import sys

_NOT_IN_MAIN = re.compile(r"get attribute '([\w.]+)' on <module '(?:\w+\.)*__main__'")
_NOT_LOOKED_UP = re.compile(r"lookup ([\w.]+) on __main__ failed|not found as __main__\.([\w.]+)")
_NO_ATTRIBUTE = re.compile(r"module '(?:\w+\.)*__main__' has no attribute '([\w.]+)'")
_OF_WINDOWS = frozenset(("nt", "ntpath", "_winapi", "winreg", "msvcrt", "_wmi"))


def reason_of(error: BaseException) -> str:
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
    name = _NOT_IN_MAIN.search(str(error)) or _NO_ATTRIBUTE.search(str(error))
    if name is not None:
        return (
            f"{reason}. It was sent as a name of the program's main module, which is not here: define {name[1]} in a "
            "module of its own, and send that with Client(..., code=[...])"
        )
    return reason


def import_hint(error: BaseException) -> str:
    """Returns how a task gets the module that its `import` did not find, or how it pickles what is of the main program.
    Returns an empty text for other errors, for modules of the standard library, and for a missing part of a package
    that is there."""
    if isinstance(error, pickle.PicklingError):
        name = _NOT_LOOKED_UP.search(str(error))
        return "" if name is None else _how_to_pickle(name[1] or name[2])
    if type(error) is not ModuleNotFoundError:
        return ""
    top = (error.name or "").partition(".")[0]
    if not top or top in sys.stdlib_module_names or top in sys.modules:
        return ""
    return f"The worker does not have this module. {_how_to_send(top, 'on the workers')}."


def _how_to_pickle(name: str) -> str:
    return (
        f"Processes that a task starts do not know {name} of the main program. Define it in a module of its own, and "
        "send that with Client(..., code=[...]); or submit nested tasks instead of starting a process pool."
    )


def _how_to_send(module: str, where: str) -> str:
    return (
        f"Send {module} if it is your own, Client(..., code=[...]) with its file or directory; if it is a package, "
        f"install it {where}, or Client(..., requirements=[...])"
    )
