# Walras. `make help` lists what can be made; every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USABLE := $(VENV)/.usable
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test check bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 10

setup: $(READY) ## Make the virtual environment and install Walras with everything its tests need

$(BIN)/python:
	@echo "Making $(VENV)"
	@$(PYTHON) tools/make_venv.py $(VENV)

$(USABLE): pyproject.toml | $(BIN)/python
	@echo "Installing Walras into $(VENV) (half a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli]'
	@touch $@

$(READY): pyproject.toml | $(BIN)/python
	@echo "Installing Walras and what its tests need into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(USABLE) $@

run: $(USABLE) ## Profile, clear and pin three users' real programs on this machine (under two minutes)
	@PATH="$(CURDIR)/$(BIN):$$PATH" walras local run examples/one-machine/market.yaml

test: $(READY) ## Run the tests, with coverage (PYTEST_ARGS: more options)
	@$(BIN)/python -m pytest --cov --cov-report=term $(PYTEST_ARGS)

check: $(READY) ## Lint, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

BENCHMARKS := amdahl_market amdahl_rivals karma cooper_matching cooper_prediction abacus price_anticipating

bench: $(READY) ## Measure every mechanism against its peers and print tables (some minutes)
	@for each in $(BENCHMARKS); do $(BIN)/python benchmarks/$$each.py || exit; done

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
