"""Settings of the documentation: ``make docs`` builds it into build/docs."""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "gramian"
author = "The gramian developers"
copyright = author
release = version = installed_version("gramian")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "docstrings",  # ours; before numpydoc, which reads what it leaves
    "numpydoc",
    "myst_parser",
    "mathml",  # ours
    "references",  # ours
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_ext",
    "_static",
    "_templates",
    "**/GALLERY_HEADER.rst",
    "auto_examples/*.py",
    "**/sg_execution_times.rst",
]
templates_path = ["_templates"]
nitpicky = True

# Markdown: pages read the same in the viewer of a repository.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
# Math that has no dollars stays as it is written.
myst_dmath_double_inline = True

html_math_renderer = "mathml"

# Beside a class its methods by their own names.
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autodoc_member_order = "bysource"
# The signature says the types, as they are written; the text says what they mean.
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "gramian"
html_static_path = ["_static"]
html_css_files = ["gramian.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_nav_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navbar_end": ["versions.html", "theme-switcher", "navbar-icon-links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_bar_text": "Search: categories, SVM, GP, Parquet ...",
}
# Without it the theme complains on the console of a reader who has not chosen.
html_context = {
    "default_mode": "auto",
    # Each version of the site has a folder of its own; a release adds a line with its address.
    "versions": json.loads((Path(__file__).parent / "versions.json").read_text(encoding="utf-8")),
}
NO_SIDEBAR = ("index", "tasks", "chooser", "coming-from", "glossary", "changelog", "security", "contributing")
html_sidebars = {name: [] for name in NO_SIDEBAR}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"[\\/](?!plot_)[^\\/]*\.py$",  # the scripts without pictures stay scripts
    "within_subsection_order": "FileNameSortKey",
    "reference_url": {"gramian": None},
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 5,
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "log_level": {"backreference_missing": "debug"},
}
# As in the tests: an example that warns is not finished.
warnings.filterwarnings("error", module="gramian")

suppress_warnings = ["config.cache"]
