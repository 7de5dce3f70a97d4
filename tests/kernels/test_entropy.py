"""Tests do not depend on luck or on their names: what random_state=None draws is given by a number."""

from __future__ import annotations

import numpy as np
import pytest

from gramian._random import as_generator


def drawn(entropy: int) -> list[float]:
    children = np.random.SeedSequence(entropy).spawn(2)
    return [np.random.Generator(np.random.PCG64(child)).random() for child in children]


@pytest.mark.parametrize("name", ["one", "another"])
def test_entropy_is_the_same_whatever_the_name(name):
    assert [as_generator(None).random() for _ in range(2)] == drawn(0)


@pytest.mark.entropy(7)
def test_a_mark_gives_another():
    assert [as_generator(None).random() for _ in range(2)] == drawn(7)
