"""How Sphinx builds the site: `make docs`. Nothing is fetched while it builds or is read."""

import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

from littlestone._display import library_version

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

project, author = "littlestone", "The littlestone authors"
release = version = library_version()
language = "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["*.ipynb", "*.py"]
nitpicky = False

# Headings get the anchors that code hosts give them, so that one link works in both places.
myst_heading_anchors = 4
# `<img src="..." width="...">` is a picture of the site, too.
myst_enable_extensions = ["html_image"]
# Blocks without a language are plain: tables, commands, trees.
highlight_language = "none"

autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "bysource"}
autodoc_typehints = "none"
# A name in backticks is a link, where there is such a name.
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
# A page for each object that a table of the reference lists, in reference/api.
autosummary_generate = True
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "littlestone"
html_static_path: list[str] = []
# Copied as they are.
html_extra_path = ["whatif.html"]
# Pages that have no others below them need no navigation on the left.
html_sidebars: dict[str, list[str]] = {"index": [], "tutorial": [], "contributing": []}
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "littlestone"},
}
html_show_sourcelink = False
copyright = f"{author}. MIT licence"  # noqa: A001


def _forget_objects(app: Sphinx, config: Config) -> None:
    """Remove the pages of objects: one of an object that is gone would be in no table."""
    shutil.rmtree(ROOT / "docs" / "reference" / "api", ignore_errors=True)


def _inside_the_site(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead links to pages above docs/ to the pages of the site that hold them."""
    up = "../" * docname.count("/")
    source[0] = source[0].replace(f"]({up}../CONTRIBUTING.md", f"]({up}contributing.md")


def _inherited_from_elsewhere(
    app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave out what river, scikit-learn and Python define: they document it."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None)
    return True if home is not None and not home.startswith("littlestone") else None


def setup(app: Sphinx) -> None:
    app.connect("config-inited", _forget_objects)
    app.connect("autodoc-skip-member", _inherited_from_elsewhere)
    app.connect("source-read", _inside_the_site)
