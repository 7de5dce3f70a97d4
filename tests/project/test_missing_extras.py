"""Without an extra, each way in ends in one error that names the pip command of that extra."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole  # each configuration is about another page or file

#: Extra → code that needs it, after gramian is imported as gm.
NEEDED = {
    "files: csv": "gm.open_data(csv)",
    "files: write": "from gramian.data import write_predictions; write_predictions(csv, {'a': np.ones(2)})",
    "files: hdf5": "gm.open_data(folder / 't.h5')",
    "files: zarr": "gm.open_data(folder / 't.zarr')",
    "plot": "from gramian.plotting import GramDisplay; GramDisplay.from_estimator(nystrom, X)",
    "dask": "import gramian.engine_dask",
    "export": "gm.export(fast, folder / 't.onnx')",
    "jit": "from gramian.fast.serving.compiled import compiled_loops; compiled_loops()",
    "cli": "from gramian.cli import main; main()",
}

SCRIPT = """
import importlib.abc, io, json, sys, tempfile, warnings
from contextlib import redirect_stderr
from pathlib import Path

GONE = {"pyarrow", "h5py", "zarr", "matplotlib", "dask", "distributed", "onnx", "numba", "typer", "rich"}

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])

sys.meta_path.insert(0, Absent())
import numpy as np
import gramian as gm

folder = Path(tempfile.mkdtemp())
csv = folder / "t.csv"
csv.write_text("a,b\\n1,2\\n")
(folder / "t.h5").write_bytes(b"\\x89HDF\\r\\n\\x1a\\n")
(folder / "t.zarr").mkdir()
X = np.random.default_rng(0).standard_normal((80, 2))
warnings.simplefilter("ignore")
fitted = gm.KernelRidge(alpha=1.0, gamma=1.0).fit(X, X[:, 0])
nystrom = gm.Nystrom(rank=4, gamma=1.0, random_state=0).fit(X)
fast = gm.FastKernelRegressor(teacher=fitted, random_state=0).fit(X, X[:, 0])
said = {}
for name, code in json.loads(sys.argv[1]).items():
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            exec(code)
        said[name] = "no error"
    except gm.exceptions.MissingPackageError as error:
        said[name] = str(error)
    except SystemExit as error:
        said[name] = told.getvalue()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said():
    command = [sys.executable, "-c", SCRIPT, json.dumps(NEEDED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("need", NEEDED)
def test_the_error_names_the_pip_command(need, said):
    extra = need.split(":")[0]
    # The command line asks for the files too, as nearly every command reads some.
    wanted = "pip install 'gramian[cli,files]'" if extra == "cli" else f"pip install 'gramian[{extra}]'"
    assert wanted in said[need]
    assert len(said[need].splitlines()) == 1


def test_every_extra_of_the_library_is_asked():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(tomllib.loads(text)["project"]["optional-dependencies"])
    # gpu is empty yet and all holds the others; the rest serves the project's own work.
    project = {"gpu", "all", "docs", "bench", "peers", "test", "dev"}
    assert {need.split(":")[0] for need in NEEDED} == extras - project
