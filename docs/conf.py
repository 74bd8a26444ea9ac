"""Sphinx settings. `make docs` gathers the sources and builds them: see tools/site."""

from pathlib import Path

from tools.hatch_metadata import HOME
from tools.release.__main__ import PLACEHOLDER

_ROOT = Path(__file__).resolve().parents[1]

project = "Scaler"
author = "The Scaler maintainers"
release = (_ROOT / "VERSION").read_text(encoding="utf-8").strip()
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
default_role = "code"  # docstrings write names as Markdown does
myst_enable_extensions = ["deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4

# Code blocks in no language of their own are shown as they are.
highlight_language = "text"

html_theme = "furo"
html_title = f"Scaler {release}"
html_static_path = ["static"]
html_css_files = ["scaler.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_search_scorer = str(_ROOT / "docs" / "search" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {
    # There is no link while the project has no home: see CONTRIBUTING.
    "footer_icons": []
    if HOME.startswith(PLACEHOLDER)
    else [{"name": "Repository", "url": HOME, "html": "Repository", "class": ""}],
    "top_of_page_buttons": [],
    # Fonts of the reader's own machine: a page loads nothing from elsewhere.
    "light_css_variables": {"font-stack": "system-ui, sans-serif", "font-stack--monospace": "ui-monospace, monospace"},
}
