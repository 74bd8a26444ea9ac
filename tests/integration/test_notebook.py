"""`%load_ext scaler` in a real kernel: clusters, cells as tasks, their output, interrupts and a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until


class Notebook:
    """One kernel. A cell gives what is shown below it."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel()
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT)
        self.told: list[str] = []  #: what the last cell wrote to stderr, where a bar goes

    def run(self, source: str, on_output: Any = None, on_told: Any = None) -> str:
        shown: list[str] = []
        self.told.clear()

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            kind = message["header"]["msg_type"]
            if kind == "stream" and content["name"] == "stdout":
                shown.append(content["text"])
                if on_output is not None:
                    on_output(content["text"])
            elif kind == "stream":
                self.told.append(content["text"])
                if "UsageError" in content["text"]:
                    shown.append(content["text"])
                elif on_told is not None:
                    on_told(content["text"])
            elif kind in ("execute_result", "display_data"):
                shown.append(content["data"]["text/plain"])
            elif kind == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")

        self.client.execute_interactive(source, output_hook=take, timeout=WAIT)
        return "\n".join(shown)

    def interrupt_at(self, wanted: str) -> Callable[[str], None]:
        """Once: a second interrupt would hit what shows the first."""
        awaited = [wanted]

        def interrupt(text: str) -> None:
            if awaited and wanted in text:
                awaited.clear()
                self.manager.interrupt_kernel()

        return interrupt

    def bars(self, description: str) -> list[str]:
        """The lines of the last cell that show this bar, as they stand in the end. A bar that is drawn below others
        moves the cursor down."""
        text = "".join(self.told)
        assert "\x1b[A" not in text, "a bar was drawn below one that is left over"
        lines = [line.split("\r")[-1] for line in text.split("\n")]
        return [line for line in lines if line.startswith(f"{description}:")]

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    assert notebook.run("%load_ext scaler") == ""
    yield notebook
    notebook.close()


@pytest.fixture(scope="module")
def address(module_stage: Stage) -> str:
    return RealCluster(module_stage, 1).address


@pytest.fixture
def connected(notebook: Notebook, address: str) -> Notebook:
    assert f"Client of {address}" in notebook.run(f"%scaler connect {address}")
    return notebook


def test_without_a_cluster_it_says_what_to_do(notebook: Notebook) -> None:
    notebook.run("client = None")
    for source in ("%scaler", "%scaler top", "%scaler stop", "%%scaler\n1 + 1"):
        assert "no cluster yet: %scaler local [WORKERS], or %scaler connect ADDRESS" in notebook.run(source)
    assert "there is no such command" in notebook.run("%scaler start")
    assert "whole number" in notebook.run("%scaler local many")
    assert "required: address" in notebook.run("%scaler connect")


def test_it_connects_to_a_cluster_without_keys(notebook: Notebook, stage: Stage) -> None:
    cluster = RealCluster(stage, 1, insecure=True)
    assert f"Client of {cluster.address}" in notebook.run(f"%scaler connect {cluster.address} --insecure")
    assert notebook.run("%%scaler\n1 + 1") == "2"
    assert "task_manager" in notebook.run("%scaler top")
    notebook.run("%scaler stop")


def test_a_cell_takes_names_and_gives_names(connected: Notebook) -> None:
    connected.run("start = 40\ndef more(number):\n    return number + start")
    assert connected.run("%%scaler\nimport os\nworker = os.getpid()\nfound = more(2)\nfound") == "42"
    assert connected.run("import os\nfound, worker != os.getpid()") == "(42, True)"
    assert connected.run("%%scaler -o kept\nkept, dropped = 1, 2\n") == ""
    assert "NameError" in connected.run("dropped") and connected.run("kept") == "1"
    assert connected.run("%%scaler\nclass Point:\n    x = 3\n[Point.x for _ in range(2)]") == "[3, 3]"
    assert connected.run("Point().x") == "3"
    assert connected.run("%%scaler\nsum(client.map(abs, range(-3, 0)))") == "6", "tasks of its own"


def test_what_it_prints_is_seen_below_the_cell_while_it_runs(connected: Notebook, tmp_path: Any) -> None:
    go_on = tmp_path / "go on"
    source = f"""%%scaler
from tests.support.tasks import wait_for_file
print("begins", flush=True)
wait_for_file({str(go_on)!r})
print("ends")
"""
    shown = connected.run(source, on_output=lambda text: go_on.touch() if "begins" in text else None)
    assert "begins" in shown and "ends" in shown


def test_errors_are_those_of_the_cell(connected: Notebook) -> None:
    assert connected.run("%%scaler\n1 / 0") == "ZeroDivisionError: division by zero"
    assert "SyntaxError" in connected.run("%%scaler\n1 +")
    told = connected.run("%%scaler\nimport threading\nlock = threading.Lock()")
    assert told.startswith("CellError: 'lock' cannot be given back") and "-o NAMES" in told
    assert connected.run("%%scaler -o missing\n1") == "CellError: the cell assigns no missing"
    assert "TaskTimeoutError" in connected.run("%%scaler -t 0.1\nimport time\ntime.sleep(60)")
    assert "whole number" in connected.run("%%scaler -c gpu=x\n1")


def test_an_interrupt_ends_the_cell_and_its_task(connected: Notebook) -> None:
    source = "%%scaler\nimport time\nprint('runs', flush=True)\ntime.sleep(600)"
    shown = connected.run(source, on_output=lambda text: connected.manager.interrupt_kernel())
    assert "KeyboardInterrupt" in shown
    until(lambda: connected.run("client.cluster_info().task_counts['dispatched']") == "0", "its task has ended")
    assert connected.run("%%scaler\n1 + 1") == "2"


PROGRESS = """import scaler
from tests.support.tasks import wait_for_file
futures = futures or [client.submit(abs, -1)] + [client.submit(wait_for_file, {path!r}) for _ in range(3)]
print(len([future.result() for future in scaler.progress(futures, "waits")]), "results")
"""


def test_a_bar_of_a_cell_that_is_interrupted_and_run_again(connected: Notebook, tmp_path: Any) -> None:
    """The futures of the first run are good still, and there is one bar, which shows all of them."""
    go_on = tmp_path / "go on"
    connected.run("futures = None")
    cell = PROGRESS.format(path=str(go_on))
    for _ in range(2):
        shown = connected.run(cell, on_told=connected.interrupt_at("0/4"))
        assert "KeyboardInterrupt" in shown and "results" not in shown
    go_on.touch()
    assert connected.run(cell).strip() == "4 results"
    (bar,) = connected.bars("waits")
    assert "100%" in bar and "4/4" in bar


def test_the_bar_of_a_map_that_is_interrupted_and_run_again(connected: Notebook, tmp_path: Any) -> None:
    """The map cancels its tasks, so the second run begins at 0."""
    go_on = tmp_path / "go on"
    cell = f"""from tests.support.tasks import wait_for_file
print(len(client.map(wait_for_file, [{str(go_on)!r}] * 3, progress="maps")), "results")
"""
    shown = connected.run(cell, on_told=connected.interrupt_at("0/3"))
    assert "KeyboardInterrupt" in shown
    go_on.touch()
    assert connected.run(cell).strip() == "3 results"
    (bar,) = connected.bars("maps")
    assert "100%" in bar and "3/3" in bar


def test_a_cell_as_a_task_that_is_interrupted_and_run_again(connected: Notebook, tmp_path: Any) -> None:
    """What the first run had printed is not shown again, and all that the second prints is, the bar in it too. The
    notebook does not wait for the end of what was interrupted, so the first run waits for what never comes: else it
    could go on, and print, before it is ended."""
    go_on = tmp_path / "go on"
    go_on.touch()
    connected.run(f"awaited = {str(tmp_path / 'never')!r}")
    source = """%%scaler
from tests.support.tasks import wait_for_file
import scaler
print("begins", flush=True)
wait_for_file(awaited)
doubled = [future.result() for future in scaler.progress([client.submit(abs, -value) for value in range(3)], "inner")]
print("ends")
doubled
"""
    shown = connected.run(source, on_output=connected.interrupt_at("begins"))
    assert "KeyboardInterrupt" in shown and "ends" not in shown
    connected.run(f"awaited = {str(go_on)!r}")
    shown = connected.run(source)
    assert shown.count("begins") == shown.count("ends") == 1 and shown.endswith("[0, 1, 2]")
    (bar,) = connected.bars("inner")
    assert "100%" in bar and "3/3" in bar
    assert connected.run("doubled") == "[0, 1, 2]"


def test_a_cell_with_a_bar_runs_in_a_restarted_kernel(connected: Notebook, address: str, tmp_path: Any) -> None:
    """The kernel is killed while the bar is shown: its tasks are canceled, and the cell runs in the new kernel."""
    go_on = tmp_path / "go on"
    cell = PROGRESS.format(path=str(go_on))
    connected.run("futures = None")
    connected.run(cell, on_told=connected.interrupt_at("0/4"))
    connected.manager.restart_kernel(now=True)
    connected.client.wait_for_ready(timeout=WAIT)
    go_on.touch()
    assert connected.run("%load_ext scaler\nfutures = None") == ""
    connected.run(f"%scaler connect {address}")
    assert connected.run(cell).strip() == "4 results"
    (bar,) = connected.bars("waits")
    assert "4/4" in bar


ONCE = """
import contextlib, io, os, sys, threading
class Shown(io.StringIO):
    is_whole = threading.Event()
    def write(self, text):
        count = super().write(text)
        if "after all" in self.getvalue():
            self.is_whole.set()
        return count
def say():
    import logging
    print("as output")
    print("as an error", file=sys.stderr)
    logging.warning("as a record")
    os.write(1, b"after all\\n")  # past Python's streams, so it comes behind all that the worker has written itself
shown = Shown()
with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
    client.submit(say).result()
    shown.is_whole.wait(60)
{text: shown.getvalue().count(text) for text in ("as output", "as an error", "as a record", "after all")}
"""


def test_what_a_task_prints_is_shown_once(notebook: Notebook) -> None:
    assert "Client of tcp://127.0.0.1" in notebook.run("%scaler local 1")
    once = "{'as output': 1, 'as an error': 1, 'as a record': 1, 'after all': 1}"
    assert notebook.run(ONCE) == once
    notebook.run("client.disconnect(); import scaler; client = scaler.local(1)")
    assert notebook.run(ONCE) == once, "without streaming, what the worker has written is shown"
    notebook.run("%scaler stop")


def test_a_local_cluster_may_have_the_page(notebook: Notebook) -> None:
    pytest.importorskip("aiohttp")
    assert "Client of tcp://127.0.0.1" in notebook.run("%scaler local 1 --ui")
    assert "http://127.0.0.1:" in notebook.run("client.dashboard_link")
    notebook.run("%scaler stop")


def test_a_restarted_kernel_leaves_nothing_behind(notebook: Notebook) -> None:
    assert "Client of tcp://127.0.0.1" in notebook.run("%scaler local 1")
    assert "task_manager" in notebook.run("%scaler top")
    kernel = psutil.Process(int(notebook.run("import os; os.getpid()")))
    processes = kernel.children(recursive=True)
    assert len(processes) >= 4
    notebook.manager.restart_kernel(now=True)
    notebook.client.wait_for_ready(timeout=WAIT)
    until(lambda: not any(process.is_running() for process in processes), "the cluster has ended with its kernel")
    assert notebook.run("%load_ext scaler") == ""
    assert "no cluster yet" in notebook.run("%scaler")
