"""Messages of the library in the words of the command line: its options in place of parameters of Python."""

from __future__ import annotations

import re

#: Options by the names of the parameters that they set.
OPTIONS = {
    "memory_budget": "--memory",
    "time_limit": "--time-limit",
    "random_state": "--seed",
    "n_jobs": "--threads",
    "sample_weight": "--weight",
    "columns": "--drop",
    "text": "--text",
} | {
    name: f"--{name}"
    for name in (
        *("alpha", "approximation", "categorical", "coverage", "encoding", "gamma", "groups", "kernel"),
        *("metric", "missing", "sep", "standardize", "time"),
    )
}
#: Whole phrases, the more special ones first.
_PHRASES = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"[\w=\[\]]+, on the command line (--[\w-]+)", r"\1"),
        (r"\(on the command line (--[\w-]+)\)", r"(\1)"),
        (r" \(in Python: [^()]*(\([^()]*\))?[^()]*\)", ""),
        (r"standardize=False", "--no-standardize"),
        (r"standardize=True", "--standardize"),
        (r"time_limit=[\d.e+-]+ s was", "--time-limit was"),  # one of the fits gets a part of it
        (r",? or (use |pass )?tile_dtype='float64',?", ""),
        (r", a gramian Kernel, or a callable f\(X, Z\)", ""),
        (r", or pass an unfitted instance such as [^.]*\.[^.]*\)", ""),
        (r", drop the row, or let gramian\.open_data\(.*?\) leave out such rows", " or drop the row"),
        (
            r"or pass categorical='onehot' to gramian\.open_data for .* of its values",
            "or give no option of plain kernel ridge regression, so that the model of tables takes it",
        ),
        (r"convert the column or drop it", "convert the column or leave it out (--drop)"),
        (r"use (TabularRegressor|KernelRidge)\b", "pass --task regression"),
        (r"use (TabularClassifier|KernelRidgeClassifier)\b", "pass --task classification"),
        (r"\bX(?= has| holds)|(?<=of )X\b", "the table"),
        (r"(?<![\w'])y(?= has| holds| mixes| cannot)|(?<=Input )y\b|(?<=how )y\b", "the target"),
        (r"\bgroups and time are both", "--groups and --time are both"),
        (r"^((?:Error|Warning): )?(categorical|groups|time)(?= (has|is|names|holds) )", r"\1--\2"),
        (r"\b([Ll]eave )(groups|time)(?= out)", r"\1--\2"),
    )
)
#: Quoted text, which stays as it is, and parameters, with or without a value.
_PARAMETER = re.compile(
    rf"(?<!\w)'[^']*'|(?<![\w.-])(?P<name>{'|'.join(OPTIONS)})=(\[(?P<list>[^\]]*)\]|(?P<value>(?=[^\s),;.])))?"
    rf"|\b(?P<bare>{'|'.join(name for name in OPTIONS if '_' in name)})\b"
)


def in_options(text: str) -> str:
    """Return a message with the names of options in place of those of parameters.

    >>> print(in_options("memory_budget='lots' is not a size. Leave out column 'time=3' (columns=)."))
    --memory 'lots' is not a size. Leave out column 'time=3' (--drop).
    """
    for pattern, words in _PHRASES:
        text = pattern.sub(words, text)
    return _PARAMETER.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name = match["name"] or match["bare"]
    if name is None:
        return match[0]
    if match["list"] is not None:
        return f"{OPTIONS[name]} {match['list']}"
    return OPTIONS[name] + (" " if match["value"] is not None else "")
