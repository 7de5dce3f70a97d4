"""The library's terse docstrings, rewritten as numpydoc wants them.

In the source ``name : what it is`` may stand in one line, and a paragraph after the attributes (cost, errors,
source) needs no heading. numpydoc would take the first for a type and the second for a parameter.
"""

from __future__ import annotations

import re
from typing import Any

PARAMETERS = {"Parameters", "Other Parameters", "Attributes"}
RESULTS = {"Returns", "Yields", "Raises", "Warns"}
#: ``alpha``, ``rank, n_blocks``, ``*args`` or ``figure_, axes_ : text``.
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$")
#: What a type looks like: no sentence, and only names, brackets and defaults.
TYPE = re.compile(
    r"^(?:(?:str|int|float|bool|array|list|dict|tuple|callable|path|None|ndarray|sequence|number|object|"
    r"unfitted|[A-Z]\w+)\b|\{)(?:[^.;:]|\.\d){0,80}$"
)
UNDERLINE = re.compile(r"^-{3,}\s*$")
#: Groups of a class's parameters on its page; those without one come first, as the model's own.
GROUPS = {
    "Kernel": "kernel gamma degree coef0 kernel_params metric standardize scaling ard bounds p q lengthscale",
    "Size": "approximation rank n_blocks root_rank n_levels max_bytes landmarks oversampling partition core "
    "core_oversampling rank_rule n_components n_landmarks n_experts n_leaves n_units n_directions leaf_size "
    "branching draws sparse_output recompress svd diagonal cutoff",
    "Resources": "memory_budget tile_dtype time_limit effort checkpoint engine batch_rows n_jobs verbose "
    "random_state",
}
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}
#: The fewest parameters that are shown in groups.
FEWEST = 8
#: The first line of an entry of numpydoc's list.
SHOWN = re.compile(r"^    \*\*(\w+(?:, \w+)*)\*\*(.*)$")


def sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Cut a docstring into (heading, lines); the text before the first heading has an empty one."""
    cut: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        if UNDERLINE.match(line) and cut[-1][1] and cut[-1][1][-1].strip():
            cut.append((cut[-1][1].pop().strip(), []))
        else:
            cut[-1][1].append(line)
    return cut


def entries(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return (entries as numpydoc wants them, the free paragraphs that followed them)."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        match = ENTRY.match(line) if line[:1].strip() else None
        if line[:1].strip() and match is None and " : " not in line:
            return kept, lines[number:]
        if match is None or match[2] is None or TYPE.match(match[2]):
            kept.append(line)
        else:
            kept += [match[1], "    " + match[2]]
    return kept, []


def with_heading(lines: list[str]) -> list[str]:
    """Return a docstring without headings whose ``name : text`` lines got theirs."""
    first = next(
        (
            number
            for number, line in enumerate(lines[1:], 1)
            if not lines[number - 1].strip() and (match := ENTRY.match(line)) and match[2] is not None
        ),
        None,
    )
    if first is None:
        return lines
    return [*lines[:first], "Parameters", "----------", *lines[first:]]


def rewrite(lines: list[str]) -> list[str]:
    """Return the docstring with entries apart and free paragraphs under Notes."""
    out: list[str] = []
    notes: list[str] = []
    written = False
    cut = sections(lines)
    if not any(heading in PARAMETERS for heading, _ in cut):
        cut = sections([*with_heading(cut[0][1]), *lines[len(cut[0][1]) :]])
    for heading, text in cut:
        if heading in PARAMETERS or heading in RESULTS:
            text, free = entries(text) if heading in PARAMETERS else results(text)
            notes += [*free, ""] if free else []
        elif heading == "Notes" and notes:
            text = [*text, "", *notes]
            written = True
        elif heading in ("Examples", "References") and notes and not written:
            out += ["Notes", "-----", *notes]
            written = True
        out += [heading, "-" * len(heading), *text] if heading else text
    if notes and not written:
        out += ["", "Notes", "-----", *notes]
    return out


def results(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return (what is returned, the free paragraphs after it)."""
    for number, line in enumerate(lines):
        if number > 1 and line[:1].strip() and not lines[number - 1].strip():
            following = lines[number + 1] if number + 1 < len(lines) else ""
            if not following.startswith(" ") and not re.match(r"^\w+ : ", line):
                return lines[:number], lines[number:]
    return lines, []


def grouped(lines: list[str]) -> list[str]:
    """Return what numpydoc has made, with the parameters of one group together below the group's name."""
    start = next((i for i, line in enumerate(lines) if line.startswith(":Parameters:")), None)
    if start is None:
        return lines
    stop = next((i for i in range(start + 1, len(lines)) if lines[i][:1].strip()), len(lines))
    shown = [(i, match) for i in range(start + 1, stop) if (match := SHOWN.match(lines[i]))]
    if sum(len(match[1].split(", ")) for _, match in shown) < FEWEST:
        return lines
    ends = [*(i for i, _ in shown[1:]), stop]
    groups: dict[str, list[str]] = {"Model": [], **{group: [] for group in GROUPS}}
    for (i, match), end in zip(shown, ends, strict=True):
        # What stands behind several names is said of each group of them.
        names = match[1].split(", ")
        for group in dict.fromkeys(GROUP_OF.get(name, "Model") for name in names):
            own = [name for name in names if GROUP_OF.get(name, "Model") == group]
            groups[group] += [f"    **{', '.join(own)}**{match[2]}", *lines[i + 1 : end]]
    body = [line for group, own in groups.items() if own for line in (f"    *{group}*", "", *own)]
    return [*lines[: shown[0][0]], *body, *lines[stop:]]


def process(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Hook of autodoc, before numpydoc's."""
    lines[:] = rewrite(lines)


def group(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Hook of autodoc, behind numpydoc's."""
    if what == "class":
        lines[:] = grouped(lines)


def skip(app: Any, what: str, name: str, obj: Any, leave_out: bool, options: object) -> bool | None:
    """Leave out what scikit-learn, enumerations and NumPy give to our classes: their own pages have it."""
    function = obj.fget if isinstance(obj, property) else getattr(obj, "__func__", obj)
    home = getattr(function, "__module__", None) or ""
    if what == "class" and callable(function) and not home.startswith("gramian"):
        return True
    return None


def setup(app: Any) -> dict[str, bool]:
    """Come before numpydoc, whose hook has the usual priority of 500, and after it."""
    app.connect("autodoc-process-docstring", process, priority=100)
    app.connect("autodoc-process-docstring", group, priority=900)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
