# Walras. `make help` lists what can be made; every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USABLE := $(VENV)/.usable
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run crds chart images test coverage test-kernel e2e check bench reproduce clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

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

crds: $(USABLE) ## Make crds/ anew from the models in core/walras/resources
	@$(BIN)/python tools/make_crds.py

chart: $(USABLE) ## Make the schema of the chart's values and their table in docs/chart.md anew
	@$(BIN)/python tools/make_chart.py

images: $(USABLE) ## Build the container images of operator and agent (IMAGE_ARGS: more options)
	@$(BIN)/python tools/make_images.py $(IMAGE_ARGS)

test: $(READY) ## Run the tests (PYTEST_ARGS: more options)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

coverage: $(READY) ## Run the tests and list the lines that none of them reaches (twice as long)
	@$(BIN)/python -m pytest --cov --cov-report=term $(PYTEST_ARGS)

test-kernel: $(READY) ## Run the agent's tests on real kernels (root; emulated ones with WALRAS_GUEST)
	@$(BIN)/python -m pytest tests/agent -k "kernel or placement or guest" -v $(PYTEST_ARGS)

e2e: $(READY) ## Install Walras on the node that this machine is, and drive it there (see CONTRIBUTING.md)
	@$(BIN)/python tools/make_images.py --archives build/images $(IMAGE_ARGS)
	@$(BIN)/python -m pytest tests/e2e -m e2e $(PYTEST_ARGS)

check: $(READY) ## Lint, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

BENCHMARKS := amdahl_market amdahl_rivals karma cooper_matching cooper_prediction abacus price_anticipating agent operator_decision $(if $(KUBECONFIG),operator_change colocation_dispatch)
ifneq ($(and $(KUBECONFIG),$(WALRAS_KUBE)),)
BENCHMARKS += cluster_change
endif

bench: $(READY) ## Measure every mechanism against its peers and print tables (some minutes)
	@for each in $(BENCHMARKS); do $(BIN)/python benchmarks/$$each.py || exit; done

reproduce: $(READY) ## Repeat the papers' studies and write docs/reproduction.md anew (some minutes)
	@$(BIN)/walras simulate all --out build/reproduction
	@$(BIN)/python tools/make_reproduction.py build/reproduction

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
