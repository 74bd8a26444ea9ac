"""The terminal: shows the lines of `screen`, and turns keys into Views."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from scaler.monitoring import ClusterState, Heard, Watcher
from scaler.monitoring.watcher import Source
from scaler.top.board import Board, board_of
from scaler.top.columns import BY_KEY
from scaler.top.meters import Throughput
from scaler.top.orders import Orders
from scaler.top.pages import PAGES, WORKERS
from scaler.top.screen import Screen, View, draw
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import NO_PEER, ClusterStatus, Explain, Explanation, Message

QUIT_KEYS = ("q", "c-c", "c-d")
SEARCH_LETTERS = 60
NAMES_KEPT = 512
"""Of tasks that have run in the worker that is open; and so many are asked about at once, at most:"""
ASKED_AT_ONCE = 32
_FAR = 1 << 30
_STYLE = Style.from_dict(
    {
        "title": "bold",
        "name": "",
        "rule": "ansibrightblack",
        "legend": "ansibrightblack",
        "total": "bold",
        "header": "reverse",
        "sorted": "reverse bold",
        "silent": "ansired",
        "chosen": "reverse ansicyan",
        "bar": "ansigreen",
        "high": "ansired",
        "warning": "ansiyellow",
        "search": "bold ansicyan",
        "trouble": "bold ansiwhite bg:ansired",
    }
)
WHEEL_ROWS = 3


class Lines(FormattedTextControl):
    """Text that can be scrolled with a mouse's wheel."""

    def __init__(self, text: Callable[[], StyleAndTextTuples], scroll: Callable[[int], None]) -> None:
        super().__init__(text, show_cursor=False)
        self._scroll = scroll

    def mouse_handler(self, mouse_event: MouseEvent) -> None:
        if mouse_event.event_type is MouseEventType.SCROLL_DOWN:
            self._scroll(WHEEL_ROWS)
        elif mouse_event.event_type is MouseEventType.SCROLL_UP:
            self._scroll(-WHEEL_ROWS)


class Terminal:
    """`source` is used by a thread of its own from `run` on. Input and output are the terminal's unless given."""

    def __init__(self, source: Source, input: Input | None = None, output: Output | None = None) -> None:  # noqa: A002
        self._watcher = Watcher(lambda: source, self._heard)
        self._state = source.state
        self._throughput = Throughput()
        #: by task, the name of its function; empty: it was asked for and is not known
        self._names: dict[TaskId, str] = {}
        self._asked: dict[int, TaskId] = {}
        self._numbers = itertools.count(1)
        self._orders = Orders(self._numbers)
        self._board: tuple[ClusterState, Board] | None = None
        self._view = View()
        self._screen = Screen([], 1, 0)
        self._application: Application[None] = Application(
            Layout(Window(Lines(self._text, self._scroll), always_hide_cursor=True)),
            style=_STYLE,
            key_bindings=self._bindings(),
            full_screen=True,
            mouse_support=True,
            input=input,
            output=output,
        )
        # Escape is a key of its own here; what begins other keys follows at once.
        self._application.ttimeoutlen = 0.05
        self._application.timeoutlen = 0.05

    def run(self) -> None:
        """Until the person has seen enough."""
        self._watcher.start()
        try:
            self._application.run()
        finally:
            self._watcher.stop()

    def _heard(self, state: ClusterState, heard: list[Heard]) -> None:
        """In the watcher's thread: it only leaves the state, which is immutable."""
        for one in heard:
            self._orders.heard(one.message)
            if isinstance(one.message, ClusterStatus):
                self._throughput = self._throughput.after(one.message)
            elif isinstance(one.message, Explanation):
                task_id = self._asked.pop(one.message.request_id, None)
                if task_id is not None:
                    self._names[task_id] = one.message.function_name
        if not self._view.is_paused:
            self._state = state
            self._ask_names()
        self._application.invalidate()

    def _ask_names(self) -> None:
        """A status says which task a processor runs; what is asked here is whose function that is. Only of the worker
        that is open, and once for each task."""
        opened, status = self._view.opened, self._state.status
        if opened == NO_PEER or status is None:
            return
        worker = next((one for one in status.workers if one.peer_id == opened), None)
        running = [one.task_id for one in worker.status.processors if one.task_id] if worker else []
        for task_id in [one for one in running if one not in self._names][:ASKED_AT_ONCE]:
            number = next(self._numbers)
            self._names[task_id] = ""
            self._asked[number] = task_id
            self._watcher.ask(Explain(number, task_id))
        while len(self._names) > NAMES_KEPT:
            del self._names[next(iter(self._names))]
        while len(self._asked) > NAMES_KEPT:
            del self._asked[next(iter(self._asked))]

    def _text(self) -> StyleAndTextTuples:
        state = self._state
        if self._board is None or self._board[0] is not state:
            self._board = state, board_of(state)
        size = self._application.output.get_size()
        told = self._throughput
        view = replace(self._view, order=self._orders.line)
        self._screen = draw(
            self._board[1],
            view,
            size.columns,
            size.rows,
            rates=told.rates,
            function_rates=told.functions,
            names=self._names,
        )
        shown: StyleAndTextTuples = []
        for line in self._screen.lines[: size.rows]:
            shown += [(f"class:{style}" if style else "", text) for style, text in line]
            shown.append(("", "\n"))
        return shown[:-1]

    def _scroll(self, rows: int) -> None:
        """In the table of workers the cursor moves, and the table with it; elsewhere the rows."""
        peers, view = self._screen.peers, self._view
        if peers:
            place = peers.index(view.chosen) if view.chosen in peers else min(view.first_row, len(peers) - 1) - 1
            place = min(max(0, place + rows), len(peers) - 1)
            self._view = replace(view, chosen=peers[place])
        else:
            first = min(max(0, view.first_row + rows), self._screen.last_first_row)
            self._view = replace(view, first_row=first)

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        is_typing = Condition(lambda: self._view.is_typing)
        is_help = Condition(lambda: self._view.is_help)
        is_naming = Condition(lambda: self._orders.typed is not None)
        is_asking = Condition(lambda: self._orders.is_asking)
        usual = ~is_typing & ~is_help & ~is_naming & ~is_asking
        for names, rows in (
            (("down", "j"), lambda: 1),
            (("up", "k"), lambda: -1),
            (("pagedown", "space"), lambda: self._screen.page_rows),
            (("pageup",), lambda: -self._screen.page_rows),
            (("end",), lambda: _FAR),
            (("home",), lambda: -_FAR),
        ):
            for name in names:
                keys.add(name, filter=usual)(lambda event, rows=rows: self._scroll(rows()))
        for name in BY_KEY:
            keys.add(name, filter=usual)(lambda event, name=name: self._sort(name))
        for name, act in (
            ("t", lambda: self._show(is_upper_hidden=not self._view.is_upper_hidden)),
            ("p", lambda: self._show(is_paused=not self._view.is_paused)),
            ("?", lambda: self._show(is_help=True)),
            ("/", lambda: self._show(is_typing=True, first_row=0, opened=NO_PEER)),
            ("tab", self._turn_page),
            ("enter", self._open),
            ("X", self._orders.cancel),
            ("D", self._drain),
        ):
            keys.add(name, filter=usual)(lambda event, act=act: act())
        keys.add("escape", filter=usual)(self._back)
        for name in QUIT_KEYS:
            keys.add(name, filter=usual)(lambda event: event.app.exit())
        keys.add("c-c", filter=~usual)(lambda event: event.app.exit())
        keys.add("<any>", filter=is_help)(lambda event: self._show(is_help=False))
        keys.add("<any>", filter=is_typing)(lambda event: self._type(event.data))
        keys.add("backspace", filter=is_typing)(lambda event: self._show(search=self._view.search[:-1]))
        keys.add("enter", filter=is_typing)(lambda event: self._show(is_typing=False))
        keys.add("escape", filter=is_typing)(lambda event: self._show(is_typing=False, search=""))
        keys.add("<any>", filter=is_naming)(lambda event: self._orders.type(event.data))
        keys.add("backspace", filter=is_naming)(lambda event: self._orders.erase())
        keys.add("escape", filter=is_naming)(lambda event: self._orders.leave())
        keys.add("enter", filter=is_naming)(lambda event: self._send(self._orders.entered(self._state.status)))
        keys.add("<any>", filter=is_asking)(lambda event: self._send(self._orders.answered(is_yes=event.data == "y")))
        return keys

    def _send(self, message: Message | None) -> None:
        if message is not None:
            self._watcher.ask(message)

    def _drain(self) -> None:
        """The worker that is open, or at the cursor."""
        wanted, status = self._view.opened or self._view.chosen, self._state.status
        worker = next((one for one in (status.workers if status else ()) if one.peer_id == wanted), None)
        if worker is not None:
            self._orders.drain(worker)

    def _show(self, **changes: Any) -> None:
        self._view = replace(self._view, **changes)

    def _type(self, text: str) -> None:
        if text.isprintable():
            self._show(search=(self._view.search + text)[:SEARCH_LETTERS])

    def _turn_page(self) -> None:
        page = PAGES[(PAGES.index(self._view.page) + 1) % len(PAGES)]
        self._show(page=page, opened=NO_PEER, first_row=0, search="")

    def _open(self) -> None:
        """The worker at the cursor; at first, the one that stands on top."""
        peers = self._screen.peers
        if peers:
            chosen = (
                self._view.chosen if self._view.chosen in peers else peers[min(self._view.first_row, len(peers) - 1)]
            )
            self._show(chosen=chosen, opened=chosen, first_row=0)
            self._ask_names()

    def _back(self, event: KeyPressEvent) -> None:
        """One step: from a worker to the table, from rows that were searched for to all, from a page to the workers."""
        view = self._view
        if view.opened != NO_PEER:
            self._show(opened=NO_PEER, first_row=0)
        elif view.search:
            self._show(search="")
        elif view.page != WORKERS:
            self._show(page=WORKERS, first_row=0)
        else:
            event.app.exit()

    def _sort(self, key: str) -> None:
        self._show(sorting=self._view.sorting.pressed(key), first_row=0, chosen=NO_PEER)
