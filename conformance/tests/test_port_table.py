"""The table of what each port supports says what the ports' manifests claim."""

from __future__ import annotations

from conformance.tools import ports


def test_the_table_of_the_ports_is_that_of_their_manifests() -> None:
    text = ports.README.read_text(encoding="utf-8")
    assert ports.BEGIN in text and ports.END in text
    assert ports.renewed(text) == text, "run python -m conformance.tools.ports"


def test_a_feature_that_no_manifest_claims_is_not_in_the_table() -> None:
    rows = {line.split("|")[1].strip(): line for line in ports.made().splitlines()[2:]}
    assert rows.keys() >= {"`memfd`", "`chains`", "`code-sets`"}
    assert "`live-owners`" not in rows, "which is between servers"
    assert rows["`chains`"].split("|")[2:4] == ["  ", " yes "], "clients of C++, which have no chains, and its worker"
