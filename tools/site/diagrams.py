"""A state machine as a picture: states from top to bottom, ways down on the right, ways back on the left.

The tables beside it say what makes each step. Lines take the colour of the text, so the picture suits a dark page too.
"""

from __future__ import annotations

import re

WIDTH, LEFT, BOX, STEP = 560, 170, 170, 54
HEIGHT = 30


def drawn(mermaid: str) -> str:
    """The block of the chapter, as an inline SVG."""
    edges = [(a, b) for a, b in re.findall(r"^\s*(\S+) --> (\S+)$", mermaid, re.MULTILINE)]
    starts = {b for a, b in edges if a == "[*]"}
    ends = {a for a, b in edges if b == "[*]"}
    named = dict.fromkeys(state for edge in edges for state in edge if state != "[*]")
    states = sorted(named, key=lambda state: state in ends)  # ends last, so that most ways lead down
    rows = {state: index for index, state in enumerate(states)}
    lines = [_edge(rows[a], rows[b]) for a, b in edges if "[*]" not in (a, b)]
    boxes = [_box(state, row, is_start=state in starts, is_end=state in ends) for state, row in rows.items()]
    height = len(states) * STEP + 10
    label = f"States: {', '.join(states)}"
    return (
        f'```{{raw}} html\n<svg class="states" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg">\n'
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="currentColor"/></marker></defs>\n'
        + "\n".join([*lines, *boxes])
        + "\n</svg>\n```"
    )


def _middle(row: int) -> int:
    return row * STEP + 10 + HEIGHT // 2


def _edge(source: int, target: int) -> str:
    start, end = _middle(source), _middle(target)
    if source == target:
        return ""
    is_down = target > source
    x = LEFT + BOX if is_down else LEFT
    # Far ways swing wide. Ends are set apart, so that what arrives is not mistaken for what leaves.
    reach = 18 + 22 * abs(target - source)
    bend = x + reach if is_down else x - reach
    start, end = (start + 5, end - 5) if is_down else (start - 5, end + 5)
    path = f"M{x} {start}C{bend} {start} {bend} {end} {x} {end}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".55" marker-end="url(#arrow)"/>'


def _box(state: str, row: int, *, is_start: bool, is_end: bool) -> str:
    y = row * STEP + 10
    name = state.replace("_", "-")
    note = " (start)" if is_start else " (end)" if is_end else ""
    weight = ' font-weight="600"' if is_start else ""
    double = (
        f'<rect x="{LEFT + 3}" y="{y + 3}" width="{BOX - 6}" height="{HEIGHT - 6}" rx="5" fill="none" '
        'stroke="currentColor" stroke-opacity=".5"/>'
        if is_end
        else ""
    )
    return (
        f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="7" class="state"/>{double}'
        f'<text x="{LEFT + BOX // 2}" y="{y + 20}" text-anchor="middle"{weight}>{name}{note}</text>'
    )
