"""Scheduler, storage, and all that only watches or starts workers never unpickle: they do not even load the modules, so
no message can make them. (SEC-3)"""

import subprocess
import sys

import pytest

from tests.architecture.sources import PARTS, imports, modules

#: They watch, or start processes: packages, without the modules of the same dist that run calls.
ONLOOKERS = (
    *("scaler", "scaler.dump", "scaler.explain", "scaler.monitoring", "scaler.top", "scaler.trace", "scaler.ui"),
    *("scaler_worker.adapter", "scaler_worker.manager", "scaler_protocol.health"),
)
UNPICKLERS = ("pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal")

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
before = set(sys.modules)
is_whole = sys.argv[1] != "scaler"
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".") if is_whole else ():
    importlib.import_module(module.name)
print(" ".join(sorted(set(sys.modules) - before)))
"""

#: Blocks the standard pickle too. asyncio's and zmq's own imports of it are answered with an empty module, which shows
#: that nothing of ours needs it.
WITHOUT_PICKLE = """
import sys, types
class NoPickle(types.ModuleType):
    def __getattr__(self, name):
        if name in ("loads", "load", "Unpickler", "dumps", "dump", "Pickler"):
            def refuse(*args, **kwargs):
                raise AssertionError(f"pickle.{name} was called")
            return refuse
        if name in ("PickleError", "PicklingError", "UnpicklingError"):
            return Exception
        if name in ("HIGHEST_PROTOCOL", "DEFAULT_PROTOCOL"):
            return 5
        raise AttributeError(name)
sys.modules["pickle"] = NoPickle("pickle")
"""


@pytest.mark.parametrize("name", ["scheduler", "storage"])
def test_no_module_of_the_role_imports_an_unpickler(name: str) -> None:
    wrong = [found for path in modules(PARTS[name]) for found in imports(path) if found.top in UNPICKLERS]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("name", ["scheduler", "storage"])
def test_the_role_loads_no_cloudpickle_and_no_values(name: str) -> None:
    loaded = run(IMPORT_EVERYTHING, PARTS[name].package).split()
    assert PARTS[name].package + ".core" in loaded
    assert not {"cloudpickle", "dill", "scaler_protocol.values", "scaler"} & set(loaded)


@pytest.mark.parametrize("package", ONLOOKERS)
def test_what_only_watches_or_starts_workers_loads_no_cloudpickle_and_no_values(package: str) -> None:
    if package in ("scaler.ui", "scaler_worker.adapter"):
        pytest.importorskip("aiohttp", reason="the page and the adapter need their extras")
    loaded = run(IMPORT_EVERYTHING, package).split()
    assert package in loaded
    assert not {"cloudpickle", "dill", "scaler_protocol.values"} & set(loaded)


@pytest.mark.parametrize("name", ["scheduler", "storage"])
def test_the_role_imports_with_pickle_taken_away(name: str) -> None:
    assert run(WITHOUT_PICKLE + IMPORT_EVERYTHING, PARTS[name].package)


def run(program: str, package: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program, package], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
