"""Sphinx's settings: `make docs` stages the pages of the site and calls Sphinx (tests/docs/build_site.py)."""

import layoutalg
from tests.docs.docstrings import as_rst

project = "layoutalg"
author = "layoutalg"
release = version = layoutalg.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["files/**", "_extra/**"]
suppress_warnings = ["ref.python"]  # a name that several rooms offer, in a signature
root_doc = "index"
highlight_language = "text"
smartquotes = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_default_options = {"no-value": True}
autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
maximum_signature_line_length = 90
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"layoutalg {release}"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

linkcheck_anchors = False
linkcheck_timeout = 10


def setup(app: object) -> None:
    """Docstrings are plain text: they are made reStructuredText on the way."""

    def process(*event: object) -> None:
        lines = event[-1]
        assert isinstance(lines, list)
        lines[:] = as_rst(lines)

    app.connect("autodoc-process-docstring", process)  # type: ignore[attr-defined]
