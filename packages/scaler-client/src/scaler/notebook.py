"""The notebook's own commands: `%load_ext scaler`, then

%scaler local 4                  a cluster on this machine, and its client as `client`; with --ui also the page
%scaler connect tcp://…:2345     a client of a cluster that runs, with --key-file FILE or --insecure if need be
%scaler                          how the cluster stands
%scaler top                      the same as scaler_top shows it, once
%scaler stop                     disconnect

%%scaler
the cell runs as one task: it takes the names that it uses from the notebook and gives back those that it assigns;
what it prints appears below it while it runs, and the value of its last expression is shown
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import MagicArgumentParser

from scaler.client.client import Client
from scaler.cluster.local import local
from scaler.monitoring import MonitorError, Subscription
from scaler.top.report import as_text
from scaler.utility.cells import names_used, run_cell

CLIENT = "client"
"""The name of the client in the notebook."""
_HOW = "no cluster yet: %scaler local [WORKERS], or %scaler connect ADDRESS"


@magics_class
class ScalerMagics(Magics):
    @line_cell_magic
    def scaler(self, line: str, cell: str | None = None) -> Any:
        """%scaler [local [N] [--ui] | connect ADDRESS [--key-file FILE] [--insecure] | top | stop], or
        %%scaler before a cell."""
        return self._run_cell(line, cell) if cell is not None else self._command(shlex.split(line, comments=True))

    @property
    def _shell(self) -> Any:
        assert self.shell is not None, "a shell has registered these magics"
        return self.shell

    @property
    def _names(self) -> dict[str, Any]:
        """The notebook's variables."""
        found: dict[str, Any] = self._shell.user_ns
        return found

    # ------------------------------------------------------------ %scaler

    def _command(self, words: list[str]) -> Any:
        name, *rest = words or ["status"]
        commands = {"local": self._local, "connect": self._connect, "status": self._status, "top": self._top,
                    "stop": self._stop}  # fmt: skip
        if name not in commands:
            raise UsageError(f"%scaler {name}: there is no such command; there are {', '.join(commands)}")
        return commands[name](rest)

    def _local(self, words: list[str]) -> Client:
        numbers = [word for word in words if word != "--ui"]
        if len(numbers) > 1 or not all(word.isdigit() for word in numbers):
            raise UsageError("%scaler local [WORKERS] [--ui]: the number of workers is a whole number")
        return self._take(local(*map(int, numbers), stream_output=True, ui="--ui" in words))

    def _connect(self, words: list[str]) -> Client:
        parser = _parser("%scaler connect")
        parser.add_argument("address")
        parser.add_argument("--key-file")
        parser.add_argument("--insecure", action="store_true")
        given = parser.parse_args(words)
        client = Client(given.address, key_file=given.key_file, insecure=given.insecure, stream_output=True)
        return self._take(client)

    def _take(self, client: Client) -> Client:
        """A cell that runs again replaces the client of before."""
        previous = self._names.get(CLIENT)
        self._names[CLIENT] = client
        if isinstance(previous, Client):
            previous.disconnect()
        return client

    def _stop(self, words: list[str]) -> None:
        self._client().disconnect()

    def _status(self, words: list[str]) -> Client:
        return self._client()

    def _top(self, words: list[str]) -> None:
        client = self._client()
        try:
            with Subscription(client._address, keys=client._keys) as subscription:
                print(as_text(subscription.first()))
        except MonitorError as error:
            raise UsageError(str(error)) from None

    def _client(self) -> Client:
        client = self._names.get(CLIENT)
        if not isinstance(client, Client):
            raise UsageError(_HOW)
        return client

    # ------------------------------------------------------------ %%scaler

    def _run_cell(self, line: str, cell: str) -> Any:
        options = _cell_options().parse_args(shlex.split(line, comments=True))
        client = self._client()
        source = self._shell.transform_cell(cell)
        inputs = {name: self._names[name] for name in names_used(source) if name in self._names}
        wanted = options.output.split(",") if options.output else None
        future = client.submit_verbose(
            run_cell, (source, inputs, wanted), {}, capabilities=_capabilities(options.capabilities),
            timeout=options.timeout,
        )  # fmt: skip
        try:
            assigned, value = future.result()
        except BaseException:
            future.cancel()  # after an interrupt the notebook does not wait for it
            raise
        self._names.update(assigned)
        return value


def _parser(name: str) -> argparse.ArgumentParser:
    """One that raises UsageError, which a notebook shows as a sentence."""
    make: Any = MagicArgumentParser
    parser: argparse.ArgumentParser = make(name, add_help=False)
    return parser


def _cell_options() -> argparse.ArgumentParser:
    parser = _parser("%%scaler")
    parser.add_argument("-o", "--output", help="the names to give back, with commas between (default: all it assigns)")
    parser.add_argument("-c", "--capabilities", default="", help="what it needs of its worker, such as gpu=1")
    parser.add_argument("-t", "--timeout", type=float, help="seconds that it may run")
    return parser


def _capabilities(text: str) -> dict[str, int]:
    found = {}
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        if amount and not amount.isdigit():
            raise UsageError(f"%%scaler -c {text}: the amount of {name} is a whole number")
        found[name] = int(amount) if amount else -1
    return found
