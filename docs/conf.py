"""How Sphinx builds the manual: `make docs`, then open docs/_build/html/index.html."""

import inspect
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The notebooks stand beside the manual; Sphinx reads only what is inside.
for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
    shutil.copyfile(notebook, ROOT / "docs" / "notebooks" / notebook.name)
sys.path.insert(0, str(ROOT / "docs"))
# Pages run in kernels of their own, which share compiled programs.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAXMBD_COMPILE", "quick")
os.environ.setdefault("JAXMBD_CACHE", str(ROOT / ".cache" / "programs"))

from docstrings import prepared
from docutils import nodes
from embedding import prepare
from reading_examples import example_of
from signatures import ELSEWHERE, signature_of
from sphinx import addnodes

import jaxmbd

prepare(ROOT / "docs" / "_static")

project = "jaxmbd"
author = "the jaxmbd developers"
release = version = jaxmbd.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "notebooks/.ipynb_checkpoints"]

# Every code cell runs when the manual is built; an error ends the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / ".cache" / "docs")
nb_execution_raise_on_error = True
nb_execution_excludepatterns = ["notebooks/*"]  # stored with their outputs, see `make notebooks`
# DOCS_SHARE=K/N runs one of N parts of the pages, as continuous integration does.
if "DOCS_SHARE" in os.environ:
    part, parts = map(int, os.environ["DOCS_SHARE"].split("/"))
    pages = sorted(page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md"))
    others = [page.as_posix() for k, page in enumerate(pages) if k % parts != part]
    nb_execution_excludepatterns += others
    suppress_warnings = ["myst-nb.lexer"]  # a page that does not run knows no language
nb_execution_timeout = 300
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 10)]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# Signatures as they are written, without JAX's long names of types.
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # shapes stand in the text
napoleon_custom_sections = ["Reference", "References", ("Class attributes", "params_style")]

html_theme = "furo"
html_title = f"jaxmbd {release}"
html_static_path = ["_static"]
html_css_files = ["views.css"]
html_js_files = ["views.js"]
html_theme_options = {"navigation_with_keys": True}


def _read_docstring(app, what, name, obj, options, lines):
    lines[:] = prepared(lines)
    if what in ("class", "function"):
        # Under the entry itself, not under its methods.
        lines += example_of(name.rpartition(".")[2])


def _read_signature(app, what, name, obj, options, signature, returned):
    known = what in ("class", "exception", "function", "method")
    found = signature_of(obj, what) if known else None
    return found if found is not None else (signature, returned)


def _skip(app, what, name, obj, skip, options):
    """A method is explained where an interface declares it, not in every class that has it."""
    function = getattr(obj, "fget", obj)
    return skip or (inspect.isfunction(function) and not function.__doc__)


def _tidy(app, doctree, page):
    """Several names of one field get their space back, and what a class holds its usual name."""
    for field in doctree.findall(nodes.field):
        if field[0].astext() == "Variables":
            field[0][:] = [nodes.Text("Attributes")]
    for name in doctree.findall(addnodes.literal_strong):
        if "," in name.astext():
            name[:] = [nodes.Text(name.astext().replace(",", ", "))]


def _elsewhere(app, env, node, contnode):
    """Links to what other packages explain; the build needs no network for them."""
    url = ELSEWHERE.get(node.get("reftarget", "").rpartition(".")[2])
    if node.get("refdomain") != "py" or url is None:
        return None
    return nodes.reference("", "", contnode, internal=False, refuri=url)


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", _read_signature)
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _elsewhere)
    app.connect("doctree-resolved", _tidy)
    app.connect("autodoc-process-docstring", _read_docstring, priority=100)
    return {"parallel_read_safe": True}
