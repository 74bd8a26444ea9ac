"""What notebooks show of a client, a cluster and a future. Nothing here waits for the network or for a lock."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from scaler.client.futures.ended import failure_text
from scaler_protocol.ids import shown_task

ERROR_CHARACTERS = 1000
VALUE_CHARACTERS = 200
"""Of the text of an error: a future is shown in a few lines."""


def table_of(rows: Mapping[str, str]) -> str:
    """Titles and texts, escaped."""
    lines = [f"<tr><th>{html.escape(title)}</th><td>{html.escape(text)}</td></tr>" for title, text in rows.items()]
    return f"<table>{''.join(lines)}</table>"


def link_to(page: str | None) -> str:
    """To the page of a cluster, if there is one."""
    return f'<a href="{html.escape(page)}" target="_blank">page</a>' if page else ""


def html_of_future(future: Any) -> str:
    """Which task a ScalerFuture stands for, how it stands, and the text of its error. Its result is not read."""
    rows = {}
    if future._name:
        rows["Function"] = future._name
    if future.task_id:
        rows["Task"] = shown_task(future.task_id)
    rows["State"] = future._standing()
    if rows["State"].startswith("returned ") and (value := _shown(future._result)):
        rows["Value"] = value
    failure = future.failure()
    if failure is not None:
        told = failure_text(failure)
        rows["Error"] = told if len(told) <= ERROR_CHARACTERS else told[:ERROR_CHARACTERS] + " …"
    return f"<b>Future</b>{table_of(rows)}"


def _shown(value: object) -> str:
    """Returns a short value as Python writes it, and an empty text for others.

    The representation of a class of the program may take long, or fail.
    """
    is_plain = value is None or type(value) in (bool, float, complex) or (type(value) is int and abs(value) < 10**20)
    is_short = type(value) in (str, bytes) and len(value) <= VALUE_CHARACTERS  # type: ignore[arg-type]
    return repr(value) if is_plain or is_short else ""
