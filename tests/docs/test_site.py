"""The documentation site: its parts, and the whole of it built."""

from __future__ import annotations

import html
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from scaler import monitoring, telemetry
from tests.architecture.sources import ROOT
from tests.support.browsers import NEEDS_BROWSER

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")

from tools.site import commands, diagrams, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does it, where a warning is a failure."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetching = re.compile(r"""(?:<(?:script|img|iframe|source)\b[^>]*\bsrc|<link\b[^>]*\bhref)=["'](?:https?:)?//""")
    for path in site.rglob("*.html"):
        assert not fetching.search(path.read_text(encoding="utf-8")), path
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_every_option_is_on_its_commands_page(site: Path) -> None:
    for name, entry_point in commands.scripts().items():
        text = html.unescape((site / "commands" / f"{name}.html").read_text(encoding="utf-8"))
        for parser in commands.parsers_of(entry_point):
            shown = [action for action in parser._actions if action.option_strings and action.help != "==SUPPRESS=="]
            for action in shown:
                assert any(option in text for option in action.option_strings), f"{name} {action.option_strings}"


def test_a_clause_can_be_linked_to_and_is(site: Path) -> None:
    text = (site / "protocol" / "03-session.html").read_text(encoding="utf-8")
    assert 'id="ses-9"' in text and 'href="04-liveness.html#liv-7"' in text


@pytest.mark.parametrize("module", [monitoring, telemetry], ids=lambda module: str(module.__name__))
def test_the_reference_has_an_entry_for_each_name(site: Path, module: ModuleType) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    names = [f"{module.__name__}.{name}" for name in module.__all__]
    assert [name for name in names if f'id="{name}"' not in text] == []


def test_the_reference_has_the_client_of_a_local_cluster(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    assert 'id="scaler.cluster.local.LocalClient.cluster"' in text


@NEEDS_BROWSER
def test_the_commands_of_a_block_can_be_copied(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.add_init_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.goto((site / "operations" / "top.html").as_uri())
    block = page.locator("div.highlight-console").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    expected = "pip install 'scaler-client[top]'\nscaler_top tcp://127.0.0.1:2345"
    assert page.evaluate("window.copied") == expected
    assert block.get_by_role("button", name="Copied").count() == 1


def test_examples_are_shown_as_they_are(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "guide" / "nested.html").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "examples" / "nested.py").read_text(encoding="utf-8").strip() in html.unescape(text)


@pytest.mark.parametrize(
    ("name", "page", "written", "turned"),
    [
        ("docs/index.md", "index.md", "[a](../SECURITY.md)", "[a](security.md)"),
        ("docs/guide/map.md", "guide/map.md", "[a](../../protocol/spec/README.md#x)", "[a](../protocol/index.md#x)"),
        ("SECURITY.md", "security.md", "[a](protocol/spec/15-limits.md)", "[a](protocol/15-limits.md)"),
        ("docs/index.md", "index.md", "[a](../pyproject.toml)", "a"),
        ("docs/index.md", "index.md", "[a](https://example.org) [b](#c)", "[a](https://example.org) [b](#c)"),
        ("docs/index.md", "index.md", "```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
    ],
)
def test_links_are_turned(name: str, page: str, written: str, turned: str) -> None:
    assert pages.linked(written, name, page) == turned


def test_a_link_into_nothing_is_a_mistake() -> None:
    with pytest.raises(pages.BrokenLink, match=r"docs/index\.md links to nowhere\.md"):
        pages.linked("[a](nowhere.md)", "docs/index.md", "index.md")


def test_a_diagram_shows_every_state_once() -> None:
    drawn = diagrams.drawn(
        "stateDiagram-v2\n    [*] --> one\n    one --> two_b\n    two_b --> one\n    two_b --> [*]\n"
    )
    assert re.findall(r">([\w ()-]+)</text>", drawn) == ["one (start)", "two-b (end)"]
    assert drawn.count("marker-end") == 2


@pytest.mark.parametrize(
    ("home", "linked"), [("https://example.com/scaler", []), ("https://scaler.invalid/x", ["https://scaler.invalid/x"])]
)
def test_the_site_links_to_the_repository_if_there_is_one(
    home: str, linked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.hatch_metadata.HOME", home)
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    assert [icon["url"] for icon in settings["html_theme_options"]["footer_icons"]] == linked


def test_a_call_has_its_parameters_and_errors(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    entry = text[text.index('id="scaler.Client.submit_verbose"') :].partition('id="scaler.local"')[0]
    words = html.unescape(re.sub(r"<[^>]+>", "", entry))
    assert "priority (int) – a whole number" in words and "ValueError – an option is out of its range" in words
    assert 'id="scaler.ScalerFuture.task_id"' in text and 'id="scaler.ScalerFuture.__init__"' not in text
