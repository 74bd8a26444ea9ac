# PYTHON_ARGCOMPLETE_OK
"""The service half: what Symphony starts on its hosts, by the application profile, to run tasks.

`scaler_symphony_service` is a ServiceContainer as small as they come. A task's own errors are results like any other:
an exception that left `on_invoke` would make Symphony run the task again, or lose its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import resources
from typing import Any

import cloudpickle

from scaler_protocol.codes import FUNCTION_UNREADABLE
from scaler_protocol.messages import Limits
from scaler_protocol.process import ArgumentParser, run_command
from scaler_protocol.running.ends import failed_end
from scaler_protocol.running.errors import TaskFailed
from scaler_symphony import __version__
from scaler_symphony.soam import import_soamapi, payload_class

PROGRAM = "scaler_symphony_service"


def answer(payload: bytes) -> bytes:
    """What the service answers to a task."""
    try:
        function, *arguments = cloudpickle.loads(payload)
    except Exception as error:  # noqa: BLE001 - whatever reading raises, the task must end
        text = f"this host cannot read tasks: {type(error).__name__}: {error}; has it the adapter's version of Python?"
        reply: Any = (*failed_end(TaskFailed(FUNCTION_UNREADABLE, text), Limits().inline_bytes), b"", [])
    else:
        reply = function(*arguments)
    answered: bytes = cloudpickle.dumps(reply)
    return answered


def container_class(soamapi: Any) -> Any:
    payload = payload_class(soamapi)

    class ServiceContainer(soamapi.ServiceContainer):  # type: ignore[misc]
        def on_create_service(self, service_context: Any) -> None:
            return

        def on_session_enter(self, session_context: Any) -> None:
            return

        def on_invoke(self, task_context: Any) -> None:
            task = payload()
            task_context.populate_task_input(task)
            task_context.set_task_output(payload(answer(task.content)))

        def on_session_leave(self) -> None:
            return

        def on_destroy_service(self) -> None:
            return

    return ServiceContainer


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(arguments))


def parser() -> ArgumentParser:
    parser = ArgumentParser(PROGRAM, description="Runs tasks inside Symphony, which starts it; see the dist's README.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument(
        "--profile", action="store_true", help="print an application profile to begin from, for soamreg, and end"
    )
    return parser


def _run(arguments: Sequence[str] | None) -> int:
    if parser().parse_settings(arguments).profile:
        print(resources.files("scaler_symphony").joinpath("profile.xml").read_text(encoding="utf-8"), end="")
        return 0
    container = container_class(import_soamapi())()
    container.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
