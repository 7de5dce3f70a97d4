"""Names in docstrings: those that the reference has become links, the library's inner ones stay code.

A docstring names what its file knows: ``MEKA``, ``gramian.approximations.meka.MEKA``, or an inner function
that the reference leaves out. What is neither is a mistake, and a warning.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.util.nodes import make_refnode

#: Files of the repository's root that are pages of the site too, and link to each other there.
PAGES = {
    "README": "index",
    "CHANGELOG": "changelog",
    "CONTRIBUTING": "contributing",
    "SECURITY": "security",
    "examples": "auto_examples/index",
}
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gramian"


@cache
def inner_names() -> frozenset[str]:
    """Return the last name of every module, class, function and constant of the package."""
    names: set[str] = {"gramian"}
    for path in PACKAGE.rglob("*.py"):
        names.add(path.parent.name if path.stem == "__init__" else path.stem)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return frozenset(names)


def lead_to_pages(app: Any, tree: nodes.document) -> None:
    """Let Markdown's links to files of the root, and to the folder of examples, lead to their pages."""
    for node in tree.findall(pending_xref):
        # Of a file that exists outside the pages MyST makes a whole path without its suffix.
        target = str(node.get("reftarget")).removeprefix(f"{ROOT.as_posix()}/").replace("../", "")
        page = PAGES.get(target.rstrip("/").removesuffix(".md"))
        if page is not None and node.get("reftype") == "myst":
            node.attributes |= {"refdomain": "doc", "reftarget": page, "reftargetid": None}


def lead_to_gallery(app: Any, tree: nodes.document) -> None:
    """Let Markdown's links to examples with pictures lead to their pages, which offer the file too."""
    for node in list(tree.findall(download_reference)):
        path = Path(str(node.get("reftarget")))
        if path.parent.name == "examples" and path.name.startswith("plot_"):
            target = {"refdoc": node.get("refdoc"), "reftarget": f"/auto_examples/{path.stem}"}
            link = pending_xref("", refdomain="std", reftype="doc", refexplicit=True, **target)
            link += nodes.inline("", "", *node.children)
            node.replace_self(link)


def resolve(app: Any, env: Any, node: nodes.Element, content: nodes.Node) -> nodes.Node | None:
    """Return a link to the one object of that name, or the name as code, or None: not found."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"]).lstrip("~.")
    last = target.rpartition(".")[2]
    objects = env.get_domain("py").objects
    found = [name for name in objects if name == target or name.endswith("." + last)]
    shortest = [name for name in found if name.count(".") == min(one.count(".") for one in found)]
    if len(shortest) == 1 and node["reftype"] != "meth":
        entry = objects[shortest[0]]
        return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content)
    return content if last in inner_names() else None


def setup(app: Any) -> dict[str, bool]:
    """Answer where Sphinx finds nothing."""
    app.connect("doctree-read", lead_to_pages)
    app.connect("doctree-read", lead_to_gallery)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
