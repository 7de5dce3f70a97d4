"""The ground layer: byte counts, randomness, tiles, the engine and the errors."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from gramian._budget import format_bytes, parse_bytes
from gramian._random import as_generator, children, seed_for_sklearn
from gramian._tiles import MAX_ROWS, MIN_ROWS, TILE_BYTES, one_blas_thread, row_slices, tile_rows
from gramian.engine import Engine
from gramian.exceptions import (
    AccuracyWarning,
    BudgetError,
    GramianError,
    InputError,
    MissingPackageError,
    ModelFileError,
    NumericalWarning,
    did_you_mean,
)
from gramian.search import Limits, search


class TestBudget:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("200MB", 200_000_000),
            ("200 mb", 200_000_000),
            (" 1.5 GB ", 1_500_000_000),
            (".5k", 500),
            ("64MiB", 64 * 1024**2),
            ("1KiB", 1024),
            ("2TiB", 2 * 1024**4),
            ("3g", 3 * 10**9),
            ("17", 17),
            ("17B", 17),
            (4096, 4096),
            (4096.7, 4096),
            (np.int64(12), 12),
            (np.float32(12), 12),
        ],
    )
    def test_sizes_as_people_write_them(self, text: Any, size: int) -> None:
        assert parse_bytes(text) == size

    @pytest.mark.parametrize(
        ("budget", "text"),
        [
            ("lots", "memory_budget='lots' is not a size. Give bytes as a number or a string"),
            ("", "memory_budget='' is not a size"),
            ("-5MB", "is not a size"),
            ("1,5GB", "is not a size"),
            ("5iB", "is not a size"),
            ("5 PB", "is not a size"),
            (None, "memory_budget=None has type NoneType. Give bytes as a number"),
            (True, "memory_budget=True has type bool"),
            ([1], "has type list"),
            (0, r"memory_budget=0 is not a positive, finite number of bytes \(at least 1\)"),
            ("0.1B", "memory_budget='0.1B' is not a positive"),
            (-1, "memory_budget=-1 is not a positive"),
            (float("nan"), "memory_budget=nan is not a positive"),
            (float("inf"), "memory_budget=inf is not a positive"),
        ],
    )
    def test_errors(self, budget: Any, text: str) -> None:
        with pytest.raises(InputError, match=text):
            parse_bytes(budget)

    @pytest.mark.parametrize(
        ("size", "text"),
        [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 kB"),
            (123_456_789, "123 MB"),
            (999_499, "999 kB"),
            (999_999, "1 MB"),
            (999_999_999_999, "1 TB"),
            (5e15, "5e+03 TB"),
        ],
    )
    def test_writing(self, size: float, text: str) -> None:
        assert format_bytes(size) == text

    @given(st.integers(1000, 10**14))
    @settings(max_examples=50, deadline=None)
    def test_reading_what_was_written(self, size: int) -> None:
        assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=0.006)


class TestRandom:
    def test_seeds_and_generators(self) -> None:
        assert as_generator(3).random() == as_generator(np.int64(3)).random()
        rng = np.random.default_rng(0)
        assert as_generator(rng) is rng
        assert as_generator(None).random() != as_generator(None).random()

    def test_a_random_state_is_drawn_from_once(self) -> None:
        one, two = np.random.RandomState(0), np.random.RandomState(0)
        first = as_generator(one).random()
        assert first == as_generator(two).random()
        assert first != as_generator(one).random()
        as_generator(two)
        assert one.randint(10**9) == two.randint(10**9)

    def test_children_do_not_depend_on_who_uses_them_first(self) -> None:
        first = [child.random() for child in children(np.random.default_rng(1), 5)]
        second = [child.random() for child in reversed(children(np.random.default_rng(1), 5))]
        assert first == second[::-1]
        assert len(set(first)) == 5
        assert children(np.random.default_rng(1), 0) == []

    def test_sklearn_seed(self) -> None:
        assert 0 <= seed_for_sklearn(np.random.default_rng(0)) < 2**31

    def test_global_state_is_left_alone(self) -> None:
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        children(as_generator(0), 3)
        np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    @pytest.mark.parametrize("seed", [-1, 1.5, "abc", object])
    def test_errors(self, seed: Any) -> None:
        with pytest.raises(InputError, match=r"random_state=.* cannot seed a generator .*\. Give None, an"):
            as_generator(seed)


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


class TestTiles:
    @given(n=st.integers(0, 5000), rows=st.integers(1, 700))
    @settings(max_examples=50, deadline=None)
    def test_slices_cover_the_rows_once(self, n: int, rows: int) -> None:
        slices = list(row_slices(n, rows))
        assert [i for s in slices for i in range(s.start, s.stop)] == list(range(n))
        assert all(0 < s.stop - s.start <= rows for s in slices)

    def test_a_tile_fits_the_cache(self) -> None:
        assert tile_rows(1000, 4) * 1000 * 4 <= TILE_BYTES < (tile_rows(1000, 4) + 1) * 1000 * 4
        assert tile_rows(10**6, 8) == MIN_ROWS
        assert tile_rows(1, 4) == tile_rows(0, 4) == MAX_ROWS

    def test_blas_is_held_to_one_thread(self) -> None:
        with one_blas_thread():
            assert set(blas_threads()) == {1}


class TestEngine:
    @pytest.mark.parametrize("n_jobs", [1, 2, 4, -1, None])
    def test_results_come_in_order(self, n_jobs: int | None) -> None:
        def slow_first(i: int) -> int:
            time.sleep(0.002 if i % 3 == 0 else 0)
            return i * i

        assert list(Engine(n_jobs).map(slow_first, range(20))) == [i * i for i in range(20)]
        assert list(Engine(n_jobs).map(slow_first, [])) == []

    @pytest.mark.parametrize("n_jobs", [1, 2, 3])
    def test_any_number_of_threads_gives_the_same_sum(self, n_jobs: int) -> None:
        X = np.random.default_rng(0).standard_normal((1000, 20))
        total = sum(Engine(n_jobs).map(lambda rows: X[rows].T @ X[rows], row_slices(1000, 64)))
        expected = sum(X[rows].T @ X[rows] for rows in row_slices(1000, 64))
        if n_jobs == 1:
            np.testing.assert_allclose(total, expected)
        serial = sum(Engine(1).map(lambda rows: X[rows].T @ X[rows], row_slices(1000, 64)))
        np.testing.assert_array_equal(total, serial)

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_errors_come_through_and_stop_the_rest(self, n_jobs: int) -> None:
        done = []

        def fail(i: int) -> None:
            done.append(i)
            if i == 3:
                raise KeyError("task 3")

        with pytest.raises(KeyError, match="task 3"):
            Engine(n_jobs).run(fail, range(1000))
        assert len(done) < 20
        assert list(Engine(n_jobs).map(str, [1])) == ["1"]

    def test_errors_of_the_source_of_tasks_come_through(self) -> None:
        def tasks() -> Iterator[int]:
            yield 1
            raise OSError("source broke")

        with pytest.raises(OSError, match="source broke"):
            Engine(2).run(str, tasks())

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_a_map_inside_a_task_is_serial(self, n_jobs: int) -> None:
        def outer(i: int) -> bool:
            here = threading.get_ident()
            return all(there == here for there in Engine(4).map(lambda _: threading.get_ident(), range(8)))

        assert all(Engine(n_jobs).map(outer, range(6)))

    def test_the_callers_thread_after_a_serial_map_is_free_again(self) -> None:
        with Engine(1).results(str, range(2)) as found:
            for _ in found:
                threads = set(Engine(2).map(lambda _: threading.get_ident(), range(8)))
                assert threading.get_ident() not in threads
        with pytest.raises(ZeroDivisionError):
            Engine(1).run(lambda i: 1 / i, [0])
        assert threading.get_ident() not in set(Engine(2).map(lambda _: threading.get_ident(), range(4)))

    def test_results_do_not_pile_up(self) -> None:
        started = []
        with Engine(2).results(started.append, range(100)) as results:
            next(results)
            assert len(started) <= 4
        assert len(started) <= 4

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_blas_is_single_inside_and_restored_after(self, n_jobs: int) -> None:
        before = blas_threads()
        with Engine(n_jobs).results(lambda _: blas_threads(), range(3)) as found:
            for inside in found:
                assert set(inside) == set(blas_threads()) == {1}
        assert blas_threads() == before

    @pytest.mark.slow
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_a_loop_that_ends_with_an_error_gives_blas_back_at_once(self, n_jobs: int) -> None:
        def failing() -> None:
            with Engine(n_jobs).results(str, range(10)) as found:
                for _ in found:
                    raise KeyError("of the loop")

        with threadpool_limits(2, user_api="blas"):
            with pytest.raises(KeyError) as error:
                failing()
            assert set(blas_threads()) == {2}
            with threadpool_limits(3, user_api="blas"):
                del error  # and with it the loop
                gc.collect()
                assert set(blas_threads()) == {3}

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_search_that_stops_early_gives_blas_back(self, nested: bool) -> None:
        """The candidates that were started ahead are finished or dropped when the search returns."""

        def judge(_: None, x: float) -> tuple[float, None]:
            if nested:
                Engine(2).run(str, range(3))
            return x, None

        with threadpool_limits(2, user_api="blas"):
            found = search(None, [[1.0, 2.0, 3.0, 4.0]], judge, Limits(most=1), engine=Engine(2))
            assert len(found.made) == 1
            assert set(blas_threads()) == {2}

    @pytest.mark.parametrize("first_ends_first", [True, False])
    def test_maps_in_two_threads_restore_blas_when_the_last_ends(self, first_ends_first: bool) -> None:
        started = [threading.Event(), threading.Event()]
        ends = [threading.Event(), threading.Event()]

        def hold(number: int) -> None:
            with Engine(1).results(str, range(2)):
                started[number].set()
                assert ends[number].wait(600)

        def set_threads(number: int) -> None:
            setter = threading.Thread(target=threadpool_limits, args=(number, "blas"))
            setter.start()  # a thread that has ended does not keep others from setting limits
            setter.join()

        before = blas_threads()
        set_threads(2)
        with ThreadPoolExecutor(2) as pool:  # its threads stay alive after their maps have ended
            futures = []
            for number in (0, 1):
                futures.append(pool.submit(hold, number))
                assert started[number].wait(600)
            for number in (0, 1) if first_ends_first else (1, 0):
                assert set(blas_threads()) == {1}
                ends[number].set()
                futures[number].result()
            assert set(blas_threads()) == {2}
            with threadpool_limits(3, user_api="blas"):
                assert set(blas_threads()) == {3}
        set_threads(before[0])
        assert blas_threads() == before

    def test_number_of_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("joblib.cpu_count", lambda: 8)
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert Engine().n_threads == Engine(-1).n_threads == 8
        assert Engine(-2).n_threads == 7
        assert Engine(-100).n_threads == 1
        assert Engine(np.int64(3)).n_threads == 3  # type: ignore[arg-type]
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        assert Engine().n_threads == 3
        assert Engine(-1).n_threads == 8
        for unusable in ("", "0", "many"):
            monkeypatch.setenv("OMP_NUM_THREADS", unusable)
            assert Engine().n_threads == 8

    @pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True, [1]])
    def test_errors(self, n_jobs: Any) -> None:
        with pytest.raises(InputError, match=r"n_jobs=.* is not a number of threads\. Give None, a positive"):
            Engine(n_jobs)

    def test_a_value(self) -> None:
        assert pickle.loads(pickle.dumps(Engine(2))) == Engine(2)


class TestExceptions:
    @pytest.mark.parametrize(
        ("error", "also"),
        [
            (InputError("x"), ValueError),
            (BudgetError("x", 1), InputError),
            (ModelFileError("x"), ValueError),
            (MissingPackageError("x"), ImportError),
        ],
    )
    def test_can_be_caught_by_either_name(self, error: Exception, also: type[Exception]) -> None:
        assert isinstance(error, GramianError)
        assert isinstance(error, also)
        twin = pickle.loads(pickle.dumps(error))
        assert type(twin) is type(error)
        assert str(twin) == str(error)

    def test_budget_error_carries_the_least(self) -> None:
        assert BudgetError("too small", 12).least_bytes == 12
        assert pickle.loads(pickle.dumps(BudgetError("too small", 12))).least_bytes == 12

    def test_warnings_are_user_warnings(self) -> None:
        assert issubclass(NumericalWarning, UserWarning)
        assert issubclass(AccuracyWarning, UserWarning)

    @pytest.mark.parametrize(
        ("word", "text"),
        [("gausian", " Did you mean 'gaussian'?"), ("RBF", " Did you mean 'rbf'?"), ("qq", ""), (3, "")],
    )
    def test_did_you_mean(self, word: object, text: str) -> None:
        assert did_you_mean(word, ("gaussian", "rbf")) == text
