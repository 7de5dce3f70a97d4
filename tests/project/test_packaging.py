"""Metadata of the project: one version, a valid citation, pins that fit."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import gramian as gm

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(\[.*\])?(>=([\d.]+))?")


def listed(requirements):
    """Return {name in lower case: least version or None}, without gramian's own extras."""
    found = [REQUIREMENT.match(text) for text in requirements]
    return {match[1].lower().replace("_", "-"): match[4] for match in found if match[1] != "gramian"}


def every_requirement():
    extras = PROJECT["optional-dependencies"].values()
    return {k: v for group in (PROJECT["dependencies"], *extras) for k, v in listed(group).items()}


def pins():
    # Names with - and _ are the same to pip.
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    parts = [line.split(";")[0].strip().split("==") for line in lines if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): number for name, number in parts}


def numbers(text):
    return [int(part) for part in re.findall(r"\d+", text)]


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


class TestVersion:
    def test_it_is_written_once(self):
        assert PROJECT["dynamic"] == ["version"]
        assert "version" not in PROJECT
        # An older number here means an installation from before the change: install again.
        assert version("gramian") == gm.__version__
        assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", gm.__version__)

    @pytest.mark.slow
    def test_the_command_line_shows_it(self):
        pytest.importorskip("typer")
        command = [sys.executable, "-m", "gramian.cli", "--version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said == f"gramian {gm.__version__}\n"

    def test_pages_name_the_same(self, citation):
        assert citation["version"] == gm.__version__
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        named = re.findall(r"[Vv]ersion (\d+\.\d+\.\d+)", readme)
        assert set(named) <= {gm.__version__}
        assert gm.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


class TestCitation:
    """The rules of the Citation File Format 1.2.0 that apply to what the file holds."""

    KINDS = ("article", "book", "conference-paper", "generic", "report", "software", "thesis")
    TEXTS = ("message", "title", "license", "journal", "collection-title", "doi", "url", "abstract")

    def test_keys(self, citation):
        assert citation["cff-version"] == "1.2.0"
        assert {"message", "title", "authors", "version", "license", "type"} <= set(citation)
        assert citation["type"] in ("software", "dataset")
        assert citation["license"] == PROJECT["license"]

    def test_every_entry(self, citation):
        for entry in (citation, *citation["references"]):
            assert entry["type"] in self.KINDS
            assert entry["authors"]
            for author in entry["authors"]:
                # A person has names in two parts, a group one name.
                assert set(author) in ({"name"}, {"family-names", "given-names"}), author
                assert all(isinstance(text, str) and text for text in author.values())
            assert all(isinstance(entry[key], str) for key in self.TEXTS if key in entry)
            assert isinstance(entry.get("year", 0), int)
            assert entry["title"]

    def test_no_reference_twice(self, citation):
        titles = [entry["title"] for entry in citation["references"]]
        assert len(set(titles)) == len(titles)


class TestPins:
    def test_every_dependency_is_pinned_and_the_pin_is_allowed(self):
        pinned = pins()
        for name, least in every_requirement().items():
            assert name in pinned, f"constraints.txt has no pin of {name}"
            if least:
                assert numbers(pinned[name]) >= numbers(least), f"{name}=={pinned[name]} is below {least}"

    def test_every_least_version_is_named(self):
        for name, least in every_requirement().items():
            assert least or "stubs" in name or name.startswith("types-"), f"{name} has no least version"

    def test_classifiers_name_the_pythons_of_the_makefile(self):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        tested = re.search(r"^PYTHONS := (.+)$", makefile, re.MULTILINE)[1].split()
        classified = [
            text.rsplit(" ", 1)[1]
            for text in PROJECT["classifiers"]
            if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", text)
        ]
        assert set(classified) <= {"3.11", *tested}
        assert PROJECT["requires-python"] == ">=3.11"


def test_the_security_note_is_linked():
    for page in ("CONTRIBUTING.md", "docs/model-files.md"):
        assert "SECURITY.md" in (ROOT / page).read_text(encoding="utf-8"), page
