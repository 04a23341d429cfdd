"""The documentation site: `make docs` builds it, and every warning is an error."""

import sys
from pathlib import Path

import hpsde

sys.path.insert(0, str(Path(__file__).parent))

project = "hpsde"
author = "The hpsde authors"
version = release = hpsde.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"hpsde {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.strikethrough"]

# Pages outside docs/ that the site has too: a link to the file is one to its page.
OUTSIDE = {
    "../README.md": "index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../benchmarks/results/ablation.md": "results_ablation.md",
    "../benchmarks/results/gauntlet.md": "results_gauntlet.md",
    "../benchmarks/results/gpu.md": "results_gpu.md",
    "../benchmarks/results/peers.md": "results_peers.md",
}

# Docstrings are plain text: a name in single backticks is code.
default_role = "code"
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80


def link_to_pages(app, docname, source):
    """Links to files outside docs/ that are pages here."""
    for file, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({file}", f"]({page}")


def setup(app):
    """Connect the above."""
    app.connect("source-read", link_to_pages)
