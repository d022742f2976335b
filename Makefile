# Everything below needs Python 3.10 or newer, and make: the rest goes into .venv, by itself.

PYTHON ?= python3
BIN := .venv/bin
NOTEBOOK ?=

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

.DEFAULT_GOAL := help
.PHONY: help run test test-slow test-browser mutants benchmark lab export sync readme execute docs docs-serve clean
.NOTPARALLEL:

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r target text; do printf '  make %-12s %s\n' "$$target" "$$text"; done

run: .venv/run.stamp  ## install the library and show what it does
	$(BIN)/dp-saddle epsilon --sigma 9.4 --rate 0.32768 --steps 250 500 1000 1500 2000 --delta 1e-5
	$(BIN)/dp-saddle curve --sigma 9.4 --rate 0.32768 --steps 2000 --out curve.png

test: sync  ## everything that is checked before a commit
	$(BIN)/nbdev_test
	$(BIN)/pytest -q -n auto --ignore tests/test_project.py

test-slow: .venv/dev.stamp  ## the slow tests and the slow cells of the notebooks
	$(BIN)/nbdev_test --flags slow
	$(BIN)/pytest -q -m slow --hypothesis-profile=slow

test-browser: .venv/browser.stamp docs  ## open the site and JupyterLab in Chromium (apt-get install chromium chromium-driver)
	$(BIN)/pytest -q -m browser tests/browser

mutants: .venv/dev.stamp  ## put small mistakes into copies of the library: each must be noticed; takes hours
	$(BIN)/python tests/mutate.py --count 20

benchmark: .venv/dev.stamp  ## measure the library beside other accountants, on one thread; takes half an hour
	$(BIN)/python tests/peers.py
	$(BIN)/python docs/execute.py nbs/benchmark.ipynb
	$(BIN)/nbdev_clean --fname nbs/benchmark.ipynb
	$(BIN)/pytest -q --benchmark-only -o addopts=

sync: .venv/dev.stamp  ## check that notebooks, library and README belong together
	$(BIN)/pytest -q tests/test_project.py

lab: .venv/dev.stamp  ## open the notebooks in JupyterLab
	$(BIN)/jupyter-lab $(if $(filter 0,$(shell id -u)),--allow-root) nbs  # root only in a container

export: .venv/dev.stamp  ## write the library from the notebooks
	$(BIN)/nbdev_export
	$(BIN)/nbdev_clean

readme: .venv/dev.stamp  ## write README.md from nbs/index.ipynb
	$(BIN)/python docs/readme.py

# Notebooks import the library that they are exported to, so export comes first.
execute: export  ## run all notebooks in place, or NOTEBOOK=nbs/00_plrv.ipynb; then export and readme
	$(BIN)/python docs/execute.py $(NOTEBOOK)
	$(BIN)/nbdev_clean
	$(BIN)/python docs/readme.py

docs: .venv/docs.stamp  ## build the site: docs/_build/html
	$(BIN)/python docs/source.py
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs -d docs/_build/doctrees docs/_build/source docs/_build/html
	rm -f docs/_build/html/_static/scripts/*.map docs/_build/html/.buildinfo
	@echo "Open docs/_build/html/index.html"

docs-serve: docs  ## build the site and serve it: http://localhost:8000
	$(BIN)/python -m http.server -d docs/_build/html 8000

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
	$(BIN)/python -m pip install -q -e .
	@touch $@

.venv/dev.stamp: .venv/python.stamp settings.ini setup.py
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch .venv/run.stamp $@

.venv/browser.stamp: .venv/dev.stamp settings.ini setup.py
	$(BIN)/python -m pip install -q -e '.[browser]'
	@touch .venv/run.stamp $@

.venv/docs.stamp: .venv/python.stamp settings.ini setup.py
	$(BIN)/python -m pip install -q -e '.[docs]'
	@touch .venv/run.stamp $@
