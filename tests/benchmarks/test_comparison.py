"""Side by side: the same rows, the same seconds, honest failures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from comparison import CLASSIFICATION, CONTENDERS, REGRESSION, Contender, error_of, search
from comparison.contenders import ProblemFacts
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from gramian.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.random((260, 3)) * [1.0, 10.0, 100.0]
Y = {
    REGRESSION: 1000.0 + 50.0 * np.sin(5.0 * X[:, 0]) + X[:, 1],
    CLASSIFICATION: np.array(["no", "yes"])[(np.sin(5.0 * X[:, 0]) > 0.1).astype(int)],
}
CASES = [(name, task) for name, one in CONTENDERS.items() for task in one.tasks]


@pytest.mark.parametrize(("name", "task"), CASES)
def test_every_contender_learns(name, task):
    contender, y = CONTENDERS[name], Y[task]
    shape = ProblemFacts.of(task, X[:200])
    rng = np.random.default_rng(1)
    size = contender.sizes[0]
    for settings in (contender.start(shape), contender.draw(rng, shape)):
        assert clone(contender.make(settings, shape, size))
    model = contender.make(contender.start(shape), shape, size).fit(X[:200], y[:200])
    assert error_of(task, y[200:], model.predict(X[200:])) < {REGRESSION: 0.65, CLASSIFICATION: 0.15}[task]


def test_error_of_against_the_definition():
    y, guess = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 1.0])
    assert error_of(REGRESSION, y, guess) == pytest.approx(np.sqrt(10.0 / 3.0) / np.std(y))
    assert error_of(REGRESSION, np.ones(3), 2.0 * np.ones(3)) == 1.0
    assert error_of(CLASSIFICATION, np.array(["a", "b"]), np.array(["a", "a"])) == 0.5


def contender_of(build, *, draw=lambda rng, shape: {"shift": rng.normal()}):
    return Contender("test", lambda shape: {"shift": 0.0}, draw, build, (1,), 1, "size", (REGRESSION,))


class Shifted(LinearRegression):
    """Least squares, off by ``shift``; the closer to ``best``, the better."""

    best = 0.0
    fitted: list[tuple[float, int]] = []  # noqa: RUF012

    def __init__(self, shift=0.0):
        super().__init__()
        self.shift = shift

    def fit(self, X, y):
        self.fitted.append((self.shift, len(X)))
        return super().fit(X, y)

    def predict(self, X):
        return super().predict(X) + abs(self.shift - self.best)


def test_search_finds_the_best_candidate_in_two_rounds(monkeypatch):
    monkeypatch.setattr("comparison.equal_time.FIRST_ROWS", 50)
    monkeypatch.setattr("comparison.equal_time.SECOND_ROWS", 100)
    monkeypatch.setattr("comparison.equal_time.MOST_CANDIDATES", 20)
    monkeypatch.setattr(Shifted, "best", 0.7)
    monkeypatch.setattr(Shifted, "fitted", [])
    one = contender_of(lambda settings, size, shape: Shifted(**settings))
    found = search(one, X, X[:, 0], REGRESSION, seconds=30, random_state=3)
    first = Shifted.fitted[:20]
    assert [rows for _, rows in first] == [50] * 20
    assert found.settings["shift"] == min((shift for shift, _ in first), key=lambda s: abs(s - 0.7))
    # The second round takes them in the order of their errors.
    second = [abs(shift - 0.7) for shift, rows in Shifted.fitted[20:] if rows == 100]
    assert second == sorted(second)
    assert len(second) == 20
    assert (found.tried, found.failed, found.n_rows) == (40, 0, 100)
    again = search(one, X, X[:, 0], REGRESSION, seconds=30, random_state=3)
    assert again.settings == found.settings


def test_few_rows_are_judged_by_folds(monkeypatch):
    monkeypatch.setattr("comparison.equal_time.MOST_CANDIDATES", 1)
    monkeypatch.setattr(Shifted, "fitted", [])
    y = RNG.random(90)
    found = search(
        contender_of(lambda settings, size, shape: Shifted(**settings)), X[:90], y, REGRESSION, seconds=9
    )
    assert [rows for _, rows in Shifted.fitted] == [60, 60, 60]
    order = np.random.default_rng(0).permutation(90)
    errors = []
    for fold in np.array_split(order, 3):
        rest = np.setdiff1d(np.arange(90), fold)
        model = LinearRegression().fit(X[rest], y[rest])
        errors.append(np.sqrt(np.mean((model.predict(X[fold]) - y[fold]) ** 2)) / np.std(y[fold]))
    assert found.error == pytest.approx(np.mean(errors))


def test_one_candidate_is_tried_however_short_the_time():
    found = search(CONTENDERS["nystroem"], X, Y[REGRESSION], REGRESSION, seconds=1e-9)
    assert found.tried == 1
    assert found.settings == CONTENDERS["nystroem"].start(ProblemFacts.of(REGRESSION, X))


@pytest.mark.slow
@pytest.mark.parametrize("task", [REGRESSION, CLASSIFICATION])
def test_the_librarys_own_search_chooses_kernel_and_alpha(task):
    found = search(CONTENDERS["gramian"], X, Y[task], task, seconds=1e-9)
    assert found.tried == 2  # of each round one kernel, however short the time
    found = search(CONTENDERS["gramian"], X, Y[task], task, seconds=60.0)
    assert found.tried > 3
    assert found.n_rows == len(X)
    settings = json.loads(json.dumps(found.settings))
    shape = ProblemFacts.of(task, X)
    errors = [
        error_of(task, Y[task], CONTENDERS["gramian"].make(one, shape).fit(X, Y[task]).predict(X))
        for one in (settings, CONTENDERS["gramian"].start(shape))
    ]
    assert errors[0] < errors[1] + 0.05
    few = search(CONTENDERS["gramian"], X[:30], Y[REGRESSION][:30], REGRESSION, seconds=1e-9)
    assert few.settings == CONTENDERS["gramian"].start(ProblemFacts.of(REGRESSION, X[:30]))


class Singular(Shifted):
    """Fails wherever the shift is not 0."""

    def fit(self, X, y):
        if self.shift != self.best:
            raise np.linalg.LinAlgError("singular")
        return super().fit(X, y)


def test_failed_candidates_are_counted_and_passed_over(monkeypatch):
    monkeypatch.setattr("comparison.equal_time.MOST_CANDIDATES", 4)
    found = search(
        contender_of(lambda settings, size, shape: Singular(**settings)), X, X[:, 0], REGRESSION, seconds=9
    )
    assert (found.tried, found.failed, found.settings) == (4, 3, {"shift": 0.0})
    monkeypatch.setattr(Singular, "best", 99.0)
    with pytest.raises(InputError, match="all of the 4 candidates failed, the last with LinAlgError"):
        search(
            contender_of(lambda settings, size, shape: Singular(**settings)),
            X,
            X[:, 0],
            REGRESSION,
            seconds=9,
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": 0}, "seconds"),
        ({"task": "clustering"}, "can't do task='clustering'"),
        ({"X": X[:8], "y": Y[REGRESSION][:8]}, "8 rows are too few for a search"),
        ({"task": CLASSIFICATION, "y": np.zeros(260, int)}, "has one class"),
    ],
)
def test_search_refuses(change, message):
    given = {"X": X, "y": Y[REGRESSION], "task": REGRESSION, "seconds": 1.0, **change}
    with pytest.raises(InputError, match=message):
        search(CONTENDERS["gramian"], given["X"], given["y"], given["task"], seconds=given["seconds"])
