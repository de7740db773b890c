# Everything runs in .venv of this checkout. Stamp files remember what was installed or built from
# which files, so that a second `make` does nothing twice.
#   make demo       run the notebook headless, pause, resume, compare, print one table
#   make lab        open JupyterLab on that notebook
#   make test       every test: jest, browser, pytest (test-long: also the long form and the wheel)
#   make check      lint and types
#   make bench      measure against plain Jupyter and safetensors (BENCH_MODEL=0.5b|3b; WRITE=1
#                   also writes docs/benchmarks.md)

SHELL := /bin/bash
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
STAMPS := .venv/.stamps
export PATH := $(BIN):$(PATH)
# a PYTHONPATH or another active environment must not reach into ours
unexport PYTHONPATH VIRTUAL_ENV

FRONTEND := package.json $(wildcard tsconfig*.json) \
	$(shell find labextension schema -type f -not -path '*/node_modules/*' 2>/dev/null)
ALLOW_ROOT := $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)

.PHONY: help setup python frontend ui pausable demo lab test test-long check bench wheel clean distclean

help:
	@sed -n 's/^#   //p' Makefile

setup: frontend

python: $(STAMPS)/python
frontend: $(STAMPS)/frontend
ui: $(STAMPS)/ui

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "jupyter-gkews needs Python 3.10 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
		|| { echo "python3 cannot make environments here: install the package python3-venv"; exit 1; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@mkdir -p $(STAMPS) && touch $@

# jlpm, which builds the frontend, comes with jupyterlab: the hook that would build it inside pip
# is told to leave it to the next rule.
$(STAMPS)/python: pyproject.toml requirements-dev.txt $(wildcard jupyter-config/*/*) | $(STAMPS)/venv
	@# an earlier installation has left it in the built frontend, through the link to there
	@rm -f jupyter_gkews/labextension/install.json
	HATCH_JUPYTER_BUILDER_SKIP_NPM=1 $(BIN)/python -m pip install --disable-pip-version-check -q \
		-r requirements-dev.txt -e '.[test,lint]'
	@touch $@

$(STAMPS)/node: package.json yarn.lock $(wildcard .yarnrc.yml) $(STAMPS)/python
	@command -v node >/dev/null \
		|| { echo "building the frontend needs Node 20 or newer (installing a wheel does not)"; exit 1; }
	$(BIN)/jlpm install --immutable
	@touch $@

$(STAMPS)/frontend: $(FRONTEND) $(STAMPS)/node
	$(BIN)/jlpm build:prod
	$(BIN)/jupyter-builder develop --overwrite .
	@touch $@

$(STAMPS)/ui: ui-tests/package.json $(wildcard ui-tests/yarn.lock) $(STAMPS)/node
	cd ui-tests && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 $(BIN)/jlpm install --immutable
	@touch $@

# "Python 3 (pausable)" in this environment, where gVisor's runsc can run; else the reason
pausable: setup
	@$(BIN)/jupyter-gkews install-kernel --sys-prefix --if-possible

demo: pausable
	@$(BIN)/python -m examples.demo

lab: pausable
	cd examples && $(BIN)/jupyter lab $(ALLOW_ROOT) qwen_pause_resume.ipynb

test: setup ui
	@scripts/install_browser.sh
	@scripts/install_runsc.sh
	@scripts/kube/build.sh
	@scripts/run_tests.sh

test-long: setup ui wheel
	@scripts/install_browser.sh
	@scripts/install_runsc.sh
	@scripts/kube/build.sh
	@scripts/run_tests.sh --long

wheel: setup
	@scripts/check_wheel.sh

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy -p bench -m examples.demo -m examples.headless
	$(BIN)/jlpm lint:check

bench: setup
	@$(BIN)/python -m bench $(if $(WRITE),--write)

# `clean` leaves the environment, so that the next make is quick; `distclean` takes it too
clean:
	rm -rf lib dist build .demo .bench jupyter_gkews/labextension $(STAMPS)/frontend
	find . -name __pycache__ -not -path './.venv/*' -not -path '*/node_modules/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv node_modules ui-tests/node_modules .yarn ui-tests/.yarn
