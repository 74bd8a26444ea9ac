"""A recording as one HTML file: the page itself, with what it would have been told, and no server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from scaler.monitoring import ClusterState, Condition, Heard, Recording, RecordingError, functions_of
from scaler.ui.model import Model
from scaler_protocol.messages import ClusterStatus

Json = dict[str, Any]

STATIC = os.path.join(os.path.dirname(__file__), "static")
POINTS_KEPT = 900
"""Of the charts: of a long recording every second one is left out, and again."""
_IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (const|function|class) (?:\[([^\]]+)\]|(\w+))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Read:
    """A recording that was gone through."""

    model: Model
    history: list[Json]
    status: ClusterStatus
    seconds: float
    trouble: str  #: why the rest could not be read, or empty


def read(path: str) -> Read:
    """Raises RecordingError for a file that is no recording, or has no status of a scheduler."""
    with closing(Recording(path)) as recording:
        model, state = Model(os.path.basename(path)), ClusterState(path, Condition.LIVE)
        history: list[Json] = []
        every, count, seconds = 1, 0, 0.0
        for record in recording:
            seconds = record.seconds
            if isinstance(record.message, ClusterStatus):
                state = replace(state, status=record.message)
            at = recording.begun_at + record.seconds
            for kind, content in model.take(state, [Heard(record.topic, record.message, record.seconds, at)], at):
                if kind == "status":
                    if count % every == 0:
                        history.append(content["point"])
                    count += 1
            if len(history) > POINTS_KEPT:
                every, history = 2 * every, history[::2]
        if state.status is None:
            raise RecordingError(f"{path} has no status of a scheduler: there is nothing to report")
        model.state = replace(state, condition=Condition.ENDED, text=recording.trouble)
        return Read(model, history, state.status, seconds, recording.trouble)


def html(path: str, other: str = "") -> str:
    """The whole file. `other`: a second recording, whose figures stand beside those of the first."""
    first = read(path)
    told: list[tuple[str, Json]] = [
        ("beginning", first.model.beginning()),
        ("past", {**first.model.past(), "history": first.history}),
        ("runs", {"runs": [list(run) for run in first.model.kept_runs()], "complete": True}),
    ]
    if other:
        second = read(other)
        told.append(("comparison", {"sides": [_side(path, first), _side(other, second)]}))
    with open(os.path.join(STATIC, "index.html"), encoding="utf-8") as file:
        page = file.read()
    with open(os.path.join(STATIC, "style.css"), encoding="utf-8") as file:
        style = file.read()
    script = bundle("app")
    # In a script nothing but "<" could end the element; in JSON it may be written so.
    data = json.dumps(told, separators=(",", ":")).replace("<", "\\u003c")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'"
    head, _, rest = page.partition('<link rel="icon"')
    _, _, body = rest.partition("</head>")
    return (
        f'{head}<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n</head>'
        + body.replace(
            "</body>",
            f'<script type="application/json" id="recorded">{data}</script>\n'
            f'<script type="module">{script}</script>\n</body>',
        )
    )


def bundle(name: str) -> str:
    """The modules of the page as one script: each is a function that returns what it exports."""
    made: dict[str, str] = {}
    _add(name, made)
    return "\n".join(made.values())


def _add(name: str, made: dict[str, str]) -> None:
    with open(os.path.join(STATIC, f"{name}.js"), encoding="utf-8") as file:
        text = file.read()
    for _, needed in _IMPORT.findall(text):
        if needed not in made:
            _add(needed, made)
    exported = [found for _, several, one in _EXPORT.findall(text) for found in (several or one).split(", ")]
    text = _IMPORT.sub(r"const { \1 } = scaler_\2;", text)
    text = re.sub(r"^export (const|function|class)", r"\1", text, flags=re.MULTILINE)
    made[name] = f"const scaler_{name} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _side(path: str, found: Read) -> Json:
    """One column of a comparison. Times in seconds; counts are since the scheduler's start."""
    use = found.model.utilisation.told()
    return {
        "name": os.path.basename(path),
        "seconds": found.seconds,
        "ended": sum(one.ended_count for one in functions_of(found.status)),
        "failed": sum(one.not_well_count for one in functions_of(found.status)),
        "workers": max((point["workers"] for point in found.history), default=0),
        "memory": max((point["worker_rss"] for point in found.history), default=0),
        "storage": max((point["storage_bytes"] for point in found.history), default=0),
        "use": use,
        "work": found.model.status["work"],
    }
