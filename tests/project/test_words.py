"""Wording: modules say what they provide, and pages keep to plain English."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole  # each configuration is about another page or file

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "tools", "docs/_ext")
#: "What the estimators share" names no thing: a reader of file lists learns nothing from it.
RIDDLE = re.compile(r"(?:What|How|Where|Which|Whether|Who|Why|When)\b")


#: The docstring that a module begins with.
OPENING = re.compile(r'(?:#.*\n|\s)*r?"""(.*?)"""', re.DOTALL)


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_say_what_they_provide(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    openings = {}
    for path in files:
        first = OPENING.match(path.read_text(encoding="utf-8"))
        openings[path.relative_to(ROOT).as_posix()] = first[1] if first else ""
    if folder == "src":
        assert [name for name, text in openings.items() if not text] == []
    assert {name: text for name, text in openings.items() if RIDDLE.match(text)} == {}


#: Text that scripts make, and fenced blocks: neither is prose.
MADE = re.compile(
    r"<!-- (?:printed|measured|table|frontier): .*?<!-- (?:end|table: end) -->|^(`{3,}|:{3,}).*?^\1$",
    re.DOTALL | re.MULTILINE,
)
#: Riddles of the guide to style, and what to write instead.
BETTER = {
    r"\b[Tt]he (?:former|latter)\b": "repeat the noun",
    r"\b[Tt]heirs\b": "repeat the noun",
    r", of which\b": "begin a new sentence",
    r"\bfeatures of which\b": "begin a new sentence",
    r"\brows? that judges?\b|\bthe judges\b|\ba judge\b": "validation rows, or held-out rows",
    r"\bgaps as\b|\bwords and gaps\b|\b(?:have|dates and|or no and) gaps\b": "missing values",
    r"\byes or no and\b": "boolean columns",
    r"\bbut that (?:of|rounds)\b|\bbut for `": "except",
    r"\bfor nobody\b": "because nobody",
    r"\bnone that is least\b": "no minimum",
    r"^As for :": "say it here",
    r"^Part of the rows\b": "fraction of the rows",
    r"\b[Oo]ne alone has all\b": "a single model uses all threads",
    r"\bof theirs\b": "repeat the noun",
    r"\bnumbers, words(?:,| and)|\b[Ww]ords, dates\b|\bwith words, (?:skewed )?numbers\b": "text columns",
    r"\bnumbers and gaps\b": "missing values",
    r"\b(?:tables?|sets?|rows) it fits in\b": "subject, verb, object",
    r"\b[Ll]east number of rows of\b|\brows of no deviation\b": "needs at least; average rows",
    r"^Those of\b": "name the thing",
    r"\bwhat is not is\b": "implicit zeros",
    r"\bnot one along which\b": "may vary along it even if",
    r"\btimid\b": "too conservative",
    r"\bit is asked (?:several|many) times\b": "its predictions are slower",
    r"\bof which there (?:is|are) no\b": "fit keeps none",
    r"\breplaces K by\b": "say what the reader can do",
    r"\berror each\b|\bthat the field has\b": "an error estimate; the published approximations",
    r"\b\d+ of \d+ of more\b|\bno other has an error\b": "multiclass sets; sets where it is best",
    r"\bare of the [\w ]+ alone\b": "only the … support",
    r"\b(?:no|every)where, (?:no|every)where\b|\beverywhere and everywhere\b": "a table",
    r"^What (?!is\b|happens\b|we\b|to\b|not\b|they\b|the\b|growth\b|new\b)[a-z]+ ": "name the thing",
}
#: Pages that a script writes as a whole, and lists of changes.
NOT_PROSE = {"side-by-side.md", "tables-benchmark.md", "tables-full-size.md", "changelog.md"}
PAGES = [
    path
    for path in sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
    if not {"auto_examples", "generated"} & set(path.parts) and path.name not in NOT_PROSE
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_are_in_plain_english(page):
    text = MADE.sub(lambda made: "\n" * made[0].count("\n"), page.read_text(encoding="utf-8"))
    found = [
        f"line {number}: {match[0].strip()!r}: {advice}"
        for number, line in enumerate(text.splitlines(), 1)
        for riddle, advice in BETTER.items()
        if (match := re.search(riddle, line))
    ]
    assert found == []


def test_the_readme_fits_a_screen_or_two():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


#: README, the landing page, and the pages that newcomers enter by.
DOORS = (
    "README.md",
    *(f"docs/{name}.md" for name in ("index", "tables", "make-any-model-fast", "kernels-at-scale")),
    "docs/papers/index.md",
)
LONGEST_SENTENCE = 40
#: What is no sentence: code, directives, comments, headings, pictures, tables.
NO_SENTENCE = re.compile(
    r"^(`{3,}|:{3,}).*?^\1$|<!--.*?-->|^#.*?$|^\(.*\)=$|^!\[.*?$|^\|.*?$", re.DOTALL | re.MULTILINE
)


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a page that are longer than a reader holds in mind."""
    text = re.sub(r"\]\([^)]*\)", "]", NO_SENTENCE.sub("", text))
    paragraphs = re.split(r"\n\s*\n|^\s*(?:-|\d+\.) ", text, flags=re.MULTILINE)
    sentences = [
        one for each in paragraphs for one in re.split(r"(?<=[.!?])[\"*)\]]*\s+", " ".join(each.split()))
    ]
    return [one for one in sentences if len(re.findall(r"\S*\w\S*", one)) > LONGEST_SENTENCE]


@pytest.mark.parametrize("page", DOORS)
def test_sentences_of_the_doors_are_short(page):
    assert long_sentences((ROOT / page).read_text(encoding="utf-8")) == []


def test_long_sentences_are_found():
    long = "word " * 41 + "end.\nShort one.\n"
    assert [one.split()[-1] for one in long_sentences(f"# Title\n\n- Short.\n- {long}")] == ["end."]
    assert long_sentences(f"```\n{long}```\n\n| {long.splitlines()[0]} |\n\nA. {'b ' * 39}c.") == []


@pytest.mark.parametrize("page", DOORS)
def test_text_that_scripts_write_into_the_doors_is_plain_too(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [riddle for riddle in BETTER if re.search(riddle, text, re.MULTILINE)] == []


#: Phrases that the guide to style lists as bad, as they stood in this project.
LISTED = (
    "Part of the rows that judges, and such rows at most.",
    "One alone has all threads; of two each has one.",
    "but that rounds of the metric are chosen by the same rows",
    "a single class has none that is least",
    "how many eigenvalues of theirs above alpha",
    "a table of numbers, words, dates, yes or no and gaps",
    "Small tables it fits in 0.1 to 0.3 seconds",
    "Least number of rows of a level",
    "Those of models of tables, of 2023",
    "what is stored is either; what is not is 0",
    "is not one along which it cannot",
    "its leading directions scaled, of which M is never formed",
    "Platt's single row makes probabilities timid",
    "it is asked several times slower, which must be worth it",
    "go on after fit, of which there are no sums",
    "replaces K by a compressed operator",
    "with an estimate of its error each",
    "the approximations that the field has",
    "flats with words, skewed numbers and gaps",
    "no other has an error lower by more than 3 %",
    "10 of 13 of more",
    "Streams and Dask are of the ridge models alone",
    "nowhere, nowhere and nowhere; everywhere, everywhere and everywhere",
)


@pytest.mark.parametrize("phrase", LISTED)
def test_phrases_of_the_guide_to_style_are_found(phrase):
    assert any(re.search(riddle, phrase) for riddle in BETTER)


@pytest.mark.parametrize(
    ("bad", "fine"),
    [
        ("A table of words and gaps.", "The gap grows with gamma."),
        ("Rows that judge.", "How to judge the result."),
        ("Three blocks, of which two are small.", "The text of which it consists."),
        ("As for :class:`X`.", "It works as for rows."),
    ],
)
def test_riddles_are_found(bad, fine):
    assert any(re.search(riddle, bad, re.IGNORECASE) for riddle in BETTER)
    assert not any(re.search(riddle, fine) for riddle in BETTER)


#: Pages of one table or one picture, indexes, and pages that are to be rewritten.
NO_PROMISE = {
    "index.md",
    "chooser.md",
    "other-words.md",
    "layers.md",
    "how-to.md",
    "security.md",
    "contributing.md",
}
FIRST_OF_ALL = [
    path
    for path in PAGES
    if path.parent in (ROOT / "docs", ROOT / "docs" / "tutorials", ROOT / "docs" / "explanations")
    and (path.name not in NO_PROMISE or path.parent.name in ("tutorials", "explanations"))
]


@pytest.mark.parametrize("page", FIRST_OF_ALL, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_begin_with_what_the_reader_can_do(page):
    opening = page.read_text(encoding="utf-8")[:500]
    assert re.search(r"After th(?:is|ese) (?:page|tutorial)s? you|\bYou (?:fit|build|train|have)\b", opening)
