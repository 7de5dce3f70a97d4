# Everything from a clean clone on a machine with only Python: each target makes .venv itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where the real data sets are, if anywhere; the tests that need them skip with a reason otherwise.
GRAMIAN_DATA ?= $(wildcard $(abspath ../shared/data))
export GRAMIAN_DATA

.PHONY: test test-all test-rest test-repeat memory adversary demo lint types layers pytest bench bench-quick tables papers papers-quick peers frontier figures regressions docs docs-check package test-minimum test-bare test-readme test-cores test-pythons test-newest matrix clean format

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# What a newcomer needs, in less than four minutes on two cores: every formula against its oracle, without data sets.
test: lint types layers pytest

# Everything that a release must pass but the promises and the jobs of the wheel: the rest of the tests after `make test`.
test-all: test test-rest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# One process per core, each with one thread: several multithreaded products, or trees, on busy cores are slow.
QUICK := -m 'not slow and not data'
REST := -m '(slow or data) and not repeat'
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

pytest: $(STAMP)
	$(PYTEST) $(QUICK)

test-rest: $(STAMP)
	$(PYTEST) $(REST) --durations=10

# Further configurations of the tests above, of which they run some: about an hour on two cores.
test-repeat: $(STAMP)
	$(PYTEST) -m repeat

# The quick tests as on two other processors: a test that fails there lets rounding decide.
test-cores: $(STAMP)
	$(BIN)/python tools/run_cores.py -n auto --maxprocesses 8 --dist worksteal $(QUICK)

# Memory and time of fits in fresh processes, one after the other.
memory: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -m promise tests/promises

# Random configurations against dense references and laws, on every core: about an hour for 10,000 on two. A failure
# is made small and written as a script into build/adversary; the table goes into the page from the stored result.
CASES := 10000
SEED := 1
adversary: $(STAMP)
	$(BIN)/python tests/adversary/run.py --cases $(CASES) --seed $(SEED) --jobs $$(nproc)
	$(BIN)/python tests/adversary/run.py --report docs/reliability.md

# Sdist and wheel: built, looked into, installed without extras away from the source, tried and type-checked.
package: $(STAMP)
	$(BIN)/python tools/check_package.py build/package

# The jobs below run tests in environments of their own: in CI a smoke suite of what an environment can break
# (examples of the reference, scikit-learn's checks, every file format, exports, the command line), with `make matrix` the whole quick suite.
SMOKE := tests/estimator/test_check_estimator.py tests/model_file/test_model_file.py tests/model_file/test_model_file_steps.py tests/export/test_export.py tests/data/test_files.py tests/data/test_open_data.py tests/cli/test_cli.py tests/project/test_missing_extras.py
INSTALL := -m pip install --quiet --quiet --disable-pip-version-check
PLAIN := $(ONE_THREAD) GRAMIAN_DATA=
SUITE := -m pytest -n auto --maxprocesses 8 --dist worksteal -p no:cacheprovider $(QUICK)

# For a release, and for a change of dependencies.
matrix: test-repeat
	$(MAKE) --no-print-directory test-bare test-readme test-minimum test-pythons SMOKE=tests PAGES=--all

# The wheel with the core dependencies only, in the unpacked sdist: what needs an extra skips, and says why.
test-bare: package
	build/package/venv/bin/python $(INSTALL) -c constraints.txt pytest pytest-xdist hypothesis PyYAML
	cd build/package/sdist/* && $(PLAIN) $(CURDIR)/build/package/venv/bin/python $(SUITE) -o addopts=-q $(SMOKE)

# The snippets of a page for each environment, made of the wheel by the command that the page names; with
# PAGES=--all those of every page, which test-rest runs in the environment of the developers.
test-readme: package
	$(PLAIN) $(BIN)/python tools/check_pages.py build/package/dist/*.whl build/pages $(PAGES)

# The least version of every dependency, extras included, on the least Python. Old packages deprecate each other.
PYTHON311 ?= python3.11
test-minimum: $(STAMP)
	$(PYTHON311) -m venv --clear build/minimum
	$(BIN)/python tools/least_versions.py cli files plot dask export jit test pandas polars onnxruntime > build/minimum/pins.txt
	build/minimum/bin/python $(INSTALL) -r build/minimum/pins.txt -e .
	$(PLAIN) build/minimum/bin/python $(SUITE) -W ignore::DeprecationWarning src $(SMOKE)

# Newer Pythons, with everything; one that is not here is named and left out. CI takes the newest that is here.
PYTHONS := 3.14 3.13 3.12
NEWEST = $(firstword $(foreach each,$(PYTHONS),$(if $(shell tools/find_python $(each)),$(each))) $(PYTHONS))
test-newest:
	$(MAKE) --no-print-directory test-python$(NEWEST)

test-pythons: $(PYTHONS:%=test-python%)

test-python%: $(STAMP)
	@python=$$(tools/find_python $*) || { echo "Python $* is not here: not tested"; exit 0; }; set -ex; \
	$$python -m venv --clear build/python$*; \
	build/python$*/bin/python $(INSTALL) -c constraints.txt -e '.[cli,files,plot,dask,export,jit,test]' pandas polars onnxruntime; \
	$(PLAIN) build/python$*/bin/python $(SUITE) src $(SMOKE)

demo: $(STAMP)
	$(BIN)/python -m gramian.demo

BENCH_STAMP := $(VENV)/.installed-bench

$(BENCH_STAMP): $(STAMP) pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $@

# Libraries to compare with, as far as the package index has them, in an environment of their own: build/peers.
PEERS_STAMP := build/peers/.installed

$(PEERS_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench,jit,peers]'
	touch $@

peers: $(PEERS_STAMP)

# Every method on every set, then the figures of each page, each beside its peer: some hours. The data folder
# is named by GRAMIAN_DATA; a run that was stopped goes on.
bench: $(BENCH_STAMP) tables
	$(BIN)/python benchmarks/side_by_side.py
	$(BIN)/python benchmarks/reproduce.py
	$(BIN)/python benchmarks/printed.py --again
	$(BIN)/python benchmarks/row_scale.py
	build/peers/bin/python benchmarks/spatial.py
	$(BIN)/python benchmarks/doors.py
	$(BIN)/python benchmarks/mnist2m.py
	$(BIN)/python benchmarks/single_row.py

# The same comparison on small sets, in minutes, with or without a data folder.
bench-quick: $(BENCH_STAMP)
	$(BIN)/python benchmarks/side_by_side.py --quick
	$(BIN)/python benchmarks/tables.py --quick

# The estimators for tables beside boosting, forests, kernels and linear models, all with defaults, on every set of
# the data folder and of the folder "tables" beside it: hours.
tables: $(PEERS_STAMP)
	build/peers/bin/python benchmarks/tables.py
	build/peers/bin/python benchmarks/tables.py --full
	build/peers/bin/python benchmarks/doors.py

# Tables and figures of the five papers beside the papers' numbers, then the pages that show them: hours. A run
# that was stopped goes on.
papers: $(BENCH_STAMP)
	$(BIN)/python benchmarks/reproduce.py
	$(BIN)/python benchmarks/reproduce.py --report
	$(BIN)/python benchmarks/doors.py

# The same on parts of the rows, in minutes; the pages stay as they are.
papers-quick: $(BENCH_STAMP)
	$(BIN)/python benchmarks/reproduce.py --quick --again

# Error against the time of an answer beside boosting, compiled forests, ONNX Runtime and networks, on ten sets and
# one core, then the page that shows it: less than an hour.
frontier: $(PEERS_STAMP)
	build/peers/bin/python benchmarks/frontier.py
	build/peers/bin/python benchmarks/frontier.py --report docs
	build/peers/bin/python benchmarks/doors.py

# Tables and figures from the results that are there, without measuring.
figures: $(BENCH_STAMP)
	$(BIN)/python benchmarks/side_by_side.py --report docs
	$(BIN)/python benchmarks/tables.py --report docs
	$(BIN)/python benchmarks/doors.py

# Seconds, memory and errors of the hot paths at this commit, to be compared with others by asv.
regressions: $(BENCH_STAMP)
	cd benchmarks/asv && $(CURDIR)/$(BIN)/asv machine --yes && $(CURDIR)/$(BIN)/asv run --python=same --show-stderr

DOCS_STAMP := $(VENV)/.installed-docs

$(DOCS_STAMP): $(STAMP) pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# The site, into build/docs/index.html: pages, reference and gallery. A warning fails the build.
docs: $(DOCS_STAMP)
	rm -rf build/docs docs/generated
	MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -E -d build/doctrees docs build/docs

# Every page of it in a headless Chromium: loads, pictures, search, links, formulas.
docs-check: $(DOCS_STAMP)
	$(BIN)/python docs/check_site.py build/docs

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output build docs/auto_examples docs/generated
