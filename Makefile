# Each target sets up .venv by itself when it has to; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BENCH_INSTALLED := $(VENV)/.installed-bench
PYTEST := $(BIN)/python -m pytest
# One more than cores: tests wait for processes and clusters.
WORKERS ?= $(shell expr $$(nproc) + 1)
# A file's tests stay together: they share clusters and data.
ON_ALL_CORES := --numprocesses $(WORKERS) --dist loadfile
MANY := --hypothesis-profile=many
ALONE = $(shell grep -rl mark.alone --include=test_*.py tests)
# Without files of byte code each process would compile the tests anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' \
		$(MAKEFILE_LIST)

.PHONY: install
install: $(INSTALLED)  ## make .venv with the pinned packages and hornbeam itself

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
		|| { echo "Hornbeam needs Python 3.11 to 3.14; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

.PHONY: demo
demo: $(INSTALLED)  ## train on 336,776 flights, predict, save, draw the learning curve
	$(BIN)/python examples/flights.py

.PHONY: browser
browser:  ## install Chromium and its driver, for the test of the report (Debian, as root)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet \
		&& apt-get install --quiet --yes --no-install-recommends chromium chromium-driver; \
	} || { echo "The test of the report needs Chromium and its driver; on Debian, as root: apt-get install chromium chromium-driver" >&2; exit 1; }

.PHONY: test
test: $(INSTALLED)  ## run the tests in WORKERS processes (minutes)
	-@$(MAKE) --no-print-directory browser
	$(BIN)/python -m hornbeam warmup  # once, not in each process
	$(PYTEST) --quiet $(ON_ALL_CORES) -m "not slow and not alone"
	$(PYTEST) --quiet -m "alone and not slow" $(ALONE)

.PHONY: test-slow
test-slow: $(INSTALLED)  ## run the slow tests, and properties with many examples
	$(PYTEST) --quiet $(ON_ALL_CORES) $(MANY) -m "(slow or hypothesis) and not alone"
	$(PYTEST) --quiet $(MANY) -m "slow and alone" tests/dask $(ALONE)

.PHONY: test-all
test-all: test test-slow pure  ## run every test, with many examples (long)

.PHONY: imports
imports: $(INSTALLED)  ## check that every import goes in the one direction
	$(PYTEST) --quiet tests/test_imports.py

.PHONY: pure
pure: $(INSTALLED)  ## run the tests of the kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(PYTEST) --quiet $(ON_ALL_CORES) tests/kernels tests/binning \
		tests/backends tests/metrics

.PHONY: pages
pages: $(INSTALLED)  ## write anew what the examples of the documentation print and draw
	$(BIN)/python tests/pages.py

.PHONY: lint
lint: $(INSTALLED)  ## look for mistakes and for files that are not formatted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: format
format: $(INSTALLED)  ## format every file, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: $(INSTALLED)  ## check the types
	$(BIN)/mypy

.PHONY: bench
bench: $(BENCH_INSTALLED)  ## compare with XGBoost, LightGBM and others (many minutes)
	$(BIN)/python -m benchmarks.fit

.PHONY: bench-quick
bench-quick: $(BENCH_INSTALLED)  ## compare with XGBoost and with the last release; RECORD=1 records
	$(BIN)/python -m benchmarks.quick $(if $(RECORD),--record)

.PHONY: clean
clean:  ## remove .venv, caches and everything else that was made here
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
