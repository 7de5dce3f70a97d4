"""A fit that is broken off anywhere goes on from its folder to the same bits."""

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import gramian as gm
from gramian._files import read_state, write_state
from gramian.compression import plan
from gramian.data import ArraySource
from gramian.exceptions import CheckpointWarning, InputError
from gramian.ridge import checkpoint as module

N, CHUNK = 30_000, 4096


def table():
    rng = np.random.default_rng(0)
    X = rng.random((N, 3))
    return X, np.column_stack([np.sin(6 * X[:, 0]), X[:, 1] * X[:, 2]])


def model(folder, **changes):
    options = {"gamma": 3.0, "approximation": gm.MultiResolution(root_rank=40, rank=20, n_blocks=10)}
    options |= {"fit_intercept": True, "random_state": 5, "checkpoint": folder, "n_jobs": 1}
    return gm.KernelRidge(0.1, **{**options, **changes})


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    make_small(monkeypatch.setattr)


def make_small(put):
    put(plan, "MAX_CHUNK_ROWS", CHUNK)
    put(module, "DISK_RATE", 1e30)  # saved after every chunk


class Broken(ArraySource):
    """Rows whose blocks cannot be read from one on; a look at a few rows can."""

    def __init__(self, X, limit):
        super().__init__(X)
        self.limit = limit

    def rows(self, where):
        if where.stop > self.limit and where.stop - where.start > 1024:
            raise OSError(f"row {where.start} cannot be read")
        return super().rows(where)


class Counted(ArraySource):
    """Rows that tell how many blocks of them have been asked for."""

    def __init__(self, X, tell):
        super().__init__(X)
        self.tell, self.count = tell, 0

    def rows(self, where):
        self.count += 1
        self.tell(self.count)
        return super().rows(where)


def bits(fitted):
    return [w.tobytes() for level in fitted.predictor_.weights for w in level], fitted.intercept_.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_broken_fit_goes_on_to_the_same_bits(tmp_path, seed, weighted):
    X, Y = table()
    w = np.linspace(0.5, 2.0, N) if weighted else None
    broken = model(tmp_path / "sums", random_state=seed)
    with pytest.raises(OSError, match="cannot be read"):
        broken.fit(Broken(X, 20_000), Y, w)
    stored = read_state(tmp_path / "sums" / module.FILE)
    assert stored is not None
    assert int(stored["n_rows"]) == 4 * CHUNK
    seen = []
    whole = Broken(X, N)
    whole.rows = lambda where: seen.append(where) or ArraySource.rows(whole, where)
    continued = model(tmp_path / "sums", random_state=seed, n_jobs=2).fit(whole, Y, w)
    assert next(where.start for where in seen if where.stop - where.start > 1024) == 4 * CHUNK
    assert list((tmp_path / "sums").iterdir()) == []
    if seed is not None:
        assert bits(continued) == bits(model(None).fit(Broken(X, N), Y, w))
    else:
        assert continued.score(X, Y) > 0.9


def run(folder, file, die_at, die_after):
    """Fit in a process of its own, killed in the middle of a write, or as it asks for a block of rows."""
    make_small(setattr)
    if die_at:
        count, fsync = [0], os.fsync

        def killed(number):
            count[0] += 1
            if count[0] == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            fsync(number)

        os.fsync = killed
    X, Y = table()

    def stopped(number):
        if number == die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    fitted = model(folder).fit(Counted(X, stopped), Y)
    np.save(file, np.concatenate([w.ravel() for level in fitted.predictor_.weights for w in level]))
    os._exit(0)


@pytest.mark.slow
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path):
    X, Y = table()
    asked = []
    expected = model(None).fit(Counted(X, asked.append), Y)
    weights = np.concatenate([w.ravel() for level in expected.predictor_.weights for w in level])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gramian"])
    folder, file = tmp_path / "sums", tmp_path / "weights.npy"
    # At the first block, then at each second one that is left; in the middle of writes; and to the end.
    plans = [(0, 1), *[(0, asked[-1] - 6)] * 2, *[(0, 3)] * 3, (3, 0), (1, 0), (0, 0)]
    kills = 0
    for die_at, die_after in plans:
        file.unlink(missing_ok=True)
        child = context.Process(target=run, args=(folder, file, die_at, die_after))
        child.start()
        child.join(600)
        assert child.exitcode in (0, -signal.SIGKILL)
        kills += child.exitcode != 0
    assert kills >= 4, (kills, asked)
    assert np.load(file).tobytes() == weights.tobytes()
    assert list(folder.iterdir()) == []


def unfinished(folder):
    X, Y = table()
    with pytest.raises(OSError, match="cannot be read"):
        model(folder).fit(Broken(X, 20_000), Y)
    return X, Y, folder / module.FILE


def other_row(at):
    def change(X, Y):
        X[at, 0] += 1e-9
        return X, Y, {}

    return change


def other_target(at):
    def change(X, Y):
        Y[at, 1] += 1e-9
        return X, Y, {}

    return change


def swapped(X, Y):
    order = np.arange(N)
    order[[7, N - 9]] = N - 9, 7
    return X[order], Y[order], {}


#: What is changed of a fit, and what the error says is other.
CHANGES = {
    "first row": (other_row(0), "rows"),
    "middle row": (other_row(N // 2 + 1), "rows"),
    "last row": (other_row(N - 1), "rows"),
    "first target": (other_target(0), "targets"),
    "a target": (other_target(1_234), "targets"),
    "last target": (other_target(N - 1), "targets"),
    "order": (swapped, "rows, targets"),
    "dtype": (lambda X, Y: (X.astype(np.float32), Y, {}), "rows"),
    "weights": (lambda X, Y: (X, Y, {"sample_weight": np.ones(N)}), "weights"),
    "gamma": (lambda X, Y: (X, Y, {"gamma": 4.0}), "kernel"),
    "kernel": (lambda X, Y: (X, Y, {"kernel": "laplacian"}), "kernel"),
    "alpha": (lambda X, Y: (X, Y, {"alpha": 0.2}), "alpha"),
    "seed": (lambda X, Y: (X, Y, {"random_state": 6}), "random_state"),
    "intercept": (lambda X, Y: (X, Y, {"fit_intercept": False}), "sizes"),
    "size": (
        lambda X, Y: (X, Y, {"approximation": gm.MultiResolution(root_rank=41, rank=20, n_blocks=10)}),
        "sizes",
    ),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return the file of an unfinished fit."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch.setattr)
        return unfinished(tmp_path_factory.mktemp("begun") / "sums")[2].read_bytes()


@pytest.mark.parametrize("change", CHANGES)
def test_another_fit_is_refused_and_the_folder_kept(tmp_path, change, begun):
    act, said = CHANGES[change]
    X, Y, options = act(*table())
    (tmp_path / module.FILE).write_bytes(begun)
    weights = options.pop("sample_weight", None)
    other = model(tmp_path).set_params(**options)
    with pytest.raises(InputError, match=rf"another fit, with other {said}\b.* To go on .* delete it"):
        other.fit(X, Y, weights)
    assert not hasattr(other, "predictor_")
    assert (tmp_path / module.FILE).read_bytes() == begun


def test_other_weights_are_refused(tmp_path):
    X, Y = table()
    w = np.linspace(0.5, 2.0, N)
    with pytest.raises(OSError, match="cannot be read"):
        model(tmp_path).fit(Broken(X, 20_000), Y, w)
    w[N - 1] += 1e-9
    with pytest.raises(InputError, match=r"another fit, with other (targets, )?weights"):
        model(tmp_path).fit(X, Y, w)


@pytest.mark.parametrize("container", ["array", "list", "columnwise", "frame"])
def test_the_same_rows_in_another_container_go_on(tmp_path, container, begun):
    X, Y = table()
    (tmp_path / module.FILE).write_bytes(begun)
    if container == "list":
        X, Y = X.tolist(), Y.tolist()
    elif container == "columnwise":
        X, Y = np.asfortranarray(X), np.asfortranarray(Y)
    elif container == "frame":
        X = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    resumed = []
    bind = module.SumsCheckpoint.bind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module.SumsCheckpoint, "bind", lambda *a, **k: resumed.append(bind(*a, **k)) or resumed[-1]
        )
        model(tmp_path).fit(X, Y)
    assert resumed == [4 * CHUNK]
    assert list(tmp_path.iterdir()) == []


def test_standardised_rows_are_known_by_their_own(tmp_path):
    X, Y = table()
    with pytest.raises(OSError, match="cannot be read"):
        model(tmp_path, standardize=True).fit(Late(X), Y)
    X[N // 2 + 1, 0] += 1e-9
    with pytest.raises(InputError, match="another fit, with other rows"):
        model(tmp_path, standardize=True).fit(X, Y)


class Late(ArraySource):
    """Rows of which the second pass cannot read those behind the first 20,000."""

    passes = 0

    def rows(self, where):
        self.passes += where.start == 0
        if self.passes > 1 and where.stop > 20_000 and where.stop - where.start > 1024:
            raise OSError(f"row {where.start} cannot be read")
        return super().rows(where)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "changed", "foreign", "empty"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    X, Y, path = unfinished(tmp_path / "sums")
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "changed":
        content[len(content) // 2] ^= 255
    elif damage == "empty":
        content = bytearray()
    path.write_bytes(bytes(content))
    if damage == "foreign":
        write_state(path, {"kind": "other"}, {"numbers": np.arange(3)})
    with pytest.raises(InputError, match=r"sums\.npz.*(damaged|another fit).*[Dd]elete it"):
        model(tmp_path / "sums").fit(Broken(X, N), Y)


def test_a_full_disk_costs_the_checkpoint_alone(tmp_path, monkeypatch):
    X, Y = table()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_state", full)
    with pytest.warns(CheckpointWarning, match=r"No space left.*goes on without"):
        fitted = model(tmp_path / "sums").fit(X, Y)
    monkeypatch.undo()
    make_small(monkeypatch.setattr)
    assert bits(fitted) == bits(model(None).fit(X, Y))


def test_a_folder_that_is_none(tmp_path):
    X, Y = table()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        model(tmp_path / "file").fit(X, Y)
    with pytest.raises(InputError, match="does not exist"):
        model(Path(tmp_path) / "a" / "b").fit(X, Y)
