"""The table: engines side by side, and how many times better ours is."""

from benchmarks.drawing import Bars, ratios
from benchmarks.records import Records
from benchmarks.workloads import ALL_ROWS, Row

NOT_SUPPORTED = "–"
NOT_MEASURED = ""


def render(records: Records, engines: list[str], workloads: set[str]) -> str:
    """A Markdown table, aligned so that it reads as it is. The first engine is ours; ratios: how many times better."""
    ours, *peers = engines
    header = ["work", *engines, *(f"× {peer}" for peer in peers)]
    notes: list[str] = []
    rows = [
        [title(row), *(cell(records, engine, name, row, notes) for engine in engines),
         *(ratio(records, ours, peer, name, row) for peer in peers)]
        for name, row in ALL_ROWS
        if name in workloads and is_known(records, name, row)
    ]  # fmt: skip
    widths = [max(len(line[column]) for line in [header, *rows]) for column in range(len(header))]
    lines = [line_of(header, widths), "|" + "|".join(rule(width, index) for index, width in enumerate(widths)) + "|"]
    lines += [line_of(row, widths) for row in rows]
    return "\n".join([*lines, *([""] if notes else []), *(f"[{mark}] {note}" for mark, note in enumerate(notes, 1))])


def title(row: Row) -> str:
    return f"{row.title}, {row.unit}" if row.unit else row.title


def is_known(records: Records, workload: str, row: Row) -> bool:
    """Only some engines have a scheduler to look at; a row for which no engine has a figure is left out."""
    tried = {name for _, name in (*records.failures, *records.unsupported)}
    return workload in tried or any(key[1:] == (workload, row.figure) for key in records.samples)


def cell(records: Records, engine: str, workload: str, row: Row, notes: list[str]) -> str:
    median = records.median(engine, workload, row.figure)
    if median is not None and (engine, workload) not in records.failures:
        return number(median)
    if (engine, workload) in records.failures:
        note = f"{engine}: {records.failures[engine, workload]}"
        if note not in notes:
            notes.append(note)
        return f"failed [{notes.index(note) + 1}]"
    return NOT_SUPPORTED


def ratio(records: Records, ours: str, peer: str, workload: str, row: Row) -> str:
    our, their = records.median(ours, workload, row.figure), records.median(peer, workload, row.figure)
    if our is None or their is None or min(our, their) <= 0:
        return NOT_MEASURED
    return f"{our / their if row.better == 'higher' else their / our:.2f}"


def drawn(records: Records, engines: list[str], workloads: set[str]) -> str:
    """The ratios as bars, an SVG: for each row of the table, one bar a peer."""
    ours, *peers = engines
    groups = []
    for name, row in ALL_ROWS:
        if name in workloads:
            texts = {peer: ratio(records, ours, peer, name, row) for peer in peers}
            groups.append(Bars(row.title, {peer: float(text) if text else None for peer, text in texts.items()}))
    return ratios("How many times better Scaler is (right of 1×) or worse", groups, peers)


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def line_of(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]) + " |"


def rule(width: int, column: int) -> str:
    return "-" * (width + 2) if column == 0 else "-" * (width + 1) + ":"
