"""The terminal: shows the lines of `screen`, and turns keys into Views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.mouse_events import MouseEvent, MouseEventType
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from scaler.monitoring import ClusterState, Heard, Watcher
from scaler.monitoring.watcher import Source
from scaler.top.board import Board, board_of
from scaler.top.columns import BY_KEY
from scaler.top.screen import Screen, View, draw

QUIT_KEYS = ("q", "escape", "c-c", "c-d")
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
        self._state = state
        self._application.invalidate()

    def _text(self) -> StyleAndTextTuples:
        state = self._state
        if self._board is None or self._board[0] is not state:
            self._board = state, board_of(state)
        size = self._application.output.get_size()
        self._screen = draw(self._board[1], self._view, size.columns, size.rows)
        shown: StyleAndTextTuples = []
        for line in self._screen.lines[: size.rows]:
            shown += [(f"class:{style}" if style else "", text) for style, text in line]
            shown.append(("", "\n"))
        return shown[:-1]

    def _scroll(self, rows: int) -> None:
        first = min(max(0, self._view.first_row + rows), self._screen.last_first_row)
        self._view = replace(self._view, first_row=first)

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        for names, rows in (
            (("down", "j"), lambda: 1),
            (("up", "k"), lambda: -1),
            (("pagedown", "space"), lambda: self._screen.page_rows),
            (("pageup",), lambda: -self._screen.page_rows),
            (("end",), lambda: self._screen.last_first_row),
            (("home",), lambda: -self._screen.last_first_row),
        ):
            for name in names:
                keys.add(name)(lambda event, rows=rows: self._scroll(rows()))
        for name in BY_KEY:
            keys.add(name)(lambda event, name=name: self._sort(name))
        for name in QUIT_KEYS:
            keys.add(name)(lambda event: event.app.exit())
        keys.add("t")(lambda event: self._toggle_upper())
        return keys

    def _sort(self, key: str) -> None:
        self._view = replace(self._view, sorting=self._view.sorting.pressed(key), first_row=0)

    def _toggle_upper(self) -> None:
        self._view = replace(self._view, is_upper_hidden=not self._view.is_upper_hidden)
