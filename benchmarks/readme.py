"""Keeps the README's table what `make bench` last printed."""

from benchmarks.engine_process import ROOT

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def write(about: str, table: str) -> None:
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(f"{head}{BEGIN}\n{about}\n\n{table}\n{END}{tail}", encoding="utf-8")
