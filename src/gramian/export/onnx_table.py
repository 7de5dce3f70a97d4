"""Encoding, scales and answers of a table's model as ONNX nodes, in double."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.data.missing import missing_numbers
from gramian.exceptions import InputError
from gramian.export.onnx_graph import Graph
from gramian.export.table import CODE, CONSTANTS, TEXT, UNUSED, ColumnForm, TableForm
from gramian.tables.scaling import QUANTILE, ROBUST
from gramian.tables.target import LOG, YEO_JOHNSON

#: Domain of the operator that finds text among many levels, and its version.
ML = "ai.onnx.ml", 2


def table_inputs(graph: Graph, table: TableForm) -> tuple[dict[int, str], list[Any]]:
    """Return names and descriptions of the inputs for used columns, each (n,): text, or numbers of one type.

    An input has its column's name, with "_" behind it where that is taken.
    """
    names, inputs, number = {}, [], number_type(table)
    for j, column in enumerate(table.columns):
        if column.kind != UNUSED:
            names[j] = graph.free(column.name or "_")
            graph.taken.add(names[j])
            inputs.append(graph.info(names[j], str if column.kind == TEXT else number, ["n"]))
    return names, inputs


def number_type(table: TableForm) -> type:
    """Return float32 if it holds all numbers of the training rows, else float64."""
    used = [column for column in table.columns if column.kind == CODE]
    codes = [levels for each in used for levels in (each.levels, *(known for _, known, _ in each.lookups))]
    narrow = table.dtype == np.float32 and all((codes == codes.astype(np.float32)).all() for codes in codes)
    return np.float32 if narrow else np.float64


def encoded_rows(graph: Graph, table: TableForm, names: dict[int, str]) -> str:
    """Return encoded and scaled rows (n, places) in the type of the encoded training rows."""
    parts = []
    for j, name in names.items():
        write = _category if table.columns[j].kind in (TEXT, CODE) else _number
        parts += write(graph, table, table.columns[j], name)
    rows = graph("Concat", *parts, axis=1)
    means = [(to, column.value, numbers) for column in table.columns for to, numbers in column.means]
    if means:
        first = min(to for to, _, _ in means)  # of the places behind all others
        mix = np.zeros((first, len(means)))
        for to, start, numbers in means:
            mix[start : start + len(numbers), to - first] = numbers
        rows = graph("Concat", rows, graph("MatMul", rows, mix), axis=1)
    # The places of lookups are behind those of means.
    lookups = ((*each, j) for j, column in enumerate(table.columns) for each in column.lookups)
    for _, levels, values, j in sorted(lookups, key=itemgetter(0)):
        rows = graph("Concat", rows, _looked_up(graph, table.columns[j], levels, values, names[j]), axis=1)
    return graph.cast(_scaled(graph, table, rows), table.dtype)


def _looked_up(graph: Graph, form: ColumnForm, known: Array, numbers: Float64Array, name: str) -> str:
    """Return the numbers of levels, (n, 1); 0 for a missing or unknown one."""
    column = graph("Unsqueeze", name, [1])
    if form.kind == TEXT:
        _refuse_empty(form.name, known)
        pairs = {"keys_strings": known.tolist(), "values_floats": numbers.tolist(), "default_float": 0.0}
        return graph.cast(graph("LabelEncoder", column, domain=ML[0], **pairs), np.float64)
    column = graph.cast(column, np.float64)
    levels, values = _padded([known], np.inf), _padded([numbers])
    at = _last_not_above(graph, column, levels)
    same = graph("Equal", column, graph("Gather", levels.ravel(), at))
    return graph("Where", same, graph("Gather", values.ravel(), at), 0.0)


def _category(graph: Graph, table: TableForm, form: ColumnForm, name: str) -> list[str]:
    """Return the one-hot columns of a category: of each level, of unknown ones, of missing ones."""
    levels, own = form.levels, form.gone not in (-1, form.other)
    column = graph("Unsqueeze", name, [1])
    if form.kind == TEXT:
        if own:
            _refuse_empty(form.name, levels)
        texts = np.array([["", *filter(None, table.missing)]], object)
        lost = graph("ReduceMax", graph.cast(graph("Equal", column, texts), np.float64), [1], keepdims=1)
        levels = levels.astype(object)
    else:
        column = graph.cast(column, np.float64)
        lost = _lost(graph, table, column)
    hot = graph.cast(graph("Equal", column, levels[None]), np.float64)
    found, missing = [hot], [graph.cast(lost, np.float64)] if own else []
    if form.other >= 0:
        rest = graph("Sub", 1.0, graph("ReduceSum", hot, [1], keepdims=1))
        for one in missing:
            rest = graph("Sub", rest, one)
        found.append(rest)
    return found + missing


def _refuse_empty(name: str, levels: Array) -> None:
    if "" in levels:
        raise InputError(
            f"Column {name!r} has empty text as a category, and missing values as another one. "
            "In ONNX, empty text is the missing value. Replace the one by the other and train again, or "
            "export to C or NumPy."
        )


def _lost(graph: Graph, table: TableForm, column: str) -> str:
    """Return whether numbers are missing: NaN, or one that stands for it."""
    lost = graph("IsNaN", column)
    for number in missing_numbers(table.missing):
        lost = graph("Or", lost, graph("Equal", column, number))
    return lost


def _number(graph: Graph, table: TableForm, form: ColumnForm, name: str) -> list[str]:
    """Return value, missing-value indicator, season, weekday and time of day, those that the column has."""
    column = graph("Unsqueeze", name, [1])
    x = graph.cast(graph.cast(column, table.dtype), np.float64)
    lost = _lost(graph, table, x)
    found = []
    if form.value >= 0:
        found.append(graph("Sub", graph("Where", lost, form.fill, x), form.origin))
    if form.gone >= 0:
        found.append(graph.cast(lost, np.float64))
    if max(form.season, form.weekday, form.hour) < 0:
        return found
    known = graph("Where", lost, 0.0, x)
    known = graph("Clip", known, -1e9, 1e9)
    whole = graph("Floor", known)
    time = graph("Sub", known, whole)
    parts = []
    if form.season >= 0:
        day = graph("Add", _day_of_year(graph, whole), time)
        parts.append(_turn(graph, graph("Div", day, CONSTANTS["year"])))
    if form.weekday >= 0:  # day 0 was a Thursday
        after = graph("Add", graph.cast(whole, np.int64), [[3]])
        day = graph("Mod", after, [[7]])
        parts.append(graph.cast(graph("Equal", day, np.arange(7)[None]), np.float64))
    if form.hour >= 0:
        parts.append(_turn(graph, time))
    there = graph.cast(graph("Not", lost), np.float64)
    return found + [graph("Mul", part, there) for part in parts]


def _day_of_year(graph: Graph, whole: str) -> str:
    """Return the day of the year, from 0, of whole days since 1970; the calendar repeats after 400 years."""
    starts = np.arange("2000", "2400", dtype="datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    knots = _padded([(starts - starts[0]).astype(np.float64)], np.inf)
    day = graph("Sub", graph.cast(whole, np.int64), starts[:1, None])
    day = graph.cast(graph("Mod", day, [[146097]]), np.float64)
    new_year = graph("Gather", knots.ravel(), _last_not_above(graph, day, knots))
    return graph("Sub", day, new_year)


def _turn(graph: Graph, turns: str) -> str:
    """Return sine and cosine (n, 2) of a part of a turn."""
    angle = graph("Mul", turns, 2.0 * np.pi)
    # The cosine of double numbers is not in every runtime.
    cosine = graph("Sin", graph("Add", angle, np.float64(np.pi / 2)))
    return graph("Concat", graph("Sin", angle), cosine, axis=1)


def _scaled(graph: Graph, table: TableForm, rows: str) -> str:
    """Return scaled rows of encoded ones."""
    largest, hard = CONSTANTS["largest"], CONSTANTS["hard"]
    cut = graph("Clip", rows, -largest, largest)
    shift, scale, tables = table.scaling.shift, table.scaling.scale, table.scaling.tables
    t = graph("Div", graph("Sub", cut, shift), scale)
    t = graph("Clip", t, -hard, hard)
    hows = np.array(table.scaling.methods)
    if (hows == ROBUST).any():
        share = graph("Div", t, CONSTANTS["soft"])
        under = graph("Sqrt", graph("Add", graph("Mul", share, share), 1.0))
        t = graph("Where", hows[None] == ROBUST, graph("Div", t, under), t)
    if not tables:
        return t
    places = np.flatnonzero(hows == QUANTILE)
    x = graph("Gather", cut, places, axis=1)
    low, high = _ends(tables)
    beyond = []
    for above in (graph("Sub", x, high), graph("Sub", low, x)):
        far = graph("Clip", graph("Div", above, scale[places]), 0.0, 1e15)
        beyond.append(graph("Div", far, graph("Add", far, 1.0)))
    tail = graph("Mul", graph("Sub", *beyond), CONSTANTS["tail"])
    risen = graph("Add", curves(graph, x, tables), tail)
    order = np.arange(len(hows))
    order[places] = len(hows) + np.arange(len(places))
    return graph("Gather", graph("Concat", t, risen, axis=1), order, axis=1)


def curves(graph: Graph, x: str, lines: Sequence[Float64Array]) -> str:
    """Return the line through points (2, knots) of each column of x (n, lines), constant beyond its ends."""
    knots, values = _padded([line[0] for line in lines], np.inf), _padded([line[1] for line in lines])
    slopes = _padded([np.append(np.diff(line[1]) / np.diff(line[0]), 0.0) for line in lines])
    low, high = _ends(lines)
    x = graph("Min", graph("Max", x, low), high)
    at = _last_not_above(graph, x, knots)
    rise = graph("Sub", x, graph("Gather", knots.ravel(), at))
    rise = graph("Mul", rise, graph("Gather", slopes.ravel(), at))
    return graph("Add", graph("Gather", values.ravel(), at), rise)


def _ends(lines: Iterable[Float64Array]) -> tuple[Float64Array, Float64Array]:
    """Return the first and the last knot of each line."""
    return np.array([line[0, 0] for line in lines]), np.array([line[0, -1] for line in lines])


def _padded(lines: Sequence[Array], fill: float = 0.0) -> Float64Array:
    """Return lines of numbers as rows, filled up to one length: a power of two that is above theirs."""
    size = 1 << max(map(len, lines)).bit_length()
    return np.stack([np.pad(line, (0, size - len(line)), constant_values=fill) for line in lines])


def _last_not_above(graph: Graph, x: str, knots: Float64Array) -> str:
    """Return for each column of x (n, lines) the place of its last knot that is not above x, or of the first.

    knots : (lines, size), ascending in each line and filled up with infinity; the size is a power of two. A
    place counts through all lines, one after another. All columns are bisected together.
    """
    n_lines, size = knots.shape
    every, at = knots.ravel(), np.arange(n_lines)[None] * size
    for step in reversed(range(size.bit_length() - 1)):
        further = graph("Add", at, [[1 << step]])
        at = graph("Where", graph("GreaterOrEqual", x, graph("Gather", every, further)), further, at)
    return at


def predictions(graph: Graph, table: TableForm, values: str) -> str:
    """Return targets (n, outputs) from the values of a regressor."""
    found = []
    for k, (to, spread, centre) in enumerate(zip(table.outputs, table.spread, table.centre)):
        h = graph("Gather", values, [k], axis=1)
        h = graph("Clip", graph("Add", graph("Mul", h, spread), centre), to.low, to.high)
        h = graph("Add", graph("Mul", h, to.scale), to.mean)
        if to.how == LOG:
            h = graph("Exp", h)
        elif to.how == YEO_JOHNSON:
            up = _unbox(graph, graph("Max", h, 0.0), to.power)
            h = graph("Sub", up, _unbox(graph, graph("Max", graph("Neg", h), 0.0), 2.0 - to.power))
        elif to.how == QUANTILE:
            h = curves(graph, h, [np.array([to.scores, to.knots])])
        found.append(graph("Mul", h, to.unit))
    return graph("Concat", *found, axis=1)


def _unbox(graph: Graph, h: str, power: float) -> str:
    if power > 0:
        grown = graph("Add", graph("Mul", h, power), 1.0)
        h = graph("Pow", grown, 1.0 / power)
    else:
        h = graph("Exp", h)
    return graph("Sub", h, 1.0)


def probabilities(graph: Graph, values: str, table: TableForm, n_classes: int) -> str:
    """Return the probability of each class, (n, classes), from values (n, 1) or (n, classes)."""
    assert table.calibration is not None
    slope, bend = table.calibration
    least, one = CONSTANTS["least"], 1.0
    chance = graph("Mul", graph("Add", values, one), 0.5)
    chance = graph("Clip", chance, least, 1.0 - least)
    logs = graph("Log", chance)
    if n_classes == 2:
        logs = graph("Sub", logs, graph("Log", graph("Sub", one, chance)))
    odds = graph("Add", graph("Mul", values, slope), graph("Mul", logs, bend))
    if n_classes == 2:
        odds = graph("Concat", graph("Sub", odds, odds), odds, axis=1)
    return graph("Softmax", odds, axis=1)
