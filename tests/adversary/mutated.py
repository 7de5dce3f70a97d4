"""Model files with one thing changed, checksums and all: ``gm.load`` refuses them, or the model answers.

Unlike damage (:mod:`adversary.damage`), a mutation is what somebody could have written: every member has the
checksum that the description lists. A file is refused with ``ModelFileError`` and within the memory that its
size allows, or its model answers rows.
"""

from __future__ import annotations

import io
import json
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import gramian as gm
from adversary.damage import LABELS, X, Y
from adversary.trial import Broken
from gramian.model_file.parts import KNOWN

#: Bytes that reading any small file may take, and times the size of the file on top of them.
BASE, TIMES = 48 << 20, 40
#: Numbers and other values that take the place of one in the description.
VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 3, 10**6, 2**31, 2**50, 10**30, -(2**63), 0.5, -1e308, 1e308, float("nan"), float("inf")),
    *("", "x", "rbf", "9" * 20, None, True, False, [], {}, [1], {"list": []}, {"number": "nan"}),
    *({"number": "inf"}, {"array": "value_0"}, {"slice": [0, 10**12]}, {"dtype": "object"}, {"texts": ["a"]}),
)
#: Numbers that take the place of one in an array.
NUMBERS = (-1, 0, 1, 7, 10**6, 2**31 - 1, -(2**31), 2**62, np.nan, np.inf, -np.inf, 1e308, 1e-308)


def _small(name: str) -> Any:
    """Return an estimator of a class that model files hold, with settings that make its fit short."""
    options = {
        "rank": 4, "root_rank": 4, "n_blocks": 3, "n_leaves": 4, "n_landmarks": 4, "n_pseudo": 6,
        "n_levels": 1, "n_units": 3, "n_directions": 2, "n_components": 3, "random_state": 0,
        "leaf_size": 20, "branching": 2, "optimizer": None, "time_limit": 0.01, "max_iter": 30,
    }  # fmt: skip
    model = KNOWN[name]()
    known = model.get_params(deep=False)
    chosen = {key: value for key, value in options.items() if key in known}
    if name in ("KernelRidgeCV", "DCSVC", "KernelSVC", "KernelSVR", "KernelLogisticRegression"):
        chosen.pop("max_iter", None)
    if name in ("TensorSketch", "RandomMaclaurin"):
        chosen["kernel"] = "polynomial"
    if name.startswith("FastKernel"):
        chosen["learn"] = "labels"
    return model.set_params(**chosen)


def _table() -> Any:
    """Return rows with a text column and missing values."""
    rows = np.array(X, object)
    rows[:, 2] = np.where(X[:, 2] > 0.0, "red", "blue")
    rows[::7, 1] = np.nan
    return rows


def _columns() -> Any:
    """Return a transformer of columns: numbers scaled, text as indicators, the rest left out."""
    text = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    numbers = make_pipeline(StandardScaler(), MinMaxScaler())
    return ColumnTransformer([("numbers", numbers, [0]), ("text", text, [2])])


def _kinds() -> dict[str, Callable[[], Any]]:
    """Return for every class that model files hold, and for more contents, what fits a small model."""

    def fitted(model: Any, rows: Any = X, y: Any = Y) -> Callable[[], Any]:
        return lambda: model.fit(rows, y)

    found: dict[str, Callable[[], Any]] = {}
    for name in KNOWN:
        if not name.startswith("FastTabular"):
            wanted = name.endswith(("Classifier", "SVC", "Regression"))
            found[name] = fitted(_small(name), y=LABELS if wanted else Y)
    leaves = {"n_leaves": 4, "n_landmarks": 4, "n_pseudo": 6, "random_state": 0}
    sparse = sp.csr_array(X * (np.abs(X) < 1.0))
    return found | {
        "exact ridge": fitted(gm.KernelRidge(approximation="exact", standardize=True)),
        "ridge with a metric": fitted(gm.KernelRidge(metric=gm.LearnedMetric(), random_state=0)),
        "ridge in a tree": fitted(
            gm.KernelRidge(approximation=gm.MEKA(rank=4, n_blocks=4, partition="tree"))
        ),
        "ridge of levels": fitted(
            gm.KernelRidge(approximation=gm.MultiResolution(root_rank=4, rank=3, n_blocks=4), random_state=0)
        ),
        "ridge of sparse rows": fitted(gm.KernelRidge(approximation=gm.Nystrom(rank=6)), sparse),
        "probabilities": fitted(gm.KernelSVC(probability=True, random_state=0), y=LABELS),
        "gp of levels": fitted(
            gm.GaussianProcessRegressor(
                optimizer=None, approximation=gm.MultiResolution(root_rank=8, rank=4, n_blocks=4)
            )
        ),
        "early dcsvc": fitted(gm.DCSVC(leaf_size=20, branching=2, early=True), y=LABELS > 0),
        "cubic leaves": fitted(gm.DCPredRegressor(pseudo_degree=3, **leaves)),
        "triangles": fitted(gm.DCPredRegressor(pseudo="triangle-upper", partition="tree", **leaves)),
        "deeper router": fitted(
            gm.FastKernelRegressor(learn="labels", n_levels=5, n_units=2, n_directions=2, random_state=0)
        ),
        "fast table": lambda: (
            gm.TabularRegressor(time_limit=0.01, random_state=0)
            .fit(_table(), Y)
            .compress(_table(), n_levels=1, n_units=3, n_directions=2)
        ),
        "table of text": fitted(gm.TabularClassifier(time_limit=0.01, random_state=0), _table(), LABELS),
        "columns of a pipeline": lambda: make_pipeline(_columns(), gm.KernelRidge(random_state=0)).fit(
            _table(), Y
        ),
        "pipeline": lambda: make_pipeline(StandardScaler(), gm.KernelRidge(random_state=0)).fit(X, Y),
    }


KINDS = _kinds()


@dataclass(frozen=True)
class Stored:
    """A saved model: the members of its file, and its description."""

    members: dict[str, bytes]
    header: dict[str, Any]

    @classmethod
    def of(cls, data: bytes) -> Stored:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        return cls(members, json.loads(members.pop("model.json")))

    def copy(self) -> Stored:
        return Stored(dict(self.members), json.loads(json.dumps(self.header)))

    def array(self, name: str) -> np.ndarray:
        return np.load(io.BytesIO(self.members[f"{name}.npy"])).copy()

    def put(self, name: str, array: np.ndarray) -> None:
        """Replace an array, with the shape, dtype and checksum that the description lists."""
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.ascontiguousarray(array).reshape(array.shape))
        self.members[f"{name}.npy"] = data = stream.getvalue()
        listed = {"shape": list(array.shape), "dtype": array.dtype.str, "crc32": zlib.crc32(data)}
        self.header["arrays"][name] = listed

    def packed(self, text: str | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
        out = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(out, "w", compression) as archive:
            warnings.simplefilter("ignore", UserWarning)  # of a name that is there twice
            for name, content in self.members.items():
                archive.writestr(name, content)
            archive.writestr("model.json", json.dumps(self.header) if text is None else text)
        return out.getvalue()


@cache
def saved(name: str, folder: Path) -> Stored:
    """Return a small model's file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KINDS[name]()
    path = folder / "saved.gramian"
    gm.save(model, path)
    return Stored.of(path.read_bytes())


# ---- mutations ---------------------------------------------------------------------------------------


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a description with each of its keys or positions."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _place(stored: Stored, rng: np.random.Generator) -> tuple[Any, Any]:
    parts = ("estimator", "pipeline", "notes") if rng.random() < 0.9 else tuple(stored.header)
    places = [place for part in parts if part in stored.header for place in _places(stored.header[part])]
    container, key = places[int(rng.integers(len(places)))]
    return container, key


def value_changed(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Put another value in the place of one in the description."""
    container, key = _place(stored, rng)
    value = VALUES[int(rng.integers(len(VALUES)))]
    text = f"{key!r}: {str(container[key])[:60]} became {value!r}"
    container[key] = value
    return text, stored.packed()


def value_lost(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Leave a value of the description out."""
    container, key = _place(stored, rng)
    text = f"{key!r}: {str(container.pop(key))[:60]} left out"
    return text, stored.packed()


def value_repeated(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Repeat an item of a list of the description, a few or very many times."""
    lists = [place for part in ("estimator",) for place in _places(stored.header[part])]
    lists = [(container, key) for container, key in lists if isinstance(container, list)]
    if not lists:
        return value_lost(stored, rng)
    container, at = lists[int(rng.integers(len(lists)))]
    text = json.dumps(container[at])
    times = int(rng.choice([1, 30, max(1, 300_000 // len(text))]))
    container[at:at] = [json.loads(text) for _ in range(times)]
    return f"{text[:60]} repeated {times} times", stored.packed()


def values_swapped(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Swap two values of the description; references to arrays above all."""
    arrays = [p for p in _places(stored.header["estimator"]) if p[1] == "array"]
    if len(arrays) < 2:
        return value_changed(stored, rng)
    (a, k), (b, m) = (arrays[int(i)] for i in rng.choice(len(arrays), 2, replace=False))
    text = f"{a[k]} and {b[m]} swapped"
    a[k], b[m] = b[m], a[k]
    return text, stored.packed()


def nested(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Put a value into many lists, one in the other."""
    container, key = _place(stored, rng)
    depth = int(rng.choice([60, 900, 50_000]))
    container[key] = "MARK"
    inside = '{"list": [' * depth + "1" + "]}" * depth
    text = json.dumps(stored.header).replace('"MARK"', inside)
    return f"{key!r} within {depth} lists", stored.packed(text)


def _named(stored: Stored, rng: np.random.Generator) -> str:
    names = sorted(stored.header["arrays"])
    return names[int(rng.integers(len(names)))]


def number_changed(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Change one number of an array, or all of them."""
    name = _named(stored, rng)
    array = stored.array(name)
    if array.size == 0 or array.dtype.kind not in "iufb":
        return array_changed(stored, rng)
    number = NUMBERS[int(rng.integers(len(NUMBERS)))]
    if array.dtype.kind in "iub":
        number = int(np.clip(np.nan_to_num(number), -(2**62), 2**62))
        info = np.iinfo(array.dtype) if array.dtype.kind != "b" else np.iinfo(np.int8)
        number = min(max(number, info.min), info.max)
    at = int(rng.integers(array.size)) if rng.random() < 0.7 else slice(None)
    with np.errstate(over="ignore"):
        array.flat[at] = number
    stored.put(name, array)
    return f"{name}{list(array.shape)} number {at} became {number}", stored.packed()


def array_changed(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Give an array another length, order, dtype or shape."""
    name = _named(stored, rng)
    array = stored.array(name)
    flat = array.ravel()
    others: dict[str, Callable[[], np.ndarray]] = {
        "shorter": lambda: array[: len(array) // 2],
        "one less": lambda: array[:-1],
        "empty": lambda: array[:0],
        "twice": lambda: np.concatenate([array, array]),
        "reversed": lambda: array[::-1],
        "flat": lambda: flat,
        "column": lambda: flat[:, None],
        "axis more": lambda: array[None],
        "transposed": lambda: array.T,
        "one number": lambda: flat[:1],
        "int8": lambda: np.nan_to_num(array.astype(np.float64)).astype(np.int8),
        "float32": lambda: array.astype(np.float32),
        "float16": lambda: array.astype(np.float16),
        "bool": lambda: array.astype(bool),
        "text": lambda: array.astype("U3"),
        "big-endian": lambda: array.astype(array.dtype.newbyteorder(">")),
        "none of many": lambda: np.zeros((0, 2**int(rng.choice([20, 27, 50]))), array.dtype),
        "many of none": lambda: np.zeros((2**int(rng.choice([20, 27, 50])), 0), array.dtype),
        "long texts": lambda: np.zeros(0, f"U{2**int(rng.choice([10, 28]))}"),
    }  # fmt: skip
    what = sorted(others)[int(rng.integers(len(others)))]
    with np.errstate(all="ignore"):
        try:
            changed = others[what]()
        except ValueError:  # texts have no numbers
            changed = array[:0]
    stored.put(name, changed)
    return f"{name}{list(array.shape)} {what}", stored.packed()


def listed_otherwise(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """List another shape, dtype or checksum of an array."""
    listed = stored.header["arrays"][_named(stored, rng)]
    key = sorted(listed)[int(rng.integers(len(listed)))]
    value = ([2**40], [0, 2**60], [-1, -8], "|O", "<U999999999", None, 1e300, "x", [1e400])[
        int(rng.integers(9))
    ]
    listed[key] = value
    return f"{key} listed as {value!r}", stored.packed()


def member_changed(stored: Stored, rng: np.random.Generator) -> tuple[str, bytes]:
    """Leave a member out, compress the members, or blow one up."""
    name = sorted(stored.members)[int(rng.integers(len(stored.members)))]
    kind = int(rng.integers(4))
    if kind == 0:
        stored.members.pop(name)
        return f"{name} left out", stored.packed()
    if kind == 1:
        return "compressed", stored.packed(compression=zipfile.ZIP_DEFLATED)
    if kind == 2:
        stored.put(name[:-4], np.zeros(2**23))  # 64 MB in 64 kB
        return f"{name} of 64 MB compressed", stored.packed(compression=zipfile.ZIP_DEFLATED)
    data = bytearray(stored.packed())
    at = data.rindex(name.encode()) - 46
    data[at + 20 : at + 28] = int(rng.choice([2**31, 2**32 - 2, 10 * len(data)])).to_bytes(4, "little") * 2
    return f"{name} has another size in the directory", bytes(data)


Mutation = Callable[[Stored, np.random.Generator], tuple[str, bytes]]
MUTATIONS: tuple[Mutation, ...] = (
    value_changed, number_changed, array_changed, value_changed, value_lost, number_changed, values_swapped,
    array_changed, value_changed, number_changed, value_repeated, listed_otherwise, array_changed, nested,
    value_changed, number_changed, member_changed,
)  # fmt: skip


def mutated(stored: Stored, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield what was changed in a file, and the file: every kind of change in turn."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        yield MUTATIONS[(seed + number) % len(MUTATIONS)](stored.copy(), rng)


def check(name: str, text: str, data: bytes, folder: Path) -> str:
    """Load a file and ask its model; return "refused" or "answers", or raise ``Broken``."""
    path = folder / "mutated.gramian"
    path.write_bytes(data)
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = _answered(path, _table()[:9] if "table" in name or "columns" in name else X[:9])
    except BaseException as error:
        raise Broken(f"{name}, {text}: {type(error).__name__}: {str(error)[:200]}") from error
    finally:
        peak = tracemalloc.get_traced_memory()[1] - before
        if not running:
            tracemalloc.stop()
    if peak > BASE + TIMES * len(data):
        raise Broken(f"{name}, {text}: {peak:,} bytes for a file of {len(data):,}; {outcome}")
    return outcome


def _answered(path: Path, rows: Any) -> str:
    try:
        model = gm.load(path)
    except gm.exceptions.ModelFileError:
        return "refused"
    for ask in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, ask):
            try:
                getattr(model, ask)(rows)
            except ValueError as error:
                # A table whose columns are now of other kinds refuses these rows, and numbers may be so large
                # that answers or scaled rows overflow: the error says so.
                other = isinstance(error, gm.InputError) and rows.dtype == object
                if not other and "overflow" not in str(error) and "infinity" not in str(error):
                    raise
    return "answers"
