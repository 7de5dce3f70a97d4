"""Math as MathML, made while the site is built: no script, no fonts to fetch, nothing to serve.

Browsers draw it themselves (Firefox and Safari for years, Chromium since version 109), from a file as well as
from a server, with or without a network. A formula that cannot be converted is a warning: it fails the build.
"""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from typing import Any
from xml.etree.ElementTree import fromstring

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)

DIGITS = ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
#: Parts of an element, without which a browser draws an error; the converter lets them be missing.
PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "msubsup": 3, "munderover": 3}
#: Chromium knows letters of other alphabets by their own characters only, not by ``mathvariant``.
ALPHABETS = {"script": "SCRIPT", "double-struck": "DOUBLE-STRUCK", "bold": "BOLD", "fraktur": "FRAKTUR"}
VARIANT = re.compile(r'<(m[in]) mathvariant="([a-z-]+)">(\w)</\1>')


def lettered(match: re.Match[str]) -> str:
    """Return an element whose letter is that of its alphabet, such as 𝒳 for a script X."""
    tag, variant, letter = match.groups()
    if variant not in ALPHABETS:
        return match[0]
    size = "DIGIT" if letter.isdigit() else "CAPITAL" if letter.isupper() else "SMALL"
    name = DIGITS[int(letter)] if letter.isdigit() else letter.upper()
    for block in (f"MATHEMATICAL {ALPHABETS[variant]} {size} {name}", f"{ALPHABETS[variant]} {size} {name}"):
        with suppress(KeyError):
            return f"<{tag}>{unicodedata.lookup(block)}</{tag}>"
    return match[0]


def to_mathml(node: nodes.Node, latex: str, display: str) -> str:
    """Return the MathML of a formula; what cannot be converted is shown as it was written, with a warning."""
    try:
        made = str(convert(latex, display=display))
    except Exception as error:  # the converter has a class for each mistake
        logger.warning("cannot convert the formula %r: %r", latex, error, location=node)
        return f"<code>{latex}</code>"
    if "\\" in made:
        logger.warning("the formula %r has a command that is not converted", latex, location=node)
    for element in fromstring(made).iter():
        tag = element.tag.rpartition("}")[2]
        if len(element) != PARTS.get(tag, len(element)):
            logger.warning("the formula %r lacks a part of a %s", latex, tag, location=node)
    return VARIANT.sub(lettered, made)


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
