"""Meters above the table: bars of what is used of what there is, and how fast tasks have been ending. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.monitoring import functions_of
from scaler.top.formats import Line, byte_text, count_text, padded
from scaler_protocol.messages import NO_PEER, ClusterStatus

RATES_KEPT = 240
"""Statuses: some minutes, and more than a terminal is wide."""
UNFINISHED = frozenset(("waiting", "queued", "dispatched", "canceling"))
SPARKS = "▁▂▃▄▅▆▇█"
NARROW = 60
_NAME_COLUMNS = 7
_SMALLEST_BAR = 6
_HIGH = 0.9


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tasks that ended per second, between two statuses each. Immutable: a thread makes it and another one shows it."""

    rates: tuple[float, ...] = ()
    #: of each function, between the last two statuses
    functions: Mapping[str, float] = field(default_factory=dict)
    _server: bytes = NO_PEER
    _at: float = 0.0
    _ended: int = 0
    _ended_of: Mapping[str, int] = field(default_factory=dict)

    def after(self, status: ClusterStatus) -> Throughput:
        """With one status more. A scheduler that has started counts from nothing: that is no rate."""
        server, at, ended = bytes(status.server_id), status.uptime_seconds, ended_count(status)
        if server == self._server and at <= self._at:
            return self
        ended_of = {one.name: one.ended_count for one in functions_of(status)}
        rates, functions = self.rates, {}
        if server == self._server:
            seconds = at - self._at
            rates = (*rates, max(0.0, (ended - self._ended) / seconds))[-RATES_KEPT:]
            functions = {one: max(0, now - self._ended_of.get(one, 0)) / seconds for one, now in ended_of.items()}
        return Throughput(rates, functions, server, at, ended, ended_of)


@dataclass(frozen=True, slots=True)
class Meter:
    name: str
    text: str
    #: of what there is; above 1 it is shown as 1
    share: float


def ended_count(status: ClusterStatus) -> int:
    return sum(one.value for one in status.task_counts if one.name not in UNFINISHED)


def meters_of(status: ClusterStatus) -> tuple[Meter, ...]:
    """Processors in use, of those that workers have; memory of workers, of that and what is free on their hosts; tasks
    that have ended, of all."""
    cpu, count, used = 0.0, 0, 0
    free: dict[str, int] = {}  # by host: several workers of one host see the same free memory
    for worker in status.workers:
        one = worker.status
        cpu += sum(processor.cpu for processor in one.processors)
        count += len(one.processors)
        used += one.agent_rss_bytes + sum(processor.rss_bytes for processor in one.processors)
        free[worker.software.host or worker.peer_id.hex()] = one.host_free_bytes
    total = used + sum(free.values())
    ended = ended_count(status)
    submitted = sum(one.value for one in status.task_counts)
    return (
        Meter("cpu", f"{cpu:.1f}/{count}", cpu / count if count else 0.0),
        Meter("memory", f"{byte_text(used)}/{byte_text(total)}", used / total if total else 0.0),
        Meter("tasks", f"{count_text(ended)}/{count_text(submitted)}", ended / submitted if submitted else 0.0),
    )


def bar(share: float, columns: int) -> str:
    """`columns` wide with its brackets, and without spaces, so that scripts can cut columns. A little is one stroke."""
    room = max(1, columns - 2)
    strokes = min(room, max(int(share > 0), round(share * room)))
    return f"[{'|' * strokes}{'.' * (room - strokes)}]"


def sparkline(values: tuple[float, ...], columns: int) -> str:
    """The last of them, the highest as high as there is; nothing is a low line."""
    shown = values[-columns:] if columns > 0 else ()
    most = max(shown, default=0.0)
    steps = len(SPARKS) - 1
    return "".join(SPARKS[round(steps * value / most) if most else 0] for value in shown)


def lines_of(meters: tuple[Meter, ...], rates: tuple[float, ...], width: int) -> list[Line]:
    """Two beside each other where there is room."""
    each = width if width < NARROW else (width - 2) // 2
    drawn = [_rate(rates, each), *(_drawn(meter, each) for meter in meters)]
    if each == width:
        return drawn
    return [[*left, ("", "  "), *right] for left, right in zip(drawn[::2], drawn[1::2], strict=True)]


def _rate(rates: tuple[float, ...], width: int) -> Line:
    now = count_text(round(rates[-1])) if rates else "-"
    text = f"{now}, most {count_text(round(max(rates)))}" if rates else now
    name = padded("tasks/s", _NAME_COLUMNS, is_right=False)
    room = width - len(name) - len(text) - 2
    spark = sparkline(rates, room)
    return [("title", name), ("", f" {text} "), ("bar", padded(spark, max(0, room), is_right=False))]


def _drawn(meter: Meter, width: int) -> Line:
    """The text stands at the right end inside the bar, as htop's does."""
    name = padded(meter.name, _NAME_COLUMNS, is_right=False)
    room = max(_SMALLEST_BAR, width - len(name) - 3)
    text = meter.text[:room]
    strokes = bar(meter.share, room + 2)[1:-1].replace(".", " ")
    style = "high" if meter.share > _HIGH and meter.name == "memory" else "bar"
    return [("title", name), ("", " ["), (style, strokes[: room - len(text)]), ("", text + "]")]
