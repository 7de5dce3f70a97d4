"""Workflows of the tracker and the conda recipe: complete, and in step with Makefile and pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import gramian

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the sdist holds no workflows")


def test_there_is_a_workflow_for_each_purpose():
    assert [path.stem for path in WORKFLOWS] == ["nightly", "release", "tests"]
    systems = yaml.safe_load((FOLDER / "tests.yml").read_text(encoding="utf-8"))["jobs"]["quick"]
    assert systems["strategy"]["matrix"]["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_complete(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    # YAML 1.1 reads the key "on" as true.
    assert set(workflow) - {"concurrency"} == {"name", True, "permissions", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert 0 < job["timeout-minutes"] <= 180
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
            else:
                assert step["name"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_workflows_run_exists(path):
    text, makefile = path.read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    for targets in re.findall(r"\bmake ([a-z -]+)", text):
        for target in targets.split():
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for extras in re.findall(r"\.\[([a-z,]+)\]", text):
        assert set(extras.split(",")) <= set(EXTRAS)


def test_the_recipe_has_version_and_requirements_of_the_project():
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    assert f'set version = "{gramian.__version__}"' in text
    plain = re.sub(r"\{%.*?%\}", "", text).replace("{{ version }}", "0").replace("{{ PYTHON }}", "python")
    recipe = yaml.safe_load(plain)
    needed = [re.sub(r">=", " >=", text) for text in PROJECT["dependencies"]]
    assert set(recipe["requirements"]["run"]) == {f"python {PROJECT['requires-python']}", *needed}


def test_all_is_every_extra_for_users():
    ours = {"docs", "bench", "peers", "test", "dev", "all"}
    (named,) = EXTRAS["all"]
    assert set(re.search(r"\[(.+)\]", named)[1].split(",")) == {
        name for name, needs in EXTRAS.items() if needs and name not in ours
    }
