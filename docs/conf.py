"""Configuration of the documentation: `make docs` builds it, offline."""

from __future__ import annotations

import sys
from pathlib import Path

import hornbeam

sys.path.insert(0, str(Path(__file__).parent))  # the extensions below

project = "Hornbeam"
author = "The Hornbeam maintainers"
copyright = author
release = version = hornbeam.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "command_page",
    "parameter_page",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autosummary_generate = True
templates_path = ["_templates"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Methods in the sidebar without the class, which would not fit.
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "Hornbeam"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
