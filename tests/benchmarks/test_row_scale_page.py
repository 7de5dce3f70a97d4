"""The table of bands in docs/uncertainty.md is that of the stored lines."""

from __future__ import annotations

from pathlib import Path

import row_scale


def test_the_page_shows_what_is_stored() -> None:
    page = Path(row_scale.__file__).parents[1] / "docs" / "uncertainty.md"
    assert f"{row_scale.MARKS[0]}\n\n{row_scale.markdown(row_scale.lines())}\n\n{row_scale.MARKS[1]}" in (
        page.read_text(encoding="utf-8")
    )


def test_stored_lines_say_what_ran_where() -> None:
    for line in row_scale.lines():
        assert line["commit"]
        assert line["machine"]
        assert line["versions"]["gramian"]
        assert len(line["factors of rows"]["thirds"]) == 3
