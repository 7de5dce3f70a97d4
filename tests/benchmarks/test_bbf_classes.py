"""The items on bandwidths and classes: made data, radii, and what the verdicts say of given lines."""

from __future__ import annotations

import numpy as np
from papers.bbf_classes import figure_3_verdict, penalties_verdict, section_2_verdict, squared_radius
from papers.bbf_clusters import (
    MADE,
    checkerboard,
    curves_verdict,
    disc,
    figure_5_verdict,
    last_best,
    svm_scores,
)

RNG = np.random.default_rng(0)


def line(method, measure, value, name="ctg", **setting):
    return {"set": name, "method": method, "measure": measure, "value": value, "setting": setting}


def test_balls_are_filled_and_radii_are_medians():
    points = disc(RNG, 20_000, (1.0, -2.0, 0.5), 0.4)
    distances = np.linalg.norm(points - np.asarray((1.0, -2.0, 0.5)), axis=1)
    assert distances.max() <= 0.4
    # Half of a ball in dimension 3 lies within 2^(-1/3) of its radius.
    np.testing.assert_allclose(squared_radius(points), (0.4 * 0.5 ** (1 / 3)) ** 2, rtol=0.02)


def test_clusters_alternate_and_made_classes_have_names():
    X, y = checkerboard(RNG, 3, 0.001)
    cells = np.floor(X * 3).astype(int).sum(axis=1) % 2
    np.testing.assert_array_equal(cells, y)
    for make, _, names in MADE.values():
        X, y = make(RNG, 1)
        assert len(X) == len(y)
        assert len(np.unique(y)) == len(names)


def test_the_largest_of_equal_bandwidths_is_best():
    assert last_best(np.asarray([0.5, 0.9, 0.9, 0.1])) == 2
    X, y = checkerboard(RNG, 2, 0.02)
    accuracy, f1 = svm_scores(X, X, y, y, (0.1, 0.2))
    assert accuracy.tolist() == [1.0, 1.0]
    assert f1.shape == (2, 2)


def test_verdicts_say_what_the_lines_say():
    lines = [
        line(f"SVC, {who}", "best h", h)
        for who, h in (
            ("all classes", 1.4),
            ("fewest rows (class 3)", 1.4),
            ("smallest radius (class 2)", 0.5),
        )
    ]
    lines += [
        line(one["method"].replace("SVC", "report"), one["measure"], one["value"]) for one in lines.copy()
    ]
    text = section_2_verdict(lines)
    assert "| SVC | fewest rows | the same |" in text
    assert "| report | smallest radius | smaller |" in text
    decay = [
        line("singular value", "σ_i/σ_1", value, h=h, i=i)
        for h, i, value in ((1.4, 1, 1.0), (1.4, 10, 0.001), (0.5, 1, 1.0), (0.5, 10, 0.2))
    ]
    assert figure_3_verdict(decay).endswith("| ctg | 1.4 | 1 |\n| ctg | 0.5 | 10 |")
    linear = [line("clusters", "best h", 3.0 * s, σ=s) for s in (0.1, 0.2, 0.4)]
    assert figure_5_verdict(linear).endswith("| clusters | 1.00 | 3.00 |")
    curve = [line("small", "f1", v, h=h) for h, v in ((0.1, 0.9), (0.2, 0.9), (0.4, 0.2))]
    assert curves_verdict(curve).endswith(
        "at h = 0.4 |\n| --- | --- | --- | --- |\n| small | 0.2 | 0.9 | 0.2 |"
    )
    curve += [line("larger", "f1", v, h=h) for h, v in ((0.1, 0.5), (0.2, 0.6), (0.4, 0.7))]
    assert curves_verdict(curve).endswith("| larger | 0.4 | 0.7 | 0.7 |")
    drops = [
        {**line("SVC", "drop of F1 at h of all", value, C=c), "published": 1.0}
        for c, value in ((1.0, 0.3), (10.0, 0.1))
    ]
    assert penalties_verdict(drops).endswith("| ctg | 30% | 1 | 100% |")
