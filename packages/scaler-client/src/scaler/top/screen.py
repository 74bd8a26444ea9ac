"""A Board laid out for a width and a height: lines of pieces, each with the name of a style. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from scaler.top.board import Board, Section
from scaler.top.columns import COLUMNS, Column, Sorting, WorkerRow
from scaler.top.formats import Line, columns_of, cut, padded, wrapped
from scaler.top.meters import lines_of
from scaler.top.pages import PAGES, WORKERS, Listing, help_lines, listing_of, worker_page
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import NO_PEER

DIVIDER = " | "
OTHER_KEYS = "processors[Enter] pages[Tab] filter[/] pause[p] hide[t] help[?] quit[q]"
WARNINGS_SHOWN = 2
_METERED_LINES = 16
"""A lower screen has no room for meters."""
_TALL_LINES = 30
_SMALLEST_BAND = 4
_RANGE_COLUMNS = 20
_SMALLEST_TABLE = 3


@dataclass(frozen=True, slots=True)
class View:
    """What the person has chosen."""

    sorting: Sorting = field(default_factory=Sorting)
    first_row: int = 0
    is_upper_hidden: bool = False
    page: str = WORKERS
    #: the worker that the cursor is on; it is kept in sight. NO_PEER: there is no cursor yet
    chosen: PeerId = NO_PEER
    #: the worker whose processors are shown instead of a page
    opened: PeerId = NO_PEER
    search: str = ""
    is_typing: bool = False
    is_help: bool = False
    is_paused: bool = False
    #: what an order asks, or what came of it
    order: str = ""


@dataclass(frozen=True, slots=True)
class Screen:
    lines: list[Line]
    #: how many rows it has room for, and how far down they can be scrolled
    page_rows: int
    last_first_row: int
    #: of the table of workers, if that is shown: all of its rows, in their order
    peers: tuple[PeerId, ...] = ()


def text_of(line: Line) -> str:
    return "".join(text for _, text in line).rstrip()


def draw(
    board: Board,
    view: View,
    width: int,
    height: int | None = None,
    *,
    rates: tuple[float, ...] = (),
    function_rates: Mapping[str, float] | None = None,
    names: Mapping[TaskId, str] | None = None,
) -> Screen:
    """Without a height: everything, as for a file. `rates`: tasks that ended per second, the latest last;
    `function_rates`: the latest of each function. `names`: of the functions of tasks that run, as far as they are
    known."""
    if view.is_help:
        return Screen(help_lines(), 1, 0)
    opened = next((one for one in board.workers if one.peer_id == view.opened), None) if view.opened else None
    if height is not None and (opened is not None or view.page != WORKERS):
        if opened is not None:
            listing = worker_page(opened, names or {})
        else:
            listing = listing_of(board, view.page, view.search, function_rates or {})
        return _listed(board, view, width, height, rates, listing)
    return _workers(board, view, width, height, rates)


def _workers(board: Board, view: View, width: int, height: int | None, rates: tuple[float, ...]) -> Screen:
    columns = _shown_columns(board, view.sorting, width)
    widths = [_width(board, column, view.sorting) for column in columns]
    table_width = sum(widths) + len(widths) - 1
    pane = _stacked(board.panes)
    has_room = table_width + len(DIVIDER) + _block_width(pane) <= width
    order = board.found(view.sorting, view.search)
    peers = tuple(board.rows[index].peer_id for index in order)
    top = _above(board, view, width, height, rates, len(order), with_panes=not has_room)
    page = len(order) if height is None else max(_SMALLEST_TABLE, height - len(top) - 1)
    last = max(0, len(order) - page)
    first = _first(view, peers, page, last)
    table = [_header(columns, widths, view.sorting)]
    table += _rows(board, columns, widths, order[first : first + page], view.chosen)
    if has_room:
        table = _beside(table, table_width, pane if height is None else _stacked(_halved(board.panes, page + 1)))
    if last:
        top[-1] = [*top[-1], ("legend", f", {first + 1:,}-{min(first + page, len(order)):,}")]
    return Screen(top + table, page, last, peers)


def _first(view: View, peers: tuple[PeerId, ...], page: int, last: int) -> int:
    """The first row that is shown; the cursor's is among them."""
    first = min(view.first_row, last)
    if view.chosen in peers:
        place = peers.index(view.chosen)
        first = min(place, max(first, place - page + 1))
    return first


def _listed(board: Board, view: View, width: int, height: int, rates: tuple[float, ...], listing: Listing) -> Screen:
    """A page whose rows are few."""
    heading, *rows = listing.lines()
    lead = [[("total", cut(text, max(1, width - 1)))] for text in listing.lead]
    top = [*_above(board, view, width, height, rates, len(rows) + len(lead), with_panes=True), *lead, heading]
    page = max(_SMALLEST_TABLE, height - len(top))
    last = max(0, len(rows) - page)
    first = min(view.first_row, last)
    return Screen(top + rows[first : first + page], page, last)


def _above(
    board: Board, view: View, width: int, height: int | None, rates: tuple[float, ...], rows: int, *, with_panes: bool
) -> list[Line]:
    """All that stands above the table: meters, sections, keys, and what is wrong."""
    middle = _middle(board, view, width, height)
    meters = [] if height is None or height < _METERED_LINES else lines_of(board.meters, rates, width)
    if view.is_upper_hidden:
        return meters + middle
    if meters:
        meters.append([("rule", "-" * width)])
    limit = None if height is None else max(height // 2, height - len(middle) - rows - 1) - len(meters)
    return meters + _upper(board, width, limit, with_panes=with_panes) + middle


def _middle(board: Board, view: View, width: int, height: int | None) -> list[Line]:
    """A report has no keys to press."""
    lines = _lines("legend", _keys(width, height)) if height is not None else []
    if board.trouble:
        lines += _lines("trouble", wrapped(board.trouble.split(), width))
    if board.standbys:
        lines += _lines("legend", wrapped(board.standbys.split(), width))
    for text in board.warnings[:WARNINGS_SHOWN]:
        lines += _lines("warning", wrapped(text.split(), width))
    lines += _lines("search", wrapped(view.order.split(), width)) if view.order else []
    return [*lines, [("", "")], _title_line(board, view, width)]


def _title_line(board: Board, view: View, width: int) -> Line:
    """What the table below shows, and what is chosen of it."""
    line: Line = [("total", cut(board.total, max(1, width - _RANGE_COLUMNS)))]
    if view.page != WORKERS or view.opened:
        pages = " ".join(f"[{page}]" if page == view.page else page for page in PAGES)
        line = [("total", cut("processors" if view.opened else pages, max(1, width - _RANGE_COLUMNS)))]
    if view.is_paused:
        line.append(("warning", " paused"))
    if view.is_typing or view.search:
        line.append(("search", f" /{view.search}{'_' if view.is_typing else ''}"))
    return line


def _keys(width: int, height: int) -> list[str]:
    """On a small screen the letters that sort are left to the help."""
    whole = wrapped(legend(), width)
    return whole if len(whole) <= 2 or height >= _TALL_LINES else wrapped(OTHER_KEYS.split(), width)


def legend() -> list[str]:
    return ["Shortcuts:", *(f"{column.title}[{column.key}]" for column in COLUMNS if column.key), *OTHER_KEYS.split()]


# ------------------------------------------------------------------ the upper part


def _upper(board: Board, width: int, height: int | None, *, with_panes: bool) -> list[Line]:
    blocks = [_stacked(block) for block in board.blocks]
    if height is None:  # a report has no pages
        blocks += [_stacked((section,)) for section in board.messages]
    if with_panes:
        blocks += [_stacked((pane,)) for pane in board.panes if pane.entries]
    bands = _bands(blocks, width)
    lines: list[Line] = []
    for index, band in enumerate(bands):
        if height is not None and lines and len(lines) + _SMALLEST_BAND > height:
            break  # a table without rows would be worse
        bands_below = len(bands) - index - 1
        # What is left, with room for the rules; those below get at least a little.
        left = None if height is None else height - len(lines) - 1 - bands_below * (_SMALLEST_BAND + 1)
        limit = None if left is None else max(_SMALLEST_BAND, left)
        shown = [_limited(block, limit) for block in band]
        widths = [_block_width(block) for block in band]
        lines += [_joined(list(map(_filled, parts, widths))) for parts in zip_longest(*shown, fillvalue=[])]
        lines.append([("rule", "-" * width)])
    return lines


def _bands(blocks: list[list[Line]], width: int) -> list[list[list[Line]]]:
    """Blocks side by side as far as there is room, the others below."""
    bands: list[list[list[Line]]] = [[]]
    for block in blocks:
        taken = sum(_block_width(one) + len(DIVIDER) for one in bands[-1])
        if bands[-1] and taken + _block_width(block) > width:
            bands.append([])
        bands[-1].append(block)
    return bands


def _stacked(sections: Sequence[Section]) -> list[Line]:
    """The sections above each other, their names and values in common columns."""
    entries = [entry for section in sections for entry in section.entries]
    name_width = max((columns_of(name) for name, _ in entries), default=0)
    value_width = max((columns_of(value) for _, value in entries), default=0)
    lines: list[Line] = []
    for index, section in enumerate(sections):
        lines += [[("", "")]] if index else []
        lines.append([("title", section.title)])
        lines += [
            [("name", padded(name, name_width)), ("", " " + padded(value, value_width))]
            for name, value in section.entries
        ]
    return lines


def _limited(block: list[Line], limit: int | None) -> list[Line]:
    """Where there is no room for all, what is zero goes first."""
    if limit is None or len(block) <= limit:
        return block
    zeros = [line for line in block if line[-1][1].strip() == "0"][limit - len(block) :]
    block = [line for line in block if line not in zeros]
    if len(block) <= limit:
        return block
    return [*block[: limit - 1], [("legend", f"... {len(block) - limit + 1} more")]]


def _block_width(block: list[Line]) -> int:
    return max((_line_width(line) for line in block), default=0)


def _line_width(line: Line) -> int:
    return sum(columns_of(text) for _, text in line)


def _filled(line: Line, width: int) -> Line:
    return [*line, ("", " " * max(0, width - _line_width(line)))]


def _joined(parts: list[Line]) -> Line:
    line: Line = []
    for index, part in enumerate(parts):
        line += [("rule", DIVIDER)] if index else []
        line += part
    return line


def _lines(style: str, texts: Sequence[str]) -> list[Line]:
    return [[(style, text)] for text in texts]


# ------------------------------------------------------------------ the table of workers


def _shown_columns(board: Board, sorting: Sorting, width: int) -> list[Column]:
    """All that there is room for. The one that is sorted by is always there: so its key also brings it into view."""
    empty = {
        "manager": not any(row.manager for row in board.rows),
        "recycled": not any(row.recycled_count for row in board.rows),
        "user": not any(row.user for row in board.rows),  # a cluster without keys
    }
    shown = [column for column in COLUMNS if not empty.get(column.title)]
    widths = {column.title: _width(board, column, sorting) for column in COLUMNS}
    while sum(widths[column.title] + 1 for column in shown) - 1 > width:
        spare = [column for column in shown if column.rank and column.title != sorting.title]
        if not spare:
            break
        shown.remove(max(spare, key=lambda column: column.rank))
    return shown


def _width(board: Board, column: Column, sorting: Sorting) -> int:
    return max(columns_of(_title(column, sorting)), board.widths[column.title])


def _title(column: Column, sorting: Sorting) -> str:
    return f"[{column.title}]" if column.title == sorting.title else column.title


def _header(columns: list[Column], widths: list[int], sorting: Sorting) -> Line:
    line: Line = []
    for column, width in zip(columns, widths, strict=True):
        style = "sorted" if column.title == sorting.title else "header"
        text = padded(_title(column, sorting), width, is_right=column.is_right)
        line += [("header", " "), (style, text)] if line else [(style, text)]
    return line


def _rows(board: Board, columns: list[Column], widths: list[int], order: list[int], chosen: PeerId) -> list[Line]:
    cells = [(board.cells[column.title], width, column.is_right) for column, width in zip(columns, widths, strict=True)]
    return [
        [
            (
                _row_style(board.rows[index], chosen),
                " ".join(padded(texts[index], width, is_right=is_right) for texts, width, is_right in cells),
            )
        ]
        for index in order
    ]


def _row_style(row: WorkerRow, chosen: PeerId) -> str:
    if chosen and row.peer_id == chosen:
        return "chosen"
    return "silent" if row.is_silent or row.is_still else ""


def _halved(panes: Sequence[Section], height: int) -> list[Section]:
    """Very many clients leave room for the functions."""
    rows = max(1, (height + 1) // len(panes) - 2)  # below its heading, above an empty line
    return [
        Section(one.title, one.entries if len(one.entries) <= rows else (*one.entries[: rows - 1], _more(one, rows)))
        for one in panes
    ]


def _more(section: Section, rows: int) -> tuple[str, str]:
    return f"... {len(section.entries) - rows + 1} more", ""


def _beside(table: list[Line], width: int, pane: list[Line]) -> list[Line]:
    nothing: Line = []
    return [_joined([_filled(left, width), right]) for left, right in zip_longest(table, pane, fillvalue=nothing)]
