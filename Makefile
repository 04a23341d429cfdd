# Every target sets up what it needs: Python 3.11 or newer, make and a C compiler are all a machine must have.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEST_JOBS ?= 2
DEMO_SEED ?= 1

# One BLAS thread: on few cores threaded small matrices are slower, and much slower beside another process.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install demo test check core lint format types docs pytest chromium bench figures package clean

help: ## list the targets
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED) ## set up the virtual environment in .venv (the other targets do it themselves)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("hpsde needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --constraint constraints.txt
	@touch $@

demo: $(INSTALLED) ## learn a task with three solutions, draw it, and say what was found (two minutes at most)
	$(BIN)/hpsde run toy-triple --seed $(DEMO_SEED) --force --out demo/toy-triple
	$(BIN)/hpsde plot demo/toy-triple --out demo/toy-triple.png
	@$(BIN)/python examples/explain_demo.py demo/toy-triple demo/toy-triple.png

test: chromium ## lint, types, the site and all tests: what must pass before a change goes in
	@$(MAKE) --no-print-directory --jobs 2 lint types docs
	@$(MAKE) --no-print-directory pytest

CORE := import weights weighing dual options gating features behaviours gp gp_axes gp_binary gp_directions gp_kernel

check: ## lint, types and the tests of the core's numbers: within a minute, for use while a change is made
	@$(MAKE) --no-print-directory --jobs 2 lint types core

core: $(INSTALLED)
	JAX_PLATFORMS=cpu $(BIN)/pytest -n $(TEST_JOBS) --dist worksteal --max-worker-restart 0 $(CORE:%=tests/test_%.py)

lint: $(INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED) ## ruff: repair what it can, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED) ## mypy
	$(BIN)/mypy

docs: $(INSTALLED) ## build the documentation site: docs/_build/index.html, which needs no server
	JAX_PLATFORMS=cpu $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs docs/_build
	@echo "the documentation is in docs/_build/index.html"

pytest: $(INSTALLED) ## the tests alone
	JAX_PLATFORMS=cpu $(BIN)/pytest -n $(TEST_JOBS) --dist worksteal --max-worker-restart 0

chromium: ## install Debian's Chromium, in which pages are tested, where that can be done
	@if command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
	  { apt-get install -y -qq --no-install-recommends chromium > /dev/null 2>&1 || \
	    { apt-get update -qq > /dev/null 2>&1 && apt-get install -y -qq --no-install-recommends chromium > /dev/null 2>&1; }; }; then \
	  echo "Chromium was installed"; \
	else echo "There is no Chromium, and it cannot be installed here: the tests of pages (test_report.py, test_view.py) are left out"; fi

HOURS := benchmarks/gallery.py benchmarks/gauntlet.py benchmarks/ablation.py benchmarks/peers.py benchmarks/rover.py

bench: $(INSTALLED) ## run the benchmarks, of the gauntlet the quick part, and print their figures (takes a while)
	@for file in $(filter-out $(HOURS),$(wildcard benchmarks/*.py)); do echo "== $$file"; $(BIN)/python $$file || exit 1; done
	$(BIN)/python benchmarks/gauntlet.py --quick

figures: $(INSTALLED) ## draw the pictures of the README and docs anew
	$(BIN)/hpsde run toy-triple --seed $(DEMO_SEED) --quiet --force --out runs/figures/toy-triple
	$(BIN)/hpsde plot runs/figures/toy-triple --out docs/images/toy-triple.png
	@for task in throw puddle bank-shot; do $(BIN)/hpsde run $$task --seed $(DEMO_SEED) --quiet --force --out runs/figures/found/$$task || exit 1; done
	$(BIN)/python examples/options_found.py docs/images/options-found.png $(addprefix runs/figures/found/,throw puddle bank-shot)
	$(BIN)/python examples/reach_postures.py docs/images/arm-postures.png
	$(BIN)/python examples/rover_ways.py docs/images/rover.png
	@for task in bank-shot bank-shot-spin throw drone; do $(BIN)/python examples/gallery.py $$task docs/images/gallery-$$task.png || exit 1; done
	$(BIN)/hpsde run puddle --seed $(DEMO_SEED) --rollouts 900 --quiet --force --out runs/figures/puddle
	$(BIN)/python examples/view_picture.py runs/figures/puddle docs/images/view.png

package: $(INSTALLED) ## build the package, check it, and try it in a clean environment for every Python there is
	$(BIN)/python tests/check_package.py

clean: ## remove the virtual environment, caches and what was produced
	rm -rf $(VENV) demo runs docs/_build build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
