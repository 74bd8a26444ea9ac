"""Plain pickle in a task finds what the task has of the main program, and refuses it to other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import concurrent.futures, dataclasses, multiprocessing, pickle, shelve, sys
import scaler

@dataclasses.dataclass
class Item:
    n: int = 3
    class Inner: pass

class OnlyArgument:
    n = 4

def own(x): return x + 1
def round_trip(value): return pickle.loads(pickle.dumps(value))
def argument(value): return round_trip(value).n
def by_global(): return round_trip([Item(5), Item.Inner])[0].n
def functions(): return round_trip(own)(1), round_trip(functions).__name__
def shelved(place):
    with shelve.open(place) as found:
        found["a"] = Item(9)
    with shelve.open(place) as found:
        return found["a"].n
def pooled(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(own, range(2))
def executor():
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        return list(pool.map(own, range(2)))
def after_a_pool():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(abs, range(2))
        pool.close()
        pool.join()
    return by_global()
def absent(): return pickle.loads(b"c__main__\\nAbsent\\n.")
def without_file(): return hasattr(sys.modules["__main__"], "__file__")

with scaler.local(workers=1) as client:
    for call in ((argument, OnlyArgument()), (by_global,), (functions,), (shelved, sys.argv[1]), (pooled, "fork"),
                 (pooled, "spawn"), (executor,), (after_a_pool,), (absent,), (without_file,)):
        try:
            print(client.submit(*call).result(60))
        except Exception as error:
            print(type(error).__name__, *getattr(error, "__notes__", [str(error)]))
"""


def test_pickle_finds_the_names_of_the_main_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(program), str(tmp_path / "shelf")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[:4] + told[7:8] + told[9:] == ["4", "5", "(2, 'functions')", "9", "5", "False"]
    for line in told[4:7]:
        assert line.startswith("PicklingError ")
        if sys.version_info >= (3, 11):  # before, exceptions have no notes: the advice is in their traceback only
            assert "do not know own of the main program. Define it in a module" in line
    assert told[8].startswith("AttributeError Can't get attribute 'Absent' on <module '__main__'")
