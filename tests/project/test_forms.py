"""Forms of the issue tracker: complete, with fields that a tracker can show."""

from __future__ import annotations

from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[2] / ".github"
FORMS = sorted(FOLDER.glob("ISSUE_TEMPLATE/[!c]*.yml"))

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the sdist holds no forms of the tracker")


def test_there_is_a_form_for_each_kind():
    assert [path.stem for path in FORMS] == ["bug", "idea", "slow", "wrong_result"]
    assert (FOLDER / "PULL_REQUEST_TEMPLATE.md").is_file()


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_are_complete(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(form) == {"name", "description", "labels", "body"}
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names)
    assert any(field.get("validations", {}).get("required") for field in form["body"])
    for field in form["body"]:
        assert field["type"] in {"textarea", "checkboxes"}
        assert field["attributes"]["label"]
        # Without a description a field of text asks nothing.
        assert field["type"] == "checkboxes" or field["attributes"]["description"]
