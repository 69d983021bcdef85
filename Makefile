# Each target does its own set-up, quietly, and only when something changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGES := messages matching protocol broker logger sdk cli analytics lab bench

.DEFAULT_GOAL := help
.PHONY: help demo chaos test test-slow lint bench experiments clean

help:       ## what there is to make
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | awk -F'\t' '{printf "make %-12s %s\n", $$1, $$2}'

$(READY): pyproject.toml messages/_quick.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Gossamer needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,analytics]' 2>$(VENV)/pip.log || { cat $(VENV)/pip.log >&2; exit 1; }
	@touch $@

demo: $(READY)       ## the story in a minute: a mesh of processes, fast and slow consumers, a broker killed; then a report of it
	@$(BIN)/gossamer demo --report build/demo

MINUTES ?= 10
SEED ?= 1

chaos: $(READY)      ## faults drawn from SEED=1 for MINUTES=10 on a mesh of processes; every promise is checked
	@$(BIN)/gossamer chaos --minutes $(MINUTES) --seed $(SEED)

# What computes shares the cores; what has processes of its own has the machine to itself.
test: $(READY)       ## the quick suite
	@$(BIN)/python -m pytest -q -n auto --dist loadgroup --ignore tests/integration
	@$(BIN)/python -m pytest -q tests/integration

test-slow: $(READY)  ## the long ones: fuzzing, many swarm seeds, every mutant, two minutes of chaos
	@$(BIN)/python -m pytest -q -m slow

# mypy cannot follow the editable import hook: give it a link tree that looks like the installed package.
lint: $(READY)       ## ruff and strict mypy
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@rm -rf build/typed && mkdir -p build/typed/gossamer
	@ln -s ../../../gossamer/__init__.py ../../../gossamer/py.typed build/typed/gossamer/
	@for p in $(PACKAGES); do ln -s ../../../$$p build/typed/gossamer/$$p; done
	@cd build/typed && MYPYPATH=. ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../mypy -p gossamer

bench: $(READY)      ## every speed the issues name, as ratios within one run
	@$(BIN)/python -m gossamer.bench

experiments: $(READY) ## the papers' experiments, as one page: build/experiments/index.html
	@$(BIN)/gossamer lab report --out build/experiments

clean:      ## remove everything made here
	@rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
