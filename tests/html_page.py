"""Pages as tests read them, and what rich prints."""

from __future__ import annotations

import io
from html.parser import HTMLParser

import pytest

#: Elements that have no end.
VOID = {"img", "br", "meta", "link", "hr", "input"}


class Page(HTMLParser):
    """A parse of a page that fails where elements do not nest, and keeps texts, elements and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[str] = []
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def assert_self_contained(self) -> None:
        assert "script" not in self.elements
        assert "link" not in self.elements
        assert all(address.startswith(("data:", "#")) for address in self.addresses), self.addresses


def told(value: object, width: int = 200) -> str:
    """Return what rich prints."""
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=width)
    console.print(value)
    return console.file.getvalue()
