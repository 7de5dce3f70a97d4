"""Every refusal of bases and operators, by its text."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.exceptions import InputError
from gramian.operators import BasisLevel, BlockOperator, CoupledCore
from gramian.operators import base as base_module


def two_blocks(n: int = 4) -> BasisLevel:
    return BasisLevel(n, [np.array([0, 1]), np.array([2, 3])], [np.ones((2, 1)), np.ones((2, 1))])


BAD_BASES = {
    r"rows has 1 row sets, but blocks has 2 arrays": lambda: BasisLevel(4, [[0]], [np.ones((1, 1))] * 2),
    r"rows has numbers from 0 to 4, but the operator has 4 rows": lambda: BasisLevel(
        4, [[0, 4]], [np.ones((2, 1))]
    ),
    r"Row 2 is in more than one place": lambda: BasisLevel(
        4, [[0, 2], [2]], [np.ones((2, 1)), np.ones((1, 1))]
    ),
    r"Block 0 has dtype int64, but a basis is float32 or float64": lambda: BasisLevel.whole(
        np.ones((2, 1), int)
    ),
    r"Block 0 has shape \(3, 1\), but its row set has 2 rows": lambda: BasisLevel(
        4, [[0, 1]], [np.ones((3, 1))]
    ),
}


@pytest.mark.parametrize("text", BAD_BASES)
def test_bad_bases(text):
    with pytest.raises(InputError, match=text):
        BAD_BASES[text]()


BAD_OPERATORS = {
    r"levels is empty": lambda: BlockOperator([]),
    r"different numbers of rows: \[4, 5\]": lambda: BlockOperator([two_blocks(), two_blocks(5)]),
    r"core has ranks \(2,\), but the blocks of the last level have \(1, 1\)": lambda: BlockOperator(
        [two_blocks()], CoupledCore(np.eye(2), (2,))
    ),
    r"Block 0 of level 1 has rows in 2 places of level 0 \(blocks \[0, 1\]": lambda: BlockOperator(
        [two_blocks(), BasisLevel.whole(np.ones((4, 1)))]
    ),
    r"Block 0 of level 1 has rows in 1 places of level 0 \(blocks \[-1\]": lambda: BlockOperator(
        [two_blocks(5), BasisLevel(5, [[4]], [np.ones((1, 1))])]
    ),
    r"G has shape \(3, 1\); pass shape \(4, rank\)": lambda: BlockOperator.from_parts(4, G=np.ones((3, 1))),
    r"rows and W go together": lambda: BlockOperator.from_parts(4, rows=[[0]]),
    r"levels is empty. Pass at least one": lambda: BlockOperator.from_parts(4),
    r"n_jobs=0": lambda: BlockOperator([two_blocks()], n_jobs=0),
}


@pytest.mark.parametrize("text", BAD_OPERATORS)
def test_bad_operators(text):
    with pytest.raises(InputError, match=text):
        BAD_OPERATORS[text]()


BAD_CALLS = {
    r"The right operand has shape \(3,\), but the operator is 4 × 4": lambda op: op @ np.ones(3),
    r"The right operand has shape \(4, 1, 1\)": lambda op: op @ np.ones((4, 1, 1)),
    r"The right operand has dtype complex128; pass real numbers": lambda op: op @ np.ones(4, complex),
    r"y has shape \(2, 2\), but the operator is 4 × 4": lambda op: op.solve(np.ones((2, 2)), 1.0),
    r"y has dtype <U1; pass real numbers": lambda op: op.solve(np.array(list("abcd")), 1.0),
    r"y contains NaN or infinity": lambda op: op.solve(np.array([1.0, np.nan, 0, 0]), 1.0),
    r"alpha=0 must be a positive, finite number": lambda op: op.solve(np.ones(4), 0),
    r"alpha=-1.0 must be": lambda op: op.logdet(-1.0),
    r"alpha=nan must be": lambda op: op.solve(np.ones(4), float("nan")),
    r"alpha=None must be": lambda op: op.logdet(None),
    r"rows has numbers from -1 to 2; pass numbers from 0 to 3": lambda op: op.entries([-1, 2], [0]),
    r"cols has dtype float64 and 1 dimensions": lambda op: op.entries([0], [0.5]),
    r"Block 2 does not exist: the last level has blocks 0 to 1": lambda op: op.block(2),
}


@pytest.mark.parametrize("text", BAD_CALLS)
def test_bad_calls(text):
    with pytest.raises(InputError, match=text):
        BAD_CALLS[text](BlockOperator([two_blocks()]))


def test_to_dense_is_guarded(monkeypatch):
    monkeypatch.setattr(base_module, "DENSE_LIMIT", 3)
    op = BlockOperator([two_blocks()])
    with pytest.raises(InputError, match=r"to_dense\(\) would need 128 B for 4 × 4 numbers"):
        op.to_dense()
    assert op.to_dense(force=True).shape == (4, 4)
