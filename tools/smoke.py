"""A user's first minute with an installed gramian and no extra: fit, predict, save, load, export, errors."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import gramian as gm

EXTRAS = ("dask", "h5py", "matplotlib", "numba", "onnx", "pandas", "pyarrow", "rich", "typer", "zarr")


def check(holds: bool, said: str) -> None:
    """Stop with a text where something does not hold."""
    if not holds:
        raise SystemExit(f"smoke: {said}")


def main() -> None:
    """Run it all; warnings are errors."""
    warnings.simplefilter("error")
    home = Path(gm.__file__).parent
    check("site-packages" in home.parts, f"gramian comes from {home}, not from an installed wheel")
    check((home / "py.typed").is_file(), "the wheel has no py.typed")
    check(version("gramian") == gm.__version__, "the metadata and the package tell two versions")
    check(not [name for name in EXTRAS if find_spec(name)], "an extra is installed")
    for name in gm.__all__:
        check(hasattr(gm, name), f"gramian.{name} is missing")

    rng = np.random.default_rng(0)
    X = rng.random((3000, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    model = gm.KernelRidge(alpha=0.01, gamma=5.0, memory_budget="50MB", random_state=0).fit(
        X[:2500], y[:2500]
    )
    check(model.score(X[2500:], y[2500:]) > 0.99, "KernelRidge does not learn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gramian"
        gm.save(model, path)
        again = gm.load(path).predict(X[2500:])
        check(np.array_equal(again, model.predict(X[2500:])), "a loaded model predicts something else")
        np.savez(Path(folder) / "t.npz", X=X, y=y)
        check(
            gm.open_data(Path(folder) / "t.npz", target="y").shape == X.shape, "a .npz file cannot be opened"
        )
        fast = gm.FastKernelClassifier(random_state=0).fit(X[:500], y[:500] > 0.5)
        # The templates of the exports are files of the wheel.
        for name in ("model.py", "model.c"):
            gm.export(fast, Path(folder) / name)
    done = subprocess.run([sys.executable, "-m", "gramian.cli"], capture_output=True, text=True, check=False)
    check(
        "pip install 'gramian[cli,files]'" in done.stderr, f"without typer the command says {done.stderr!r}"
    )
    print(f"gramian {gm.__version__} from {home.parent.name} on Python {sys.version.split()[0]}: all well")


if __name__ == "__main__":
    main()
