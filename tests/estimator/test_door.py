"""Rows, labels, weights and paths that every estimator refuses, each with an error of cause and cure."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, HOSTS, LABELS, QUICK, X, Y, fit, target
from sklearn.base import is_classifier, is_regressor

import gramian as gm
from gramian.data.column import StoredColumn
from gramian.operators import KernelOperator

N = len(X)
WALKED = {name: kind for name, kind in ESTIMATORS.items() if name not in HOSTS}
TABULAR = {"TabularClassifier", "TabularRegressor"}
EVERY = pytest.mark.parametrize("name", WALKED)
OF_NUMBERS = pytest.mark.parametrize("name", [name for name in WALKED if name not in TABULAR])
CLASSIFIER = pytest.mark.parametrize("name", [name for name in WALKED if is_classifier(WALKED[name]())])
#: Estimators of each way in, where walking all would show nothing new.
SOME = [gm.KernelRidge(), gm.KernelRidgeClassifier(), gm.MEKA(rank=3, n_blocks=2), gm.KernelPCA(2)]

pytestmark = pytest.mark.filterwarnings("ignore")  # of fits to few rows in no time


def make(name):
    return WALKED[name](**QUICK.get(name, {}))


def refused(model, *args, match, error=gm.InputError, **kwargs):
    """A fit raises, and leaves every attribute as it was."""
    before = dict(vars(model))
    with pytest.raises(error, match=match):
        fit(model, *args, **kwargs)
    assert vars(model) == before


def weighted(model):
    return "sample_weight" in type(model).fit.__code__.co_varnames


# ---- tables ------------------------------------------------------------------------------------------

COLUMNS = {
    "text": (["Berlin", "Rome"] * (N // 2), "Column 'extra' of X holds text .such as 'Berlin'."),
    "text and missing": (["Berlin", None] * (N // 2), "Column 'extra' of X holds text"),
    "missing": ([None, *Y[1:].tolist()], "Column 'extra' of X has 1 missing value in 60 rows"),
    "nothing": ([np.nan] * N, "Column 'extra' of X has 60 missing values in 60 rows"),
    "infinite": ([*Y[1:].tolist(), np.inf], "Column 'extra' of X has 1 infinite value in 60 rows"),
    "dates": (np.datetime64("2020-01-01") + np.arange(N), "Column 'extra' of X holds dates"),
    "durations": (np.arange(N).astype("timedelta64[ms]"), "Column 'extra' of X holds dates or durations"),
}


def frames(column):
    """Yield a frame of each package that is installed."""
    for package in ("pandas", "polars"):
        try:
            frame = __import__(package).DataFrame
        except ImportError:
            continue
        yield frame({"a": X[:, 0], "b": X[:, 1], "extra": column})


@OF_NUMBERS
@pytest.mark.parametrize(("column", "text"), COLUMNS.values(), ids=COLUMNS.keys())
def test_a_column_of_a_frame_that_is_no_number_is_named(name, column, text):
    pytest.importorskip("pandas")
    model = make(name)
    for frame in frames(column):
        refused(model, frame, match=text)
    if "infinite" not in text:
        tabular = "Classifier" if is_classifier(model) else "Regressor"
        refused(model, frame, match=f"{name} takes finite numbers only.*Tabular{tabular}")


@pytest.mark.parametrize("model", SOME, ids=lambda model: type(model).__name__)
def test_a_missing_value_of_an_array_is_named(model):
    wrong = X.copy()
    wrong[7, 1] = np.nan
    for rows in (wrong, wrong.astype(np.float32), wrong.tolist(), sp.csr_array(wrong)):
        refused(model, rows, match=r"Column '1' of X has 1 missing value in 60 rows\..*gramian\.Tabular")


@pytest.mark.parametrize("model", SOME, ids=lambda model: type(model).__name__)
def test_a_frame_is_refused_in_predictions_too(model):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc"))
    fit(model, frame)
    answer = model.predict if hasattr(model, "predict") else model.transform
    frame["b"] = pd.Series([None, *X[1:, 1]], dtype="Float64")
    with pytest.raises(gm.InputError, match="Column 'b' of X has 1 missing value in 60 rows"):
        answer(frame)


def test_frames_and_arrays_of_other_types():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": X[:, 0], "when": pa.array(range(N), pa.timestamp("us"))})
    refused(gm.KernelRidge(), table, match="Column 'when' of X holds dates")
    refused(gm.KernelRidge(), (X * 10).astype("M8[D]"), match="X holds dates or durations")
    refused(gm.KernelRidge(), [["red", 1.0]] * N, match="Column '0' of X holds text .such as 'red'")
    numbers = np.array([["1.5", "2"], ["3", "4"]] * 30, object)  # as scikit-learn reads them
    assert gm.KernelRidge().fit(numbers, Y).n_features_in_ == 2
    assert fit(gm.KernelRidge(), pa.table({"a": X[:, 0], "b": X[:, 1] > 0.5})).n_features_in_ == 2


# ---- masked arrays -----------------------------------------------------------------------------------


@EVERY
def test_masked_values_are_refused(name):
    model = make(name)
    hidden = np.zeros(N, bool)
    hidden[[3, 5]] = True
    masked = np.ma.array(X, mask=np.column_stack([hidden, ~(X[:, 1:] < 2)]))
    refused(model, masked, match=r"X is a masked array.*Fill them in|Pass X\.filled\(np\.nan\)")
    if is_classifier(model) or is_regressor(model):
        refused(model, y=np.ma.array(target(model), mask=hidden), match="y is a masked array, and 2 of")
    if weighted(model):
        weights = np.ma.array(np.ones(N), mask=hidden)
        refused(model, sample_weight=weights, match=r"sample_weight is a masked array, .*drop their rows")


@EVERY
def test_a_masked_array_without_masked_values_is_an_array(name):
    model = make(name)
    fit(model, np.ma.array(X, mask=False), np.ma.array(target(model)))
    assert model.n_features_in_ == 3


def test_functions_of_rows_refuse_them_too():
    masked = np.ma.array(X, mask=X > 0.9)
    for ask in (lambda: gm.Gaussian()(masked), lambda: KernelOperator(gm.Gaussian(), masked)):
        with pytest.raises(gm.InputError, match="is a masked array"):
            ask()


def test_masks_are_refused_wherever_an_array_may_be_passed():
    hidden = np.arange(N) < 2
    rows, targets = np.ma.array(X, mask=np.column_stack([hidden] * 3)), np.ma.array(Y, mask=hidden)
    labels, split = np.ma.array(LABELS, mask=hidden), np.ma.array(np.arange(N), mask=hidden)
    model, basis = gm.KernelRidge().fit(X, Y), gm.Nystrom(rank=5).fit(X)
    asks = {
        "X as a list of rows": lambda: gm.KernelRidge().fit(list(rows), Y),
        "y": lambda: model.score(X, targets),
        "sample_weight": lambda: model.score(X, Y, sample_weight=targets),
        "groups": lambda: gm.TabularRegressor().fit(X, Y, groups=labels),
        "time": lambda: gm.TabularRegressor().fit(X, Y, time=split),
        "cv": lambda: gm.KernelRidgeCV(cv=[(split, np.arange(9))]).fit(X, Y),
        "classes": lambda: gm.KernelRidgeClassifier().partial_fit(X, LABELS, classes=labels),
        "answers": lambda: gm.compress(targets, X, Y),
        "X": lambda: gm.FastKernelRegressor().fit(X, Y, unlabelled=rows),
        "X of an explanation": lambda: model.explain(X, X_train=rows),
        "scales": lambda: gm.Metric(scales=np.ma.array([1.0, 2.0], mask=[True, False])),
        "landmarks": lambda: gm.Nystrom(landmarks=rows[:9]).fit(X),
        "The right operand": lambda: basis.operator_ @ targets,
        "The right operand of a transpose": lambda: targets @ basis.operator_,
        "rows": lambda: basis.operator_.entries(split[:5], [0]),
        "V": lambda: gm.Gaussian().matvec(X, X, targets),
    }
    for what, ask in asks.items():
        name = what.split(" of ")[0].split(" as ")[0]
        with pytest.raises(gm.InputError, match=f"{name} is a masked array"):
            ask()


# ---- labels ------------------------------------------------------------------------------------------


@CLASSIFIER
def test_labels_that_cannot_be_classes(name):
    model = make(name)
    missing, mixed = LABELS.astype(object), LABELS.astype(object)
    missing[7] = None
    mixed[LABELS == "b"] = 1
    refused(model, y=missing, match=r"y contains NaN or another missing label \(None\)\. Drop such rows")
    for labels in (mixed, mixed.tolist()):
        refused(
            model, y=labels, match=r"mixes labels of different types: (text|numbers).*Give all labels one"
        )


def test_labels_of_objects_that_can_be_classes():
    for labels in (
        [3, np.int8(2)] * 30,
        [True, np.False_] * 30,
        ["a", np.str_("b")] * 30,
        np.array(["a", "b"] * 30, object),
    ):
        assert len(gm.KernelRidgeClassifier().fit(X, labels).classes_) == 2


def test_later_chunks_of_a_stream_may_lack_classes_and_their_labels_are_checked():
    model = gm.KernelRidgeClassifier(random_state=0).partial_fit(X, LABELS, classes=["a", "b"])
    model.partial_fit(X, np.full(N, "a"), sample_weight=np.ones(N))
    broken = LABELS.astype(object)
    broken[3] = None
    with pytest.raises(gm.InputError, match="another missing label"):
        model.partial_fit(X, broken)
    assert model.n_rows_seen_ == 2 * N


# ---- numbers whose squares overflow ------------------------------------------------------------------


@EVERY
def test_features_whose_squares_overflow(name):
    large = X.copy()
    large[7, 1] = -1e160
    model = make(name)
    refused(model, large, match=r"X holds -1e\+160 in row 7.*column '?1.*Divide the column by its size")
    if name not in TABULAR:
        refused(model, sp.csr_array(large), match=r"X holds -1e\+160 in row 7, column 1")


def test_targets_and_weights_whose_squares_overflow():
    large = np.where(np.arange(N) == 3, -1e300, Y)
    refused(gm.KernelRidge(), y=large, match=r"y holds a value of size 1e\+300.*Divide y by its size")
    refused(gm.KernelRidge(), sample_weight=np.abs(large), match=r"sample_weight holds 1e\+300.*Divide all")


class Column(StoredColumn):
    """Targets that a source reads from elsewhere."""

    shape, dtype = (N,), np.dtype(float)

    def __init__(self, values):
        self.values = values

    def __getitem__(self, where):
        return self.values[where]


def test_stored_targets_and_class_weights_whose_squares_overflow():
    large = np.where(np.arange(N) == 3, -1e300, Y)
    for model in (gm.KernelRidge(), gm.KernelRidge(fit_intercept=True), gm.KernelRidgeCV(), gm.KernelSVR()):
        refused(model, y=Column(large), match=r"y holds a value of size 1e\+300.*Divide y by its size")
    for model in (gm.KernelRidgeClassifier(), gm.KernelSVC(), gm.DCSVC()):
        model.set_params(class_weight={LABELS[0]: 1e300})
        refused(model, match=r"sample_weight.* holds 1e\+300.*Divide all")


def test_lists_of_different_lengths():
    ragged = [[1.0], [1.0, 2.0]] * (N // 2)
    text = (
        r"{} has rows of different lengths: 1 in row 0, 2 in row 1 .from 0.. Give every row the same number"
    )
    refused(gm.KernelRidge(), ragged, match=text.format("X"))
    refused(gm.KernelRidge(), y=ragged, match=text.format("y"))
    refused(gm.KernelRidgeClassifier(), y=ragged, match=text.format("y"))
    refused(gm.KernelRidge(), sample_weight=ragged, match=text.format("sample_weight"))
    model = gm.KernelRidge().fit(X, Y)
    with pytest.raises(gm.InputError, match=text.format("X")):
        model.predict(ragged)
    with pytest.raises(gm.InputError, match=text.format("Z")):
        gm.Gaussian()(X, ragged)
    with pytest.raises(gm.InputError, match="X holds lists where numbers are expected"):
        model.predict([[[1.0], [1.0, 2.0]]] * 3)


def test_features_in_files_whose_squares_overflow(tmp_path):
    large = X.copy()
    large[7, 1] = 1e160
    mapped = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=X.shape)
    mapped[:] = large
    refused(gm.KernelRidge(), mapped, match=r"X holds 1e\+160 in row 7, column 1")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": large[:, 0], "b": large[:, 1]}), tmp_path / "x.parquet")
    source = gm.open_data(tmp_path / "x.parquet")
    refused(gm.KernelRidge(), source, match=r"X holds 1e\+160 in row 7 of .*x.parquet.*column 'b'")


def test_columns_whose_squares_overflow_are_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"near": X[:, 0], "far": X[:, 1] * 1e155})
    for model in (gm.KernelRidge(), gm.TabularRegressor(**QUICK["TabularRegressor"])):
        refused(model, frame, match=r"X holds .*e\+154 in row 0.*column 'far'")


# ---- long values -------------------------------------------------------------------------------------


def test_errors_quote_at_most_80_characters_of_a_value(tmp_path):
    long = "x" * 100_000
    cells = np.column_stack([X[:, :1].astype(object), np.full((N, 1), long)])
    labels = np.where(Y > 0.5, long, long + "y").astype(object)
    text = tmp_path / "rows.csv"
    text.write_text("a,b\n1,2\n3," + long + "\n")
    later = np.full((N, 2), 1.0, object)
    later[-1, 1] = long
    cases = (
        lambda: gm.KernelRidge().fit(cells, Y),
        lambda: gm.KernelRidge().fit(X, [long] * N),
        lambda: gm.KernelRidge().fit(X, Y, sample_weight=[long] * N),
        lambda: gm.KernelRidgeClassifier().fit(X, [long] * N),
        lambda: gm.KernelRidgeClassifier(class_weight={long: -1.0}).fit(X, LABELS),
        lambda: gm.KernelRidgeClassifier(class_weight={"a": long}).fit(X, LABELS),
        lambda: gm.KernelRidgeClassifier().partial_fit(X, labels, classes=["a", "b"]),
        lambda: gm.TabularRegressor().fit(later, Y),
        lambda: gm.load([long]),
    )
    for case in cases:
        with pytest.raises(gm.GramianError) as error:
            case()
        assert len(str(error.value)) < 600, str(error.value)[:300]
    pytest.importorskip("pyarrow")
    for read in (lambda: gm.open_data(text).rows(slice(0, 2)), lambda: gm.data.read_table(text)):
        with pytest.raises(gm.InputError) as error:
            read()
        assert len(str(error.value)) < 600, str(error.value)[:300]


# ---- paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, 3, ["model.gramian"], b"model.gramian"])
def test_what_is_no_path(path):
    model = gm.KernelRidge().fit(X, Y)
    for ask in (lambda: gm.load(path), lambda: gm.save(model, path), lambda: gm.export(model, path)):
        with pytest.raises(gm.InputError, match=r"path=.* has type .*Pass the path of a file"):
            ask()


def test_a_checkpoint_that_cannot_be_made(tmp_path):
    barrier = tmp_path / "file"
    barrier.write_text("")
    texts = {
        barrier / "sub": "file is a file, not a folder. Pass another path",
        barrier / "a" / "b": "file is a file, not a folder. Pass another path",
        tmp_path / "none" / "sub": "the folder .*none does not exist. Create it",
        "a\0b": r"cannot be created \(.*embedded null .*\)\. Pass one in a folder that you may|damaged",
    }
    exact = gm.Exact(solver="cg")
    for path, text in texts.items():
        for model in (gm.KernelRidge(checkpoint=path), gm.KernelRidgeClassifier(checkpoint=path)):
            refused(model, match=f"checkpoint=.*{text}")
            refused(model.set_params(approximation="exact"), match=f"checkpoint=.*{text}")
        model = gm.KernelRidge(approximation=exact.set_params(checkpoint=path))
        refused(model, match=f"checkpoint=.*{text}")
    inside = gm.KernelRidge(approximation=exact.set_params(checkpoint=barrier))
    for model in (gm.KernelRidge(checkpoint=barrier), inside):
        refused(model, match="checkpoint=.* is a file. Pass the path of a folder")


def test_a_folder_that_the_system_refuses(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    refused(
        gm.KernelRidge(checkpoint=tmp_path / "new"), match=r"cannot be created \(.*Permission denied\)\. Pass"
    )


@pytest.mark.parametrize("X", [None, "rows.csv", {"a": [1.0, 2.0]}])
def test_rows_that_are_no_array_say_what_to_pass(X):
    model = gm.KernelRidge(random_state=0)
    with pytest.raises(gm.InputError, match=r"expected 2D array-like rows of numbers.*for one row \[row\]"):
        model.fit(X, [1.0, 2.0])
    model.fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(gm.InputError, match=f"X has type {type(X).__name__}; expected 2D"):
        model.predict(X)
