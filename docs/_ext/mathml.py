"""Math as MathML, made while the site is built: no script, no fonts to fetch, nothing to serve.

Browsers draw it themselves (Firefox and Safari for years, Chromium since version 109), from a file as well as
from a server, with or without a network. A formula that cannot be converted is a warning: it fails the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def to_mathml(node: nodes.Node, latex: str, display: str) -> str:
    """Return the MathML of a formula; what cannot be converted is shown as it was written, with a warning."""
    try:
        return str(convert(latex, display=display))
    except Exception as error:  # the converter has a class for each mistake
        logger.warning("cannot convert the formula %r: %r", latex, error, location=node)
        return f"<code>{latex}</code>"


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    translator.body.append(to_mathml(node, node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number where it has a label."""
    latex = node.astext()
    if r"\\" in latex and r"\begin" not in latex:
        latex = r"\begin{aligned}" + latex + r"\end{aligned}"
    number = node.get("number")
    start = translator.starttag(node, "div", CLASS="math-block", ids=[node["ids"][0]] if node["ids"] else [])
    translator.body.append(start + to_mathml(node, latex, "block"))
    if number is not None:
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
