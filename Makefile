# Everything below needs Python 3.10 or newer, and make: the rest goes into .venv, by itself.

PYTHON ?= python3
BIN := .venv/bin
NOTEBOOK ?=
CHAPTER ?=

# What Jupyter, IPython and matplotlib keep goes into .venv as well: then neither the settings in a home
# directory, nor a kernel registered there, nor a home that cannot be written changes what happens here.
STATE := $(CURDIR)/.venv/state
export MPLCONFIGDIR := $(STATE)/matplotlib
export IPYTHONDIR := $(STATE)/ipython
export JUPYTER_CONFIG_DIR := $(STATE)/jupyter/config
export JUPYTER_DATA_DIR := $(STATE)/jupyter/data
export JUPYTER_RUNTIME_DIR := $(STATE)/jupyter/runtime
export JUPYTER_PREFER_ENV_PATH := 1

# One thread for each process: the matrices here are small, and two of them wait for each other.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Not compiled: Python compiles what is imported when it is, and most of PyTorch and JAX never is here. It
# keeps what it has compiled, whatever the environment says: else each of hundreds of processes begins anew.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install -q --no-compile

# Tests in parallel; a worker that has done its own takes others'.
PYTEST := $(BIN)/pytest -q -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help run check test test-all test-slow test-level test-levels test-arrival test-browser lint mutants benchmark filters lab export sync readme execute docs docs-serve dist clean
.NOTPARALLEL:

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r target text; do printf '  make %-12s %s\n' "$$target" "$$text"; done

run: .venv/run.stamp  ## install the library and show what it does
	$(BIN)/dp-saddle epsilon --sigma 9.4 --rate 0.32768 --steps 250 500 1000 1500 2000 --delta 1e-5
	$(BIN)/dp-saddle curve --sigma 9.4 --rate 0.32768 --steps 2000 --out curve.png

# The page engine/line is nbs/engine/line.ipynb, its module dp_saddle/engine/line.py, and its tests tests/test_line.py
# (or, if there is none of that name, those of the folder, tests/test_engine.py); a chapter's number is left out.
PAGE = $(shell echo '$(CHAPTER)' | sed 's/^[0-9]*[a-z]*_//')
TESTS = $(firstword $(wildcard tests/test_$(notdir $(PAGE)).py tests/test_$(firstword $(subst /, ,$(PAGE))).py))
ifneq ($(filter check,$(MAKECMDGOALS)),)
ifeq ($(wildcard nbs/$(CHAPTER).ipynb),)
$(error make check needs CHAPTER=, a notebook in nbs/: make check CHAPTER=engine/line)
endif
endif

check: export  ## one page, in a minute: make check CHAPTER=engine/line exports, lints and tests it
	$(BIN)/ruff check nbs/$(CHAPTER).ipynb $(wildcard dp_saddle/$(PAGE).py) $(TESTS)
	$(BIN)/python tests/notebooks.py nbs/$(CHAPTER).ipynb
	$(if $(TESTS),$(PYTEST) $(TESTS),@echo "no tests of its own")

test: sync lint  ## everything that is checked before a commit, without what needs other accountants or PyTorch
	$(BIN)/python tests/notebooks.py
	$(PYTEST) --ignore tests/test_project.py --ignore tests/browser

test-all: .venv/all.stamp sync lint  ## make test with all of them installed: nothing may be left out
	$(BIN)/python tests/notebooks.py --all
	$(PYTEST) --ignore tests/test_project.py --ignore tests/browser

# Where what is stored is compared with what is computed: answers, tables, outputs of cells, references.
STORED := $(addprefix tests/test_,snapshot.py widgets.py runnable.py exercises.py peers_tests.py)

test-level: .venv/test.stamp  ## the tests of what is stored, as a processor without AVX computes (tests/levels.py)
	$(BIN)/python tests/levels.py sse -n auto --dist worksteal $(STORED)

test-levels: .venv/test.stamp  ## all tests, at each level of tests/levels.py; takes half an hour
	$(BIN)/python tests/levels.py all

lint: .venv/test.stamp  ## ruff, on notebooks too
	$(BIN)/ruff check

test-slow: .venv/all.stamp .venv/browser.stamp docs  ## the slow tests, on every page of the site and in JupyterLab, and the cells that notebooks leave out
	$(BIN)/nbdev_test --flags "slow thorough"
	$(BIN)/pytest -q -m slow --hypothesis-profile=slow

test-arrival: .venv/test.stamp  ## build sdist and wheel, install each and build the site, all from nothing
	$(BIN)/pytest -q -m arrival tests/test_arrival.py

test-browser: .venv/browser.stamp docs  ## open the site in Chromium (apt-get install chromium chromium-driver)
	$(BIN)/pytest -q -n 2 -m "browser and not slow" tests/browser

mutants: .venv/test.stamp  ## put small mistakes into copies of the library: each must be noticed; takes hours
	$(BIN)/python tests/mutate.py --count 20

benchmark: .venv/all.stamp  ## measure the library beside other accountants, on one thread; takes half an hour
	$(BIN)/python tests/peers.py
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/limits.py
	$(BIN)/python docs/execute.py nbs/benchmark.ipynb
	$(BIN)/nbdev_clean --fname nbs/benchmark.ipynb
	$(BIN)/pytest -q --benchmark-only -o addopts=

filters: .venv/all.stamp  ## train with a filter, as in [GDP] Figures 9 and 10: eight seeds, a minute and a half
	$(BIN)/python tests/filters.py
	$(BIN)/python docs/execute.py nbs/papers/individual_gdp.ipynb
	$(BIN)/nbdev_clean --fname nbs/papers/individual_gdp.ipynb

sync: .venv/test.stamp  ## check that notebooks, library and README belong together
	$(BIN)/pytest -q tests/test_project.py

lab: .venv/lab.stamp  ## open the notebooks in JupyterLab
	$(BIN)/jupyter-lab $(if $(filter 0,$(shell id -u)),--allow-root) nbs  # root only in a container

export: .venv/test.stamp  ## write the library from the notebooks
	$(BIN)/python docs/export.py
	$(BIN)/nbdev_clean

readme: .venv/test.stamp  ## write README.md from nbs/index.ipynb
	$(BIN)/python docs/readme.py

# Notebooks import the library that they are exported to, so export comes first.
execute: $(if $(NOTEBOOK),,.venv/all.stamp) export  ## run all notebooks in place, or NOTEBOOK=nbs/01_plrv.ipynb; then export and readme
	$(BIN)/python docs/execute.py $(NOTEBOOK)
	$(BIN)/nbdev_clean
	$(BIN)/python docs/readme.py

docs: .venv/docs.stamp  ## build the site: docs/_build/html
	$(BIN)/python docs/source.py
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs -d docs/_build/doctrees docs/_build/source docs/_build/html
	rm -f docs/_build/html/_static/scripts/*.map docs/_build/html/_static/styles/*.map docs/_build/html/.buildinfo
	@echo "Open docs/_build/html/index.html"

docs-serve: docs  ## build the site and serve it: http://localhost:8000
	$(BIN)/python -m http.server -d docs/_build/html 8000

dist: .venv/test.stamp  ## build sdist and wheel into dist/
	rm -rf dist
	$(BIN)/python -m build

clean:  ## delete all that make has made, .venv too
	rm -rf .venv _proc _docs docs/_build build dist *.egg-info curve.png .pytest_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Setup. A stamp is touched last, so an interrupted setup is done again, as it is when the requirements change.
# (pyproject.toml is no prerequisite: nbdev_export touches it each time.)
.venv/python.stamp:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3.10; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then \
	        echo "Setting up .venv with $$($$python --version), which takes a minute"; \
	        $$python -m venv --clear .venv && mkdir -p $(STATE) && touch $@; exit; \
	    fi; \
	done; \
	echo "dp_saddle needs Python 3.10 or newer, and '$(PYTHON)' is not. Install one, or say where it is: make PYTHON=/path/to/python3.12 ..." >&2; \
	exit 1

.venv/run.stamp: .venv/python.stamp settings.ini setup.py
	$(PIP) -e .
	@touch $@

# test.stamp, docs.stamp, lab.stamp: the extra of that name. browser.stamp adds its own to what the tests need.
.venv/%.stamp: .venv/python.stamp settings.ini setup.py
	$(PIP) -e '.[$*]'
	@touch .venv/run.stamp $@

.venv/browser.stamp .venv/lab.stamp: .venv/test.stamp

.venv/all.stamp: .venv/python.stamp settings.ini setup.py
	$(PIP) -e '.[test,peers,interop,jax]'
	@touch .venv/run.stamp .venv/test.stamp $@

# For .ci/run, with one call of pip: all.stamp and browser.stamp.
.venv/ci.stamp: .venv/python.stamp settings.ini setup.py
	$(PIP) -e '.[test,peers,interop,jax,browser]'
	@touch .venv/run.stamp .venv/test.stamp .venv/all.stamp .venv/browser.stamp $@
