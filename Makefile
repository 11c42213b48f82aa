# Everything here needs python3 (3.11 to 3.13) and make, nothing else: .venv is made when missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.culm-installed
# The tests that take longest are named at the end, so that what makes a run slow is seen.
DURATIONS := --durations 20 --durations-min 5

.PHONY: help install wheel demo test test-slow test-cluster test-hostile lint format bench clean

help:            ## Say what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

install: $(STAMP)  ## Make .venv with Culm and all that it needs.

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

wheel: $(STAMP)  ## Write dist/culm-*.whl, to install with or without extras.
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

demo: $(STAMP)   ## Show the main jobs: peers at two edges converge, channels agree on a bad network.
	$(BIN)/culm demo
	$(BIN)/culm demo sds --participants 3 --messages 24 --cut 5

test: $(STAMP)   ## Run every test, on a real Kafka broker, real Spark and real QUIC.
	$(BIN)/python -m pytest -n auto -m "not kafka and not spark and not soak" $(DURATIONS)
	$(MAKE) -j 2 test-end-to-end test-parts

.PHONY: test-end-to-end test-parts
test-end-to-end: $(STAMP)
	$(BIN)/python -m pytest -m "(kafka or spark) and not soak" $(DURATIONS) tests/e2e

test-parts: $(STAMP)
	$(BIN)/python -m pytest -m "(kafka or spark) and not soak" $(DURATIONS) --ignore tests/e2e

test-slow: $(STAMP)  ## All tests, with the long soak, simulation and fault runs.
	CULM_AQUADOGGO=build CULM_SIM_RUNS=20000 CULM_E2E_RUNS=20 CULM_E2E_PUSHED=30000 CULM_HOSTILE_MESSAGES=2200000 $(BIN)/python -m pytest -m "soak or not soak" --timeout 1800

test-cluster: $(STAMP)  ## Three secured brokers, Spark workers, edges and consumers, each killed once under load.
	$(BIN)/python -m pytest -m soak --timeout 900 -s tests/cluster

test-hostile: $(STAMP)  ## Every known attack on a connector that serves an honest pair; prints a table.
	CULM_HOSTILE_SECONDS=15 $(BIN)/python -m pytest -m soak --timeout 900 -s tests/hostile

lint: $(STAMP)   ## ruff, ruff format, mypy --strict, and the floors of the house.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## Measure, print ratios, write bench/results.
	$(BIN)/python -m bench

clean:           ## Remove what was made here.
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
