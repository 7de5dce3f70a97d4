"""Tests do not depend on luck: what random_state=None draws is given by the test's name."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from gramian._random import as_generator


@pytest.mark.parametrize("name", ["one", "another"])
def test_entropy_is_of_the_name(name, request):
    children = np.random.SeedSequence(zlib.crc32(request.node.nodeid.encode())).spawn(2)
    wanted = [np.random.Generator(np.random.PCG64(child)).random() for child in children]
    assert [as_generator(None).random() for _ in range(2)] == wanted
