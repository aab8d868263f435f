# Walras. `make help` lists what can be made; every target sets up what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USABLE := $(VENV)/.usable
READY  := $(VENV)/.ready

# Every one of the hundreds of processes that tests start would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

# An installation compiles the kernels: one of before is not enough once a kernel has changed.
KERNELS := tools/compile_kernels.py tools/build_hook.py $(shell grep -rl '^@kernel' core studies --include='*.py')
SAY_IF_UNCOMPILED = $(BIN)/python tools/compile_kernels.py --say-if-missing

# Tests of one xdist_group run on one CPU, one after the other.
ON_ALL_CPUS := --numprocesses=auto --dist=loadgroup

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup commands run crds openapi page chart images release unit test coverage verify check bench reproduce clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

setup: $(READY) ## Make the virtual environment and install Walras with everything its tests need

$(BIN)/python:
	@echo "Making $(VENV)"
	@$(PYTHON) tools/make_venv.py $(VENV)

$(USABLE): pyproject.toml $(KERNELS) | $(BIN)/python
	@echo "Installing Walras into $(VENV) (half a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[profiler]'
	@$(SAY_IF_UNCOMPILED)
	@touch $@

$(READY): pyproject.toml $(KERNELS) | $(BIN)/python
	@echo "Installing Walras and what its tests need into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@$(SAY_IF_UNCOMPILED)
	@touch $(USABLE) $@

commands: $(USABLE) ## Install the commands of Walras into .venv/bin (half a minute)

run: $(USABLE) ## Profile, clear and pin three users' real programs on this machine (under two minutes)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/walras local run --record build/local-run.json examples/one-machine/market.yaml

crds: $(USABLE) ## Make crds/ anew from the models in api/walras_api
	@$(BIN)/python tools/make_crds.py

openapi: $(READY) ## Make dashboard/openapi.json anew from the dashboard's models
	@$(BIN)/python tools/make_openapi.py

chart: $(USABLE) ## Make the schema of the chart's values and their table in docs/chart.md anew
	@$(BIN)/python tools/make_chart.py

page: ## Build the dashboard's page anew from dashboard/web (needs npm of Node 20 or later)
	@cd dashboard/web && npm ci --no-audit --no-fund && npm run --silent types && npm run --silent build

images: $(USABLE) ## Build the container images of operator, agent and dashboard (IMAGE_ARGS: more options)
	@$(BIN)/python tools/make_images.py $(IMAGE_ARGS)

release: $(READY) ## Make wheel, images, chart, SBOMs and checksums (RELEASE_ARGS: more options)
	@$(BIN)/python tools/release.py make $(RELEASE_ARGS)

unit: $(READY) ## Run the tests that only compute (under a minute; PYTEST_ARGS: more options)
	@$(BIN)/python -m pytest $(ON_ALL_CPUS) -m "not (system or long or verify)" $(PYTEST_ARGS)

test: $(READY) ## Run all tests that any Linux machine can run (six minutes on two quiet CPUs)
	@$(BIN)/python -m pytest $(ON_ALL_CPUS) $(PYTEST_ARGS)

coverage: $(READY) ## Run the same and list the lines and branches that no test reaches
	@$(BIN)/python -m pytest $(ON_ALL_CPUS) --cov --cov-report=term $(PYTEST_ARGS)

verify: $(READY) ## Run the tests on clusters and emulated machines (STAGES="node guest"; an hour or more)
	@$(BIN)/python tools/verify.py $(STAGES)

check: $(READY) ## Lint, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

BENCHMARKS := amdahl_market amdahl_rivals karma cooper_matching cooper_prediction abacus price_anticipating agent operator_decision listening dashboard_what_if $(if $(KUBECONFIG),at_rest operator_change colocation_dispatch)
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
