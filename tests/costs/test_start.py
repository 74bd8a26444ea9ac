"""What a start takes, in things that can be counted: programs started, modules imported.

A module costs a third of a millisecond to a few, in each program that imports it (decision 0011). Who exceeds a bound
has made every start slower: import it where it is needed, or say here what it is worth.
"""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from scaler import SchedulerClusterCombo
from scaler.cluster.warm import can_start_warm
from tests.support.processes import WAIT, until

IN_NONE = {
    "aiohttp",
    "argcomplete",
    "difflib",
    "email",
    "http",
    "multiprocessing",
    "numpy",
    "prometheus_client",
    "tomllib",
}
NOT_WITH_THE_CLIENT = {*IN_NONE, "asyncio", "capnp", "html", "ssl"}
"""Most of it comes with the first message, and while a cluster is being started."""


OWN_BYTES = 4 << 20
"""Of an interpreter that has imported nothing, 2.8 MiB, and room for other Pythons. The warm process had 5.4."""


def imported_by(statement: str) -> set[str]:
    return printed_by(f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))")


def printed_by(program: str) -> set[str]:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=True)
    return set(ended.stdout.split())


RECORDS = """
import dataclasses, sys, {module}
ours = [module for name, module in sys.modules.items() if name.startswith("scaler")]
classes = {{value for module in ours for value in vars(module).values() if isinstance(value, type)}}
made = [one for one in classes if dataclasses.is_dataclass(one) and not hasattr(one.__init__, "is_late")]
print(*(one.__name__ for one in made))
"""
PLANS = """
from scaler_protocol.codec.registry import registry
print(*(member.name for member in registry().by_record.values() if "plan" in vars(member)))
"""


def expect_own(bound: int, modules: set[str]) -> None:
    """What was counted, and two: these are the same in all Pythons. Without a bound of their own, modules came one by
    one until a start had half as many again."""
    own = [module for module in modules if module.startswith("scaler")]
    assert len(own) <= bound, f"{len(own)} modules of ours, where {bound} were counted"


@pytest.mark.parametrize(
    ("statement", "counted", "own"),
    (
        ("import scaler", 172, 46),
        ("from scaler import Client", 312, 191),
        ("from scaler import Client, SchedulerClusterCombo", 314, 201),
        ("import scaler.top.__main__", 248, 114),
    ),
)
def test_a_client(statement: str, counted: int, own: int) -> None:
    """The package loads its names when they are used. One module looks for an earlier Scaler beside this one, by a
    single listing of a directory; one has the names that other libraries use; one releases what an interrupted call has
    stored, one bounds how long a result is fetched, one ends calls that wait for futures, two tell what an interrupt
    raises from what a value raises, and one asks the scheduler about tasks. Three have how definitions of a program
    travel, one counts functions that are serialized again and again, and seven were split off."""
    modules = imported_by(statement)
    assert not modules & NOT_WITH_THE_CLIENT
    assert len(modules) <= counted * 1.1
    expect_own(own, modules)


@pytest.mark.parametrize(
    ("module", "counted", "own"),
    (("scaler_storage", 283, 140), ("scaler_scheduler", 358, 213), ("scaler_worker", 331, 180)),
)
def test_a_role(module: str, counted: int, own: int) -> None:
    """And a tenth: Pythons differ in what their own modules import. Of the scheduler's, nine are small ones that were
    split off, or that bound what peers may make it keep: about a millisecond in all. Of the storage's, five decide what
    leaves memory for the disk, and two try its fence, for which there may be no file later; of the scheduler's, five
    take over from a predecessor, two share workers among programs, one has the locks that interrupts leave free, one
    tells of queues in parts, one keeps how graphs ended, one counts what becomes of each function, three ask for stacks
    and samples of them, one does what operators ask for, two tell events of the storage and of the log, two tell how
    tasks ended within the bytes of a message, one logs sessions, one keeps when tasks were ready and dispatched, and
    one tells of graphs in parts. Of the worker's, two replace processors and read their memory, one counts how long
    tasks run, one gives tasks their GPUs, and five tell where a task is in its code, or where its time goes: a signal
    handler imports nothing. Four read definitions and names of main programs, and one finds what calls can share; five
    start, give back and bound. One has the logging of tasks. Two bound what a server has not read, and one starts
    commands that import nothing from where they are started. One, of each server, logs which Hellos it has admitted and
    refused: a refusal must not wait for an import. Nine of the scheduler's are the folders of its core, and five hold
    what stood with something else in one file."""
    modules = imported_by(f"import {module}.__main__")
    assert not modules & IN_NONE
    assert len(modules) <= counted * 1.1
    expect_own(own, modules)


@pytest.mark.parametrize(
    "statement",
    (
        "from scaler_storage.config import parse; parse(['tcp://127.0.0.1:1'])",
        "from scaler_scheduler.config import parse; parse(['tcp://127.0.0.1:1'])",
        "from scaler_worker.config import parse_arguments; parse_arguments(['-n', '1', 'tcp://127.0.0.1:1'])",
        "from scaler_protocol.keys.places import runtime_directories; runtime_directories({})",
    ),
)
def test_no_compressors_for_command_lines_and_places_of_keys(statement: str) -> None:
    """`shutil` and `tempfile` bring them: 5 ms and more for each process."""
    assert not imported_by(statement) & {"bz2", "lzma", "shutil", "tempfile"}


@pytest.mark.parametrize(
    ("module", "counted"),
    (
        ("scaler.client.client, scaler.cluster.combo", 6),
        ("scaler_storage.__main__", 7),
        ("scaler_scheduler.__main__", 8),
        ("scaler_worker.__main__", 5),
    ),
)
def test_records_are_not_compiled_when_they_are_imported(module: str, counted: int) -> None:
    """Of a hundred classes in each. Those that users inspect are whole, and those of constants (decision 0017)."""
    made = printed_by(RECORDS.format(module=module))
    assert len(made) <= counted, f"another standard dataclass, or a constant of a class that had none: {made}"


def test_no_plan_is_made_before_its_message_comes() -> None:
    assert not printed_by(PLANS)


@pytest.mark.skipif(not can_start_warm(), reason="needs Linux 5.3")
def test_a_cluster_starts_one_program() -> None:
    """Processes that were forked from one program have its stack where it had it; another program has another one.
    The warm process itself has left its memory by then, or is about to."""
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING"):
        until(lambda: len(family()) == 10, "warm process, three parts; agent, zygote and processor of each worker run")
        (warm,) = psutil.Process().children()
        assert len({stack_of(child.pid) for child in warm.children(recursive=True)}) == 1
        until(lambda: "burying" in " ".join(warm.cmdline()), "the warm process leaves its memory")
        assert warm.memory_full_info().uss < OWN_BYTES


def family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def stack_of(process_id: int) -> int:
    with open(f"/proc/{process_id}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[25])
