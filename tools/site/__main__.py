"""`python -m tools.site [FOLDER]`: gather the sources in build/docs/source, and make the pages in build/docs/html of
them. Another folder may take the place of build/docs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

from tools.changelog import BadFragment
from tools.site.commands import NoParser
from tools.site.pages import BrokenLink, gather
from tools.site.places import BUILD, DOCS
from tools.site.words import BadWords


def build(folder: Path) -> int:
    source, pages = folder / "source", folder / "html"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(pages, ignore_errors=True)
    try:
        gather(source)
    except (BadFragment, BadWords, BrokenLink, NoParser) as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    # A warning is a mistake: a page without a link to it, a link into nothing, a block in no known language.
    options = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(DOCS), "-d", str(folder / "doctrees")]
    code = int(sphinx_build([*options, str(source), str(pages)]))
    if code == 0:
        print(f"open {pages / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else BUILD))
