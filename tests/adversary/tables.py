"""Laws of what data say: repeated rows, weights, units, labels and ways in, of tables and other models.

A law draws its data from (seed, number), fits models and raises ``Broken``. Where chance decides, a function
returns a number of each draw, whose mean is judged.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gramian as gm
from adversary.trial import Broken
from gramian.data.file_options import FileOptions
from gramian.data.opening import open_table

#: Rows to predict; rows of the population by which means and quantiles are judged.
NEW, MANY = 40, 500
#: What text in a table says, among others what says that a value is missing.
LEVELS = ("north", "NA", "a,b", 'the "old" one', "null", "süd", " x", "1st", "-")


def table(rng: np.random.Generator, n: int) -> Any:
    """Return a pandas frame of numbers with missing values, whole numbers, text, dates and yes or no."""
    import pandas as pd

    def missing(share: float) -> np.ndarray:
        return rng.random(n) < share * (rng.random() < 0.5)

    columns = {
        "a": rng.standard_normal(n),
        "b": np.where(missing(0.2), np.nan, np.round(10.0 * rng.standard_normal(n), 2)),
        "c": rng.choice(list("xyz"), n),
        "level": rng.choice(np.array(LEVELS[: rng.integers(2, len(LEVELS) + 1)], object), n),
        "count": rng.poisson(3.0, n),
        "day": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        "flag": rng.random(n) < 0.4,
    }
    some = ["a", "c", *(name for name in ("b", "level", "count", "day", "flag") if rng.random() < 0.5)]
    return pd.DataFrame({name: columns[name] for name in rng.permutation(some)})


def signal(frame: Any) -> np.ndarray:
    """Return a smooth function of a table's columns, of the order of 1."""
    return np.asarray(np.sin(2.0 * frame["a"]) + (frame["c"] == "x") - 0.5 * (frame["c"] == "y"), np.float64)


def fitted(model: Any, X: Any, y: Any, weights: np.ndarray | None = None) -> Any:
    """Return the model, fitted; what is told of few rows, their order and repeats is of no account here."""
    with warnings.catch_warnings():
        for kind in (gm.AccuracyWarning, UserWarning):
            warnings.simplefilter("ignore", kind)
        return model.fit(X, y) if weights is None else model.fit(X, y, sample_weight=weights)


def answers(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return what a model says of rows: values or probabilities, and bands or sets where it has them."""
    values = ("predict_proba", "decision_function", "predict")
    names = [name for name in values if hasattr(model, name)][:1]
    bands = [name for name in ("predict_interval", "predict_set") if hasattr(model, name)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = {name: getattr(model, name)(X) for name in names}
        return found | {name: getattr(model, name)(X, 0.8) for name in bands}


def near(what: str, got: dict[str, np.ndarray], want: dict[str, np.ndarray], tolerance: float) -> None:
    """Raise unless all values differ by at most ``tolerance`` of the deviation of those that are wanted."""
    for name, expected in want.items():
        values, expected = np.asarray(got[name], np.float64), np.asarray(expected, np.float64)
        allowed = tolerance * max(float(expected.std()), 1e-3 * float(np.abs(expected).max()))
        off = float(np.abs(values - expected).max())
        if not off <= allowed:
            raise Broken(
                f"{what}: {name} differs by {off:.3g}; expected at most {allowed:.2g}", off / allowed
            )


def _drawn(kind: str, rng: np.random.Generator, n: int, noise: float = 0.5) -> tuple[Any, np.ndarray, Any]:
    """Return rows of a table for models of tables and an array for others, the signal, and the targets."""
    frame = table(rng, n)
    f = signal(frame)
    y = f + noise * rng.standard_normal(n)
    X = frame if kind.startswith("Tabular") else np.column_stack([frame["a"], f])
    return X, f, np.digitize(y, np.quantile(y, [0.3, 0.7])) if kind.endswith("Classifier") else y


def _rows(X: Any, numbers: Any) -> Any:
    return X[numbers] if isinstance(X, np.ndarray) else X.iloc[numbers]


def _one(rng: np.random.Generator, choices: Any) -> Any:
    return [*choices][int(rng.integers(len(choices)))]


TABLES: dict[str, Callable[..., Any]] = {
    kind: partial(getattr(gm, kind), effort="fast", random_state=0, n_jobs=1)
    for kind in ("TabularRegressor", "TabularClassifier")
}
PROCESS = partial(gm.GaussianProcessRegressor, random_state=0, n_jobs=1)


# ---- rows that repeat, and rows that hardly count ----------------------------------------------------

#: Models that take a row of weight k for k rows, and the largest difference in deviations of the answers. Of
#: a table the merged rows are the same numbers; of the others the equations differ, and may be compressed.
REPEATED: dict[str, tuple[Callable[..., Any], float]] = {
    **{kind: (make, 1e-9) for kind, make in TABLES.items()},
    "KernelRidge": (partial(gm.KernelRidge, alpha=0.1, gamma=0.5, n_jobs=1), 1e-4),
    "KernelRidgeClassifier": (partial(gm.KernelRidgeClassifier, alpha=0.1, gamma=0.5, n_jobs=1), 1e-4),
}


def repeated_rows(seed: int, number: int) -> None:
    """A row that is there k times is a row of weight k: all rows, some of them, or those of a rare class."""
    rng = np.random.default_rng([seed, number, 1])
    kind = _one(rng, REPEATED)
    make, tolerance = REPEATED[kind]
    n = int(rng.integers(60, 160))
    X, f, y = _drawn(kind, rng, n + NEW)
    counts = _one(
        rng,
        (
            np.full(n, int(rng.integers(2, 6))),
            rng.integers(1, 5, n),
            np.where(f[:n] > np.quantile(f[:n], 0.8), 5, 1),
        ),
    )
    order = rng.permutation(np.repeat(np.arange(n), counts))
    first = order[np.sort(np.unique(order, return_index=True)[1])]  # tables draw rows by their places
    new, weights = _rows(X, slice(n, None)), counts[first].astype(np.float64)
    want = answers(fitted(make(), _rows(X, first), y[first], weights), new)
    got = answers(fitted(make(), _rows(X, order), y[order]), new)
    near(f"{kind} of {len(order)} rows, {n} of them different", got, want, tolerance)


#: Models with bands, all of which count their held-out rows by weights. To a process that learns its noise, a
#: row of weight w is a mean of w observations: an error of 30, where w is 1e-9, then tells of little noise.
BANDS: dict[str, Callable[..., Any]] = {
    **TABLES,
    "GaussianProcessRegressor": partial(PROCESS, optimizer=None, noise=0.2),
}


def bands_of_light_rows(seed: int, number: int) -> None:
    """Bands of a fit with rows of weight 1e-9, whose noise is wild, are about those of a fit without them."""
    rng = np.random.default_rng([seed, number, 2])
    kind = _one(rng, BANDS)
    n = int(rng.integers(160, 260))
    X, _, y = _drawn(kind, rng, n + NEW)
    light = rng.random(n) < rng.uniform(0.3, 0.5)
    y = np.array(y)
    if kind.endswith("Classifier"):
        y[:n] = np.where(light, rng.integers(0, 3, n), y[:n])
    else:
        y[:n] += light * 30.0 * rng.standard_normal(n)
    sizes = []
    for weight in (1e-9, 0.0):
        model = fitted(BANDS[kind](), _rows(X, slice(n)), y[:n], np.where(light, weight, 1.0))
        found = answers(model, _rows(X, slice(n, None)))
        band = found.get("predict_set")
        sizes.append(band.sum(axis=1) if band is not None else np.diff(found["predict_interval"], axis=1))
    ratio = float(np.mean(sizes[0]) / np.mean(sizes[1]))
    if not 0.5 < ratio < 2.0:
        raise Broken(f"{kind}: bands are {ratio:.3g} times as wide with rows of weight 1e-9", ratio)


# ---- means and medians of skewed targets -------------------------------------------------------------


def _skewed(seed: int, number: int) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """Return a fitted model of a skewed target, new rows, their targets and the true means of these."""
    rng = np.random.default_rng([seed, number, 3])
    n, sigma, unit = int(rng.integers(150, 300)), rng.uniform(0.6, 1.2), 10.0 ** rng.integers(-3, 6)
    X = table(rng, n + MANY)
    f = signal(X)
    y, means = unit * np.exp(f + sigma * rng.standard_normal(len(f))), unit * np.exp(f + 0.5 * sigma**2)
    how = _one(rng, ("auto", "log", "yeo-johnson"))
    weights = _one(rng, (None, rng.choice([1.0, 2.0, 5.0], n)))
    model = fitted(TABLES["TabularRegressor"](target=how), X.iloc[:n], y[:n], weights)
    own = np.ones(n) if weights is None else weights
    rows = model.oof_rows_
    ratio = float(own[rows] @ model.oof_predictions_ / (own[rows] @ y[rows]))
    if not 0.5 < ratio < 2.0:
        raise Broken(f"held-out predictions add up to {ratio:.3g} of the targets, with target={how!r}", ratio)
    return model, X.iloc[n:], y[n:], means[n:]


def total(seed: int, number: int) -> float:
    """Return the logarithm of the sum of predictions over that of the true means, of a skewed target."""
    model, new, _, means = _skewed(seed, number)
    return float(np.log(model.predict(new).sum() / means.sum()))


def median(seed: int, number: int) -> float:
    """Return the share of new targets below the quantile .5, of a skewed target."""
    model, new, y, _ = _skewed(seed, number)
    low, middle, high = model.predict_quantiles(new, (0.2, 0.5, 0.8)).T
    if not ((low <= middle) & (middle <= high)).all():
        raise Broken("quantiles cross")
    return float(np.mean(y < middle))


# ---- ways in, labels ---------------------------------------------------------------------------------


def _ways(folder: Path) -> dict[str, Callable[[Any], Any]]:
    """Return what brings the cells of a pandas frame in: files, frames and records."""
    import polars as pl
    import pyarrow as pa

    def csv(frame: Any) -> Any:
        frame.to_csv(folder / "rows.csv", index=False)
        return open_table(folder / "rows.csv", FileOptions())

    def parquet(frame: Any) -> Any:
        frame.to_parquet(folder / "rows.parquet", index=False)
        return open_table(folder / "rows.parquet", FileOptions())

    return {
        "csv": csv,
        "parquet": parquet,
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        "records": lambda frame: frame.to_dict("records"),
    }


def ways_in(seed: int, number: int) -> None:
    """The same cells from files, frames, records and as one row are the same rows, at fit and at predict."""
    rng = np.random.default_rng([seed, number, 4])
    kind = _one(rng, TABLES)
    n = int(rng.integers(60, 160))
    X, _, y = _drawn(kind, rng, n + NEW)
    new = X.iloc[n:].reset_index(drop=True)
    with tempfile.TemporaryDirectory() as folder:
        ways = _ways(Path(folder))
        first, second = rng.permutation(list(ways))[:2].tolist()
        model, other = (fitted(TABLES[kind](), ways[way](X.iloc[:n]), y[:n]) for way in (first, second))
        want = answers(model, ways[first](new))
        near(f"{kind} of {second}, of {first} before", answers(other, ways[second](new)), want, 1e-9)
        for way in ways:
            near(f"{kind} of {first} asked by {way}", answers(model, ways[way](new)), want, 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        got = np.asarray([model.predict_one(row) for row in new.iloc[:9].to_dict("records")], np.float64)
        near(f"{kind} of {first}", {"predict_one": got}, {"predict_one": model.predict(new.iloc[:9])}, 1e-9)


def labels_of_any_type(seed: int, number: int) -> None:
    """Columns whose labels are numbers, tuples or dates are matched by them, and lacking ones are told."""
    import pandas as pd

    rng = np.random.default_rng([seed, number, 5])
    kind = _one(rng, (*TABLES, "KernelRidge"))
    make = TABLES.get(kind, REPEATED["KernelRidge"][0])
    n = int(rng.integers(60, 160))
    X, _, y = _drawn(kind, rng, n + NEW)
    X = pd.DataFrame(X)
    d = X.shape[1]
    labels = _one(
        rng,
        (
            range(d),
            range(2019, 2019 + d),
            [np.int64(5 * j) for j in rng.permutation(d)],
            [("mean", j) for j in range(d)],
            [0.5 * j for j in range(d)],
            pd.date_range("2024-01-01", periods=d, freq="MS"),
            [pd.Timestamp("2024-01-01").date() + pd.Timedelta(days=j) for j in range(d)],
        ),
    )
    text = X.set_axis([f"q{j}" for j in range(d)], axis=1)
    other = X.set_axis(pd.Index(labels, tupleize_cols=False), axis=1)
    order = rng.permutation(d)
    want = answers(fitted(make(), text[:n], y[:n]), text[n:])
    model = fitted(make(), other[:n], y[:n])
    near(f"{kind} with labels {list(labels)}", answers(model, other[n:].iloc[:, order]), want, 1e-12)
    lacking, first = other[n:].iloc[:, 1:], str(other.columns[0])
    strange = pd.Index([1999, *other.columns[1:]], tupleize_cols=False)
    for rows in (lacking, other[n:].set_axis(strange, axis=1)):
        try:
            model.predict(rows)
        except gm.InputError as error:
            told = first in str(error)
        else:
            told = False
        if not told:
            raise Broken(f"{kind} with labels {list(labels)}: it is not told that {first} is lacking")


# ---- units -------------------------------------------------------------------------------------------


def units(seed: int, number: int) -> None:
    """Targets, weights and columns in another unit give the same model, though it is no power of two.

    Columns lose their last digits: held-out values are solved in float32, so that bands may move a little.
    """
    rng = np.random.default_rng([seed, number, 6])
    kind, factor = _one(rng, TABLES), float(_one(rng, (3.7, 1e-3, 1e6, 1.0 / 3.0)))
    n = int(rng.integers(60, 160))
    X, f, y = _drawn(kind, rng, n + NEW)
    y = np.exp(2.0 * f) if kind == "TabularRegressor" and rng.random() < 0.5 else y
    weights = _one(rng, (np.ones(n), rng.choice([1.0, 2.0, 5.0], n), rng.uniform(0.1, 3.0, n)))
    other = X.assign(**{name: factor * X[name] for name in ("a", "b") if name in X})
    make = TABLES[kind]
    want = answers(fitted(make(), X[:n], y[:n], weights), X[n:])
    got = answers(fitted(make(), X[:n], y[:n], factor * weights), X[n:])
    near(f"{kind} of weights times {factor:g}", got, want, 1e-9)
    got = answers(fitted(make(), other[:n], y[:n], weights), other[n:])
    near(f"{kind} of columns times {factor:g}", got, want, 1e-3)
    if kind == "TabularRegressor":
        found = answers(fitted(make(), X[:n], factor * y[:n], weights), X[n:])
        near(f"targets times {factor:g}", {k: v / factor for k, v in found.items()}, want, 1e-9)


CHECKS: dict[str, Callable[[int, int], None]] = {
    "repeated rows": repeated_rows,
    "bands of light rows": bands_of_light_rows,
    "ways in": ways_in,
    "labels of any type": labels_of_any_type,
    "units of tables": units,
}
