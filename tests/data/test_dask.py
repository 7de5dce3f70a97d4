"""Fits and predictions on Dask clusters of processes, against the same on one machine."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import gramian as gm
from gramian.exceptions import ClusterError
from gramian.ridge import training

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
pytest.importorskip("distributed", reason="needs the extra 'dask'")
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import pandas as pd
from distributed import Client, Future, LocalCluster

from gramian.engine_dask import DaskEngine
from gramian.engine_dask.tasks import ClusterTasks

# Targets here are any numbers, some of them far from 0.
pytestmark = pytest.mark.filterwarnings("ignore:.*Pass fit_intercept=True")

N = 4000
#: Seconds after which a test that waits for another process says that it hangs.
HANG = 600


def model(**changes):
    sizes = gm.MultiResolution(root_rank=50, rank=15, n_blocks=6, random_state=0)
    given = {"alpha": 1e-3, "gamma": 5.0, "tile_dtype": "float64", "random_state": 0, "approximation": sizes}
    return gm.KernelRidge(**{**given, **changes})


def classifier(**changes):
    return gm.KernelRidgeClassifier(
        **{"alpha": 0.1, "gamma": 5.0, "tile_dtype": "float64", "random_state": 0, **changes}
    )


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((N, 3))
    Y = np.column_stack([np.sin(6 * X[:, 0]) + X[:, 1], X.sum(axis=1)]) + 5.0
    weights = rng.random(N)
    weights[::7] = 0.0
    return X, Y, weights


@pytest.fixture(scope="module")
def frame(rows):
    X = rows[0]
    table = pd.DataFrame(X, columns=list("abc"))
    table["label"] = np.array(["low", "mid", "top"])[(X[:, 0] * 3).astype(int)]
    return table


@pytest.fixture(scope="module", autouse=True)
def environment():
    """Put the environment back: nannies that start at once leave OMP_NUM_THREADS=1 in it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as connected,
    ):
        yield connected


def close(a, b):
    return np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)


class Stopped(Exception):
    pass


def refuse_to_compute(*_args, **_kwargs):
    raise Stopped


class TestOnCollections:
    @pytest.mark.slow
    def test_regression_is_that_of_one_machine(self, client, rows):
        X, Y, w = rows
        alone = model(fit_intercept=True).fit(X, Y, w)
        # Chunks that differ, empty ones, and columns in two chunks.
        dX = da.from_array(X, chunks=((0, 700, 0, 1300, 2000), (2, 1)))
        there = model(fit_intercept=True).fit(
            dX, da.from_array(Y, chunks=(900, 1)), da.from_array(w, chunks=1100)
        )
        close(there.intercept_, alone.intercept_)
        close(there.predict(X), alone.predict(X))
        lazy = there.predict(dX)
        assert lazy.chunks == ((0, 700, 0, 1300, 2000), (2,))
        close(lazy.compute(), alone.predict(X))

    @pytest.mark.slow
    def test_targets_and_weights_of_this_machine(self, client, rows):
        X, Y, w = rows
        there = model().fit(da.from_array(X, chunks=1000), Y[:, 0], w)
        close(there.predict(X), model().fit(X, Y[:, 0], w).predict(X))

    @pytest.mark.slow
    def test_frame_with_labels(self, client, rows, frame):
        X = frame[["a", "b", "c"]]
        alone = classifier(class_weight="balanced").fit(X, frame["label"], rows[2])
        parts = dd.from_pandas(frame, npartitions=5)
        dX = parts[["a", "b", "c"]]
        there = classifier(class_weight="balanced").fit(dX, parts["label"], rows[2])
        assert list(there.classes_) == ["low", "mid", "top"]
        assert list(there.feature_names_in_) == ["a", "b", "c"]
        close(there.decision_function(X), alone.decision_function(X))
        close(there.decision_function(dX).compute(), alone.decision_function(X))
        assert (there.predict(dX).compute() == alone.predict(X)).all()
        assert (there.predict(parts[["b", "a", "c"]]).compute() == alone.predict(X)).all()
        with pytest.raises(gm.InputError, match="X has no column 'a', which the training rows had"):
            there.predict(parts[["b", "c"]])

    @pytest.mark.slow
    def test_two_classes_and_unknown_chunks(self, client, rows):
        X, Y, _ = rows
        labels = (Y[:, 0] > 5.5).astype(int)
        dX = da.from_array(X, chunks=1000)
        some = dX[dX[:, 1] < 0.5]
        keep = X[:, 1] < 0.5
        there = classifier().fit(some, da.from_array(labels[keep], chunks=600))
        alone = classifier().fit(X[keep], labels[keep])
        close(there.decision_function(X), alone.decision_function(X))
        assert there.predict(some).ndim == there.decision_function(some).ndim == 1

    def test_prediction_is_lazy(self, client, rows):
        X, Y, _ = rows
        fitted = model().fit(X, Y[:, 0])
        never = da.from_array(X, chunks=1000).map_blocks(
            refuse_to_compute, dtype=float, meta=np.empty((0, 3))
        )
        lazy = fitted.predict(never)
        assert lazy.shape == (N,)
        assert lazy.chunks == ((1000,) * 4,)
        assert classifier().fit(X, Y[:, 0] > 5.5).predict(never).dtype == bool

    @pytest.mark.slow
    def test_streams_and_scaled_columns(self, client, rows):
        X, Y, w = rows
        given = {"standardize": True, "fit_intercept": True}
        there, alone = model(**given), model(**given)
        for part in (slice(0, 2500), slice(2500, N)):
            there.partial_fit(*(da.from_array(a[part], chunks=500) for a in (X * [1, 9, 99], Y, w)))
            alone.partial_fit(X[part] * [1, 9, 99], Y[part], w[part])
        close(there.predict(X * [1, 9, 99]), alone.predict(X * [1, 9, 99]))
        close(there.predict(da.from_array(X, chunks=900)).compute(), alone.predict(X))

    # Older Dask warns of the client that the other tests have open.
    @pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler:UserWarning")
    def test_without_a_client(self, rows, monkeypatch):
        """Dask's own scheduler, and a graph that holds the model."""
        X, Y, _ = rows
        dX = da.from_array(X, chunks=(1500, 3))
        monkeypatch.setattr(DaskEngine, "current", None)
        with dask.config.set(scheduler="threads"):
            there = model().fit(dX, da.from_array(Y, chunks=900))
            close(there.predict(dX).compute(), model().fit(X, Y).predict(X))
        with pytest.raises(gm.InputError, match="there is no Dask client"):
            model(engine=DaskEngine()).fit(X, Y)

    @pytest.mark.slow
    def test_a_fit_that_is_taken_up_again(self, client, rows, tmp_path):
        X, Y, _ = rows
        dX, dy = da.from_array(X, chunks=250), da.from_array(Y[:, 0], chunks=250)
        assert model().plan(dX, dy).sample_rows == model().plan(X, Y[:, 0]).sample_rows
        seen = []

        def broken(rounds):
            def first_two(self, *args, **kwargs):
                for number, found in enumerate(rounds(self, *args, **kwargs)):
                    if number == 1:
                        raise Stopped
                    seen.append(found[0])
                    yield found

            return first_two

        with pytest.MonkeyPatch.context() as patch:
            from gramian.engine_dask import rows as distributed_rows

            patch.setattr(distributed_rows, "ROUND_TASKS", 1)
            patch.setattr(distributed_rows, "TASK_ROWS", 1)
            whole = model().fit(dX, dy)
            patch.setattr(distributed_rows.TaskParts, "rounds", broken(distributed_rows.TaskParts.rounds))
            patch.setattr("gramian.ridge.checkpoint.SHARE", 1e9)
            with pytest.raises(Stopped):
                model(checkpoint=tmp_path / "c").fit(dX, dy)
        assert 0 < sum(seen) < N
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed_rows, "ROUND_TASKS", 1)
            patch.setattr(distributed_rows, "TASK_ROWS", 1)
            assert (model(checkpoint=tmp_path / "c").fit(dX, dy).predict(X) == whole.predict(X)).all()


class TestScatteredRows:
    def test_rows_of_this_machine(self, client, rows):
        X, Y, w = rows
        there = model(engine=DaskEngine(client, part_bytes="30KB"), fit_intercept=True).fit(X, Y, w)
        alone = model(fit_intercept=True).fit(X, Y, w)
        close(there.predict(X), alone.predict(X))
        close(alone.predict(X), there.set_params(engine=None).predict(X))

    def test_files_that_workers_open(self, client, rows, tmp_path):
        X, Y, _ = rows
        table = pd.DataFrame(np.column_stack([X, Y[:, 0]]), columns=list("abcy"))
        for number in range(2):
            table[number::2].to_csv(tmp_path / f"{number}.csv", index=False)
        source = gm.open_data([tmp_path / "0.csv", tmp_path / "1.csv"], target="y")
        engine = DaskEngine(client, shared_files=True, part_bytes="30KB")
        there = model(engine=engine).fit(source)
        alone = model().fit(source)
        close(there.predict(table[list("abc")]), alone.predict(table[list("abc")]))
        close(there.predict(source), alone.predict(source))

    def test_sparse_rows(self, client, rows):
        X = sp.csr_matrix(np.where(rows[0] < 0.3, rows[0], 0.0))
        there = model(engine=DaskEngine(client, shared_files=True, part_bytes="30KB")).fit(X, rows[1])
        close(there.predict(X), model().fit(X, rows[1]).predict(X))

    @pytest.mark.slow
    def test_labels_of_a_cluster(self, client, rows):
        X, Y, _ = rows
        labels = da.from_array((Y[:, 0] > 5.5).astype(int), chunks=900)
        there = classifier(engine=DaskEngine(client)).fit(X, labels)
        assert (there.predict(X) == classifier().fit(X, labels.compute()).predict(X)).all()

    def test_clone_and_pickle(self, client):
        import pickle

        engine = DaskEngine(client, timeout=5.0)
        assert clone(model(engine=engine)).engine is engine
        copy = pickle.loads(pickle.dumps(engine))
        assert copy.client is None
        assert copy.timeout == 5.0


class TestBadInput:
    def test_columns_that_are_not_numbers(self, client, frame):
        parts = dd.from_pandas(frame, npartitions=2)
        with pytest.raises(gm.InputError, match="columns that are not numbers: label"):
            model().fit(parts, parts["a"])

    def test_nan_names_its_row(self, client, rows):
        X = rows[0].copy()
        X[2345, 1] = np.nan
        with pytest.raises(gm.InputError, match="NaN or infinity in row 2345"):
            model().fit(da.from_array(X, chunks=1000), rows[1])

    def test_features_whose_squares_overflow_name_their_row(self, client, rows):
        X = rows[0].copy()
        X[2345, 1] = 1e160
        with pytest.raises(gm.InputError, match=r"X holds 1e\+160 in row 2345, column 1"):
            model().fit(da.from_array(X, chunks=1000), rows[1])

    def test_labels_that_cannot_be_classes(self, client, rows):
        labels = np.array(["a", "b"] * (N // 2), object)
        labels[7] = None
        with pytest.raises(gm.InputError, match="another missing label"):
            classifier().fit(rows[0], da.from_array(labels, chunks=1000))

    def test_workers_that_are_closing(self, client, rows, monkeypatch):
        def scatter(*args, **kwargs):
            raise ValueError("Can not use replicate to delete data")  # the scheduler's words

        monkeypatch.setattr(client, "scatter", scatter)
        with pytest.raises(ClusterError, match=r"the Dask cluster has gone .its workers are closing"):
            model(engine=DaskEngine(client)).fit(*rows[:2])

    def test_nan_in_targets(self, client, rows):
        y = rows[1][:, 0].copy()
        y[3000] = np.nan
        with pytest.raises(gm.InputError, match="y contains NaN"):
            model().fit(da.from_array(rows[0], chunks=1000), da.from_array(y, chunks=1000))

    def test_shapes(self, client, rows):
        X, Y, _ = rows
        dX = da.from_array(X, chunks=2000)
        with pytest.raises(gm.InputError, match="X has 4000 rows, but y has 3999"):
            model().fit(dX, da.from_array(Y[1:], chunks=2000))
        with pytest.raises(gm.InputError, match="expected two, one row a sample"):
            model().fit(dX[:, 0], Y)
        with pytest.raises(gm.InputError, match="X is a Dask Bag; expected an array, a series or a frame"):
            model().fit(db.from_sequence([1, 2]), Y)
        with pytest.raises(gm.InputError, match="X has no rows"):
            model().fit(dX[:0], Y[:0])
        with pytest.raises(gm.InputError, match="blocks of type ndarray and dtype <U"):
            model().fit(dX.astype(str), Y)
        fitted = model().fit(X, Y)
        with pytest.raises(gm.InputError, match="X has 2 features"):
            fitted.predict(dX[:, :2])
        with pytest.raises(gm.InputError, match="y has one class"):
            classifier().fit(dX, da.ones(N, chunks=2000))

    def test_engines(self, client, rows):
        X, Y, _ = rows
        with pytest.raises(gm.InputError, match="engine='dask' is not a cluster"):
            model(engine="dask").fit(X, Y)
        with pytest.raises(gm.InputError, match=r"expected a distributed\.Client"):
            DaskEngine("tcp://nowhere:1")
        with pytest.raises(gm.InputError, match="needs all rows in the memory of this machine"):
            model(engine=DaskEngine(client), approximation="exact").fit(X, Y)
        with pytest.raises(gm.InputError, match="works on this machine alone"):
            model(engine=DaskEngine(client), kernel="precomputed").fit(X @ X.T, Y)
        with pytest.raises(gm.InputError, match="matrix of kernel values"):
            model(kernel="precomputed").fit(da.from_array(X, chunks=2000), Y)


@pytest.mark.slow
def test_a_worker_dies_in_mid_fit(client, rows, tmp_path):
    X, Y, _ = rows
    flag = str(tmp_path / "killed")

    def deadly(block, block_info=None):
        # Targets are read by the tasks that make the sums, and by no other.
        if block_info[0]["chunk-location"][0] == 5 and not os.path.exists(flag):
            Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    before = set(client.nthreads())
    y = da.from_array(Y[:, 0], chunks=250).map_blocks(deadly, dtype=float, meta=np.empty(0))
    there = model().fit(da.from_array(X, chunks=250), y)
    assert os.path.exists(flag)
    close(there.predict(X), model().fit(X, Y[:, 0]).predict(X))
    client.wait_for_workers(2, timeout=HANG)
    assert set(client.nthreads()) != before


def test_progress_comes_with_each_part(client, rows, tmp_path):
    flag = tmp_path / "told"

    def count(total, part):
        for _ in range(10 * HANG):  # the last part waits for the news of another
            if part[0, 0] != rows[0][-500, 0] or flag.exists():
                return (total or 0) + len(part)
            time.sleep(0.1)
        raise Stopped

    seen = []

    def progress(number):
        seen.append(number)
        flag.touch()

    source = DaskEngine(client).rows(da.from_array(rows[0], chunks=500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gramian.engine_dask.rows.TASK_ROWS", 1)
        assert [*source.rounds(count, sum, progress=progress)] == [(N, N)]
    assert sum(seen) == N
    assert len(seen) > 1


def test_a_round_holds_one_total_for_each_thread(client, rows):
    def append(total, part):
        return [(total is None, len(part))] if total is None else [*total, (False, len(part))]

    source = DaskEngine(client).rows(da.from_array(rows[0], chunks=500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gramian.engine_dask.rows.TASK_ROWS", 1)
        ((_, found),) = source.rounds(append, lambda totals: [one for total in totals for one in total])
    assert [k for _, k in found] == [500] * 8
    assert sum(begun for begun, _ in found) == 2


@pytest.mark.slow
def test_a_result_is_sent_once_however_long_that_takes(client, rows, monkeypatch):
    """Asked for again every second, a large result never came, and its copies filled the worker's memory."""
    asked = []
    original = Future.result

    def counted(self, timeout=None):
        asked.append(timeout)
        return original(self, timeout=timeout)

    monkeypatch.setattr(Future, "result", counted)
    future = client.submit(np.zeros, 100)
    assert len(ClusterTasks(client, "64MB", timeout=45.0).waited(future)) == 100
    assert asked == [45.0]


def waits_no_longer(monkeypatch):
    """Let each look at the engine's clock take longer than it waits for workers."""
    looks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 2.0 * HANG * next(looks), sleep=time.sleep)
    monkeypatch.setattr("gramian.engine_dask.tasks.time", clock)


@pytest.mark.slow
@pytest.mark.parametrize("closes", ["cluster", "client", "workers"])
def test_a_cluster_that_is_closed_during_a_fit(rows, closes, monkeypatch):
    X, Y, _ = rows
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as own,
    ):
        summed = training.sum_rows

        engine = DaskEngine(own, timeout=HANG)

        def closing(*args, **given):
            if closes == "workers":
                cluster.scale(0)
                while own.nthreads():
                    time.sleep(0.05)
            else:
                (cluster if closes == "cluster" else own).close()
            waits_no_longer(monkeypatch)
            return summed(*args, **given)

        monkeypatch.setattr(training, "sum_rows", closing)
        fitted = model(engine=None if closes == "client" else engine)
        with own.as_current(), pytest.raises(ClusterError, match=r"cluster has gone .*fit again"):
            fitted.fit(da.from_array(X, chunks=1000), Y)
        with pytest.raises(NotFittedError):
            check_is_fitted(fitted)


@pytest.fixture
def processes(tmp_path_factory):
    """Scheduler and worker as programs of their own, started by command line."""
    folder = tmp_path_factory.mktemp("cluster")
    found = folder / "scheduler.json"
    common = ["--scheduler-file", str(found), "--no-dashboard"]
    started = []

    def start(name, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *common, *options]
        with (folder / f"{name}.log").open("w") as log:
            started.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log))
        return started[-1]

    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    deadline = time.monotonic() + HANG
    while not found.exists():
        assert time.monotonic() < deadline, (folder / "scheduler.log").read_text()
        time.sleep(0.05)
    worker = start("worker", "--no-nanny", "--nthreads", "2", "--host", "127.0.0.1")
    yield scheduler, worker, found
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_fits_then_loses_its_worker_and_its_scheduler(processes, rows, monkeypatch):
    X, Y, _ = rows
    scheduler, worker, found = processes
    with Client(scheduler_file=str(found), set_as_default=False, timeout=HANG) as connected:
        connected.wait_for_workers(1, timeout=HANG)
        fitted = model(engine=DaskEngine(connected, timeout=HANG)).fit(da.from_array(X, chunks=500), Y)
        expected = model().fit(X, Y).predict(X)
        close(fitted.predict(X), expected)
        before = dict(fitted.__dict__)

        def interrupted(process):
            class Killing(gm.data.ArraySource):
                def rows(self, where):
                    process.kill()
                    process.wait()
                    waits_no_longer(monkeypatch)
                    return super().rows(where)

            fitted.fit(Killing(X), Y)

        with pytest.raises(ClusterError, match=r"no worker for 600 s|has gone"):
            interrupted(worker)
        assert fitted.__dict__ == before
        with pytest.raises(ClusterError, match="has gone"):
            interrupted(scheduler)
        assert fitted.__dict__ == before
        close(fitted.set_params(engine=None).predict(X), expected)
        with pytest.raises(NotFittedError):
            check_is_fitted(clone(fitted))
