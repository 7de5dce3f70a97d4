"""DC-Pred++: landmarks by k-means weighted with α² (Theorem 3) beside plain k-means and drawn rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg as la
from fast_prediction import SETS, Setting, dcpred, divide, score, table
from suite.results import Line

import gramian as gm
from gramian.fast.dcpred.training import ROUNDS
from gramian.landmarks.rules import lloyd
from papers.items import Run, Value
from papers.page import markdown_table, number

RULES = {"α²-weighted k-means": "weighted-kmeans", "k-means": "kmeans", "drawn rows": "uniform"}
LANDMARKS = (4, 8, 16)
LEAVES = 16
#: Rows of the exact ridge model, its C = 1/(2 λ), and landmarks.
EXACT_ROWS, EXACT_C = 2000, 10.0


def weights(name: str, run: Run) -> Iterator[Value]:
    """Yield the score of DC-Pred++ with each rule, and for ridge regression the error of its α.

    gamma and C are those chosen for plain k-means and the middle number of landmarks, so that no rule has
    parameters of its own. Classification uses the hinge, whose α is that of the paper's problem (1).
    """
    setting = SETS[name]
    X, y, split = table(name)
    train, test = divide(name, len(X), split, 0)
    train, test = train[: run.rows(len(train))], test[: run.rows(len(test))]
    options = {} if setting.regression else {"loss": "hinge"}
    tuned = dcpred(setting, LEAVES, LANDMARKS[1], 0, landmarks="kmeans", **options)
    chosen, _ = tuned.best(setting, X[train], y[train], 0)
    for kind, pseudo in (("without pseudo-landmarks", None), ("with monomials", "monomials")):
        for m in LANDMARKS[:1] if run.quick else LANDMARKS:
            for method, rule in RULES.items():
                scores = []
                for seed in run.seeds(5):
                    fitted = dcpred(setting, LEAVES, m, seed, landmarks=rule, pseudo=pseudo, **options)
                    model = fitted.make(**chosen).fit(X[train], y[train])
                    scores.append(score(setting, y[test], model.predict(X[test])))
                measure = "rmse" if setting.regression else "accuracy"
                yield Value(method, measure, float(np.median(scores)), {"landmarks": m, "kind": kind})
    if setting.regression:
        yield from dual_errors(setting, X[train[:EXACT_ROWS]], y[train[:EXACT_ROWS]], run)


def dual_errors(setting: Setting, X: np.ndarray, y: np.ndarray, run: Run) -> Iterator[Value]:
    """Yield ‖ᾱ − α*‖/‖α*‖ of Theorem 1, and its bound Δ/λ over ‖α*‖, for one leaf of all rows."""
    kernel, ridge = gm.Gaussian(lengthscale=(2.0 * setting.gamma) ** -0.5), 0.5 / EXACT_C
    G, y = kernel(X), (y - y.mean()) / y.std()

    def duals(gram: np.ndarray) -> np.ndarray:
        return la.solve(gram + ridge * np.eye(len(X)), y, assume_a="pos")

    exact = duals(G)
    size = float(np.linalg.norm(exact))
    for m in (16, 64) if run.quick else (16, 64, 256):
        for method, rule in RULES.items():
            errors, bounds = [], []
            for seed in run.seeds(5):
                rng = np.random.default_rng(seed)
                if rule == "uniform":
                    Z = X[rng.choice(len(X), m, replace=False)]
                else:
                    squares = np.square(exact) if rule == "weighted-kmeans" else None
                    Z = lloyd(X, m, ROUNDS, rng, weights=squares)
                C = kernel(X, Z)
                nystrom = C @ la.pinvh(kernel(Z)) @ C.T
                errors.append(float(np.linalg.norm(duals(nystrom) - exact)) / size)
                columns = np.linalg.norm(nystrom - G, axis=0)
                bounds.append(float(np.abs(exact) @ columns) / ridge / size)
            where = {"landmarks": m, "kind": "ridge, one leaf"}
            yield Value(method, "error of α", float(np.median(errors)), where)
            yield Value(method, "bound of Theorem 1", float(np.median(bounds)), where)


def weights_verdict(lines: list[Line]) -> str:
    """Count how often the weights help, and by how much."""
    rows = []
    for measure in dict.fromkeys(line["measure"] for line in lines):
        both: dict[tuple[str, str], dict[str, float]] = {}
        for line in lines:
            if line["measure"] == measure:
                both.setdefault((line["set"], str(line["setting"])), {})[line["method"]] = line["value"]
        sign = 1.0 if measure == "accuracy" else -1.0
        ratios = [point["α²-weighted k-means"] / point["k-means"] for point in both.values()]
        better = sum(sign * (ratio - 1.0) > 0 for ratio in ratios)
        spread = map(number, (min(ratios), float(np.median(ratios)), max(ratios)))
        rows.append([measure, f"{better} of {len(ratios)}", *spread])
    head = ("weighted over plain k-means", "settings where the weights are better")
    return markdown_table((*head, "least ratio", "median ratio", "largest ratio"), rows)
