"""`report.html`: one file that needs nothing else, to be read by whoever has to repair something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from scaler_conformance.verdicts import ERROR, FAIL, INCONCLUSIVE, ORDER, UNSUPPORTED, WARN, XFAIL, XPASS

_TROUBLE = (ERROR, FAIL, XPASS, INCONCLUSIVE, WARN, XFAIL, UNSUPPORTED)
_HEADINGS = {
    ERROR: ("Errors of the suite itself", "Please report them: no verdict was reached."),
    FAIL: ("What breaks a clause", "Each came again when it was played with a fresh process."),
    XPASS: ("Known failures that pass", "Remove their entries from known-failures.toml."),
    INCONCLUSIVE: ("No verdict", "The machine was too busy, or a failure did not come again. Run these once more."),
    WARN: ("What a SHOULD asks for", "Conforming all the same."),
    XFAIL: ("Known failures", "Listed in known-failures.toml, and failing as it says there."),
    UNSUPPORTED: ("Not supported", "As the manifest or the port itself says."),
}
_STYLE = """
:root { --paper: #fff; --ink: #1c2330; --soft: #667; --line: #dde; --good: #1a7f4b; --bad: #c0392b; --odd: #a86a00;
  --tint: #f5f6fa }
@media (prefers-color-scheme: dark) { :root { --paper: #14171d; --ink: #e3e6ee; --soft: #99a; --line: #2c313c;
  --good: #4cc38a; --bad: #ff7b6b; --odd: #e0a64a; --tint: #1b1f27 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 66rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.2rem; margin: 2.5rem 0 .3rem } p { margin: .3rem 0 }
.said { font-size: 1.15rem; font-weight: 600 } .soft { color: var(--soft) } a { color: inherit }
.pass { color: var(--good) } .fail, .error, .xpass { color: var(--bad) } .warn, .inconclusive, .xfail,
.unsupported { color: var(--odd) } .not-shown { color: var(--soft) }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: .92rem }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; white-space: nowrap } td.number { text-align: right }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .5rem .8rem }
summary { cursor: pointer } code, pre { font: .85rem/1.45 ui-monospace, monospace }
pre { background: var(--tint); padding: .7rem; overflow-x: auto; border-radius: 4px; white-space: pre-wrap;
  overflow-wrap: anywhere }
.id { font-weight: 600; white-space: nowrap }
"""


def page(content: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """With `before`, the report of the run before, also what has changed since."""
    body = [*_head(content), *_table_of_roles(content), *_changes(content, before)]
    for verdict in _TROUBLE:
        body += _section(content, verdict)
    body += _clauses(content)
    title = f"{content['port']['name']}: Scaler conformance"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _head(content: Mapping[str, Any]) -> Iterator[str]:
    port, suite = content["port"], content["suite"]
    is_good = content["exitCode"] == 0
    said = "conforms" if is_good else "does not conform"
    yield f"<h1>{escape(port['name'])} {escape(port['version'])}</h1>"
    mark = "pass" if is_good else "fail"
    yield f'<p class="said {mark}">{said} to version {suite["protocol"]} of the Scaler protocol</p>'
    how = "full run" if content["isFull"] else "everyday run"
    made = content["madeAt"].replace("T", " ").replace("+00:00", " UTC")
    details = (
        f"scaler-conformance {suite['version']}, {how}, seed {content['seed']}, {content['seconds']:.1f} s, {made}"
    )
    yield f'<p class="soft">{escape(details)}</p>'
    for reason in content["partial"]:
        yield f'<p class="warn">Only a part was played: {escape(reason)}.</p>'


def _table_of_roles(content: Mapping[str, Any]) -> Iterator[str]:
    verdicts = [verdict for verdict in ORDER if content["counts"].get(verdict)]
    yield "<table><tr><th>role</th>" + "".join(f'<th class="{each}">{each}</th>' for each in verdicts)
    yield "<th>MUST clauses shown</th><th>seconds</th></tr>"
    for role in dict.fromkeys(case["role"] for case in content["cases"]):
        cases = [case for case in content["cases"] if case["role"] == role]
        counts = Counter(case["verdict"] for case in cases)
        duties = [entry for entry in content["clauses"] if entry["role"] == role and entry["level"].startswith("MUST")]
        shown = sum(bool(entry["cases"]) for entry in duties)
        cells = "".join(f"<td>{counts[verdict] or ''}</td>" for verdict in verdicts)
        seconds = sum(case["seconds"] for case in cases)
        yield f"<tr><th>{role}</th>{cells}<td>{shown} of {len(duties)}</td><td>{seconds:.1f}</td></tr>"
    yield "</table>"


def _changes(content: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[str]:
    if before is None:
        return
    old = {(case["role"], case["case"]): case["verdict"] for case in before["cases"]}
    rows = []
    for case in content["cases"]:
        was, now = old.get((case["role"], case["case"])), case["verdict"]
        if was is not None and was != now:
            told = f"{_word(was)} → {_word(now)}"
            rows.append(f"<tr><td>{case['role']}</td><td>{escape(case['case'])}</td><td>{told}</td></tr>")
    if rows:
        yield f"<h2>Since the run before ({escape(before['madeAt'])})</h2><table>{''.join(rows)}</table>"


def _word(verdict: str) -> str:
    return f'<span class="{verdict.replace(" ", "-")}">{verdict}</span>'


def _section(content: Mapping[str, Any], verdict: str) -> Iterator[str]:
    cases = [case for case in content["cases"] if case["verdict"] == verdict]
    if not cases:
        return
    heading, remark = _HEADINGS[verdict]
    yield f'<h2 class="{verdict}">{heading} ({len(cases)})</h2><p class="soft">{remark}</p>'
    texts = {entry["id"]: entry["text"] for entry in content["clauses"]}
    for case in cases:
        yield from _case(case, texts, is_open=verdict in (FAIL, ERROR, XPASS) and len(cases) <= 5)


def _case(case: Mapping[str, Any], texts: Mapping[str, str], *, is_open: bool) -> Iterator[str]:
    clause = case["clause"] or case["clauses"][0]
    yield f"<details{' open' if is_open else ''}><summary>"
    yield f'<span class="id {case["verdict"]}">{escape(clause)}</span> {escape(case["case"].partition("/")[2])} '
    yield f'<span class="soft">{case["role"]}, {case["layer"]}</span></summary>'
    if clause in texts:
        yield f"<p><b>The clause.</b> {_prose(texts[clause])}</p>"
    if case["text"]:
        is_code = case["verdict"] == ERROR
        yield f"<pre>{escape(case['text'])}</pre>" if is_code else f"<p><b>Seen.</b> {escape(case['text'])}</p>"
    if case["conversation"]:
        yield f"<pre>{_lines(case['conversation'])}</pre>"
    if case["log"]:
        yield f"<p><b>The end of its log</b></p><pre>{_lines(case['log'][-20:])}</pre>"
    if case["verdict"] != UNSUPPORTED:
        yield from _what_to_do(case)
    yield "</details>"


def _what_to_do(case: Mapping[str, Any]) -> Iterator[str]:
    again = f"scaler-conformance run --role {case['role']} --case '{case['case']}'"
    yield f"<p><b>Only this case:</b> <code>{escape(again)}</code></p>"
    if case["transcript"]:
        path = escape(case["transcript"])
        yield f'<p><b>Its transcript:</b> <a href="{path}"><code>{path}</code></a>; '
        yield "<code>scaler-conformance replay</code> plays it again.</p>"


def _clauses(content: Mapping[str, Any]) -> Iterator[str]:
    """Clause by clause, a column for each role."""
    roles = list(dict.fromkeys(entry["role"] for entry in content["clauses"]))
    by_clause: dict[str, dict[str, Mapping[str, Any]]] = {}
    for entry in content["clauses"]:
        by_clause.setdefault(entry["id"], {})[entry["role"]] = entry
    yield "<h2>Clause by clause</h2>"
    groups: dict[str, list[str]] = {}
    for clause in by_clause:
        groups.setdefault(clause.partition("-")[0], []).append(clause)
    for prefix, clauses in groups.items():
        entries = [entry for clause in clauses for entry in by_clause[clause].values()]
        counts = Counter(entry["verdict"] for entry in entries)
        told = ", ".join(f"{counts[each]} {_word(each)}" for each in (*ORDER, "not shown") if counts[each])
        yield f'<details><summary><span class="id">{prefix}</span> {told}</summary><table>'
        yield "<tr><th></th><th></th>" + "".join(f"<th>{role}</th>" for role in roles) + "</tr>"
        yield from (_row(by_clause[clause], roles) for clause in clauses)
        yield "</table></details>"


def _row(entries: Mapping[str, Mapping[str, Any]], roles: Iterable[str]) -> str:
    first = next(iter(entries.values()))
    cells = "".join(f"<td>{_cell(entries[role])}</td>" if role in entries else "<td></td>" for role in roles)
    return f'<tr><td class="id">{first["id"]}</td><td>{_prose(first["text"])}</td>{cells}</tr>'


def _cell(entry: Mapping[str, Any]) -> str:
    verdict = entry["verdict"]
    count = len(entry["cases"])
    if verdict == "not shown":
        why = entry["reason"] or "no case of this run shows it"
        return f'<span class="not-shown" title="{escape(why, quote=True)}">–</span>'
    hint = escape(", ".join(entry["cases"]), quote=True)
    return f'<span title="{hint}">{_word(verdict)} <span class="soft">{count}</span></span>'


def _prose(text: str) -> str:
    """Clauses are Markdown: code in backquotes is all of it that they use."""
    pieces = escape(text).replace("**", "").split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))


def _lines(lines: Iterable[str]) -> str:
    return escape("\n".join(lines))
