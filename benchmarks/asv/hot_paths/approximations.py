"""Compressed kernels: what a fit takes, and how near it comes."""

from __future__ import annotations

import gramian as gm
from hot_paths.rows import made

METHODS = {
    "multiresolution": lambda: gm.MultiResolution(gamma=0.05, random_state=0, n_jobs=1),
    "meka": lambda: gm.MEKA(gamma=0.05, rank=100, n_blocks=20, random_state=0, n_jobs=1),
    "nystrom": lambda: gm.Nystrom(gamma=0.05, rank=500, random_state=0, n_jobs=1),
    "block_basis": lambda: gm.BlockBasis(gamma=0.05, random_state=0, n_jobs=1),
}


class Fit:
    """15,000 rows."""

    params = tuple(METHODS)
    param_names = ("method",)
    timeout = 300

    def setup(self, method):
        self.X = made(15_000)[0]

    def time_fit(self, method):
        METHODS[method]().fit(self.X)

    def peakmem_fit(self, method):
        METHODS[method]().fit(self.X)

    def track_relative_error(self, method):
        return float(METHODS[method]().fit(self.X).relative_error(self.X))
