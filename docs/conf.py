"""The documentation as a site: ``make docs``, with Sphinx, MyST and Furo. It works offline."""

import re
from pathlib import Path

project = "schedlab"
author = "schedlab"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["conf.py"]
html_theme = "furo"
html_title = "schedlab"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# A page opened as a file may not read others, from which search would take a few lines each.
html_show_search_summary = False
smartquotes = False
# As GitHub makes them, so that a link leads to a heading in both.
myst_heading_anchors = 4
# The same sources give the same bytes.
html_last_updated_fmt = None
# The language of workloads is JSON with rt-app's freedoms; a recorded line is no program.
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]

DOCS = Path(__file__).parent
KINDS = ("Tutorials", "Guides", "Concepts", "Reference", "Results")


def setup(app):
    """Have pages adapted as they are read."""
    app.connect("source-read", _read)


def _read(app, name, source):
    """Give the index a table of contents, and pages no links to files of the repository's root.

    On the repository's own pages those links work; the site does not have those files.
    """
    del app
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)+([A-Z]+\.md)\)", r"\1 (`\2`)", source[0])
    if name == root_doc:
        text += "\n".join(_contents(text))
    source[0] = text


def _contents(index):
    """Return a hidden table of contents a kind of pages, in the order of the index."""
    for kind in KINDS:
        pages = re.findall(rf"\(({kind.lower()}/[\w./-]+)\.md", index)
        yield f"\n```{{toctree}}\n:hidden:\n:caption: {kind}\n"
        yield from dict.fromkeys(page for page in pages if (DOCS / f"{page}.md").exists())
        yield "```\n"
