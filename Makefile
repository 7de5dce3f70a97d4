# Everything from a clean clone on a machine with only Python: each target makes .venv itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where the real data sets are, if anywhere; the tests that need them skip with a reason otherwise.
GRAMIAN_DATA ?= $(wildcard $(abspath ../shared/data))
export GRAMIAN_DATA

.PHONY: test demo lint types layers pytest bench docs docs-check clean format

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: lint types layers pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# A process a core, each with one BLAS thread: products of several on busy cores are slow.
pytest: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8

demo: $(STAMP)
	$(BIN)/python -m gramian.demo

# The figures of README and docs, each beside its peer, in one run.
bench: $(STAMP)
	$(BIN)/python benchmarks/tiles.py
	$(BIN)/python benchmarks/paper_meka.py
	$(BIN)/python benchmarks/paper_bbf.py
	$(BIN)/python benchmarks/paper_kals.py
	$(BIN)/python benchmarks/paper_survey.py
	$(BIN)/python benchmarks/block_basis.py
	$(BIN)/python benchmarks/nystrom_landmarks.py
	$(BIN)/python benchmarks/which.py
	$(BIN)/python benchmarks/covtype.py
	$(BIN)/python benchmarks/mnist.py
	$(BIN)/python benchmarks/auto.py
	$(BIN)/python benchmarks/model_selection.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/sources.py
	$(BIN)/python benchmarks/mnist2m.py
	$(BIN)/python benchmarks/dask_scaling.py
	$(BIN)/python benchmarks/exact.py --crossover --peer --objective
	$(BIN)/python benchmarks/fast_prediction.py
	$(BIN)/python benchmarks/single_row.py
	$(BIN)/python benchmarks/gp.py

DOCS_STAMP := $(VENV)/.installed-docs

$(DOCS_STAMP): $(STAMP) pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# The site, into build/docs/index.html: pages, reference and gallery. A warning fails the build.
docs: $(DOCS_STAMP)
	MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -E -d build/doctrees docs build/docs

# Every page of it in a headless Chromium: loads, pictures, search, links, formulas.
docs-check: $(DOCS_STAMP)
	$(BIN)/python docs/check_site.py build/docs

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output build docs/auto_examples docs/generated
