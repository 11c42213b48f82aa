# Everything here needs python3 (3.11 to 3.13) and make, nothing else: .venv is made when missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.culm-installed
# Tests start hundreds of `culm` processes: what they import is compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
# Tests wait for timers, brokers and each other: one process more than there are cores keeps these busy.
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
# The tests that take longest are named at the end, so that what makes a run slow is seen.
DURATIONS := --durations 20 --durations-min 5

.PHONY: help install wheel demo docs reference diagrams test test-deploy console-screens test-slow test-cluster test-hostile lint format bench walk clean

help:            ## Say what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

install: $(STAMP)  ## Make .venv with Culm and all that it needs.

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

wheel: $(STAMP)  ## Write dist/culm-*.whl, to install with or without extras.
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

# `make demo --keep` leaves Kafka and a console of each demo running. GNU make takes the word for its own
# --keep-going, whose letter is among its flags.
KEEP = $(if $(findstring k,$(filter-out -%,$(firstword $(MAKEFLAGS)))),--keep)
demo: $(STAMP)   ## Show the main jobs: peers at two edges converge, channels agree, replicas merge, logs come in part, DAGs are published.
	$(BIN)/culm demo $(KEEP)
	$(BIN)/culm demo sds --participants 3 --messages 24 --cut 5 $(KEEP)
	$(BIN)/culm demo chotki --objects 9 --rounds 6 $(KEEP)
	$(BIN)/culm demo bamboo --entries 5000 --payload-mb 8 --live-entries 50 $(KEEP)
	$(BIN)/culm demo dag --file-mb 4 $(KEEP)

docs: $(STAMP)   ## Build the site of the documentation in build/site; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "python3 -m http.server --bind 127.0.0.1 --directory build/site 8000: serves it, with its search"

reference: $(STAMP)  ## Render what follows from the code: pages of the documentation, dashboards.
	$(BIN)/python -m docs.reference
	$(BIN)/python -m deploy.grafana.render

diagrams: $(STAMP)  ## Draw docs/diagrams/*.svg and docs/screens/*.svg from the text beside them.
	$(BIN)/python -m docs.diagrams.render
	$(BIN)/python -m docs.screens.render

# Brokers, jobs and indexes ask the disk for thousands of syncs that no test needs: it kills processes, never
# the machine. Where memory has room for ten times their files, they are there; what fails leaves them.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk '$$6 == "/dev/shm" && $$4 > 8000000 {print $$6}')
# Its name is short, since the path of a socket has a limit.
SCRATCH := $(IN_MEMORY:%=%/culm-$(firstword $(shell pwd | cksum)))
ENTER_SCRATCH := $(if $(SCRATCH),rm -rf $(SCRATCH) && mkdir -m 700 $(SCRATCH) && export TMPDIR=$(SCRATCH) SPARK_LOCAL_DIRS=$(SCRATCH) &&)
IN_SCRATCH := $(if $(SCRATCH),--basetemp $(SCRATCH)/t)
LEAVE_SCRATCH := $(if $(SCRATCH),&& rm -rf $(SCRATCH))

test: $(STAMP)   ## Run every test, on a real Kafka broker, real Spark and real QUIC.
	$(ENTER_SCRATCH) $(BIN)/python -m pytest -n $(WORKERS) -m "not kafka and not spark and not soak and not deploy" $(DURATIONS) $(IN_SCRATCH) $(LEAVE_SCRATCH)
	$(MAKE) test-optimised
	$(MAKE) test-components

# What assertions hold up must not be what input can cause: wire formats, rules of sessions, recorded
# conversations and records, with the packages compiled as `python -O` does.
OPTIMISED := $(wildcard $(addprefix tests/models/,test_[!s]*.py bamboo/test_*.py sds/channel/test_sds_channel_[hrst]*.py \
	$(foreach room,* */*,$(addprefix $(room)/test_*,settings.py codec*.py rules.py messages.py))) \
	tests/conform/golden/test_golden_transcripts.py $(addprefix tests/topics/, \
	sds/test_sds_records*.py records/test_topic_records.py records/test_record_refusals.py logs/test_sequencer.py))
.PHONY: test-optimised
test-optimised: $(STAMP)
	$(BIN)/python -m pytest -p tests.support.process.optimised --hypothesis-profile few $(OPTIMISED)

# Three processes with a broker and a Spark session each take one file after the other. They collect the files
# that have such tests alone: all files cost each of them ten seconds.
COMPONENTS = $(sort $(shell grep -rlE 'mark\.(kafka|spark)' --include='test_*.py' tests))
.PHONY: test-components
test-components: $(STAMP)
	$(ENTER_SCRATCH) $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "(kafka or spark) and not soak and not deploy" $(DURATIONS) $(IN_SCRATCH) $(COMPONENTS) $(LEAVE_SCRATCH)

# Also how a deployment is run: a cluster with rights for each program, a restart of all connectors under load.
DEPLOYED := tests/deploy tests/infra/console/browser tests/e2e/test_secured_cluster.py tests/e2e/test_rolling_restart.py

test-deploy: $(STAMP)  ## Check what is deployed (infra/deploy) with the programs that read it; they are fetched into build/tools.
	$(BIN)/python -m pytest -m "deploy and not soak" $(DURATIONS) $(DEPLOYED)

console-screens: $(STAMP)  ## Write docs/screens/console-*.png from the test that looks at a real deployment in Chromium.
	CONSOLE_SCREENS=docs/screens $(BIN)/python -m pytest --basetemp /tmp/culm-screens -m deploy tests/infra/console/browser/test_deployment_in_a_browser.py

test-slow: $(STAMP)  ## All tests, with the long soak, simulation and fault runs.
	$(BIN)/python -m pytest -p tests.support.process.optimised tests/models tests/conform $(OPTIMISED)
	CULM_AQUADOGGO=build CULM_SIM_RUNS=20000 CULM_E2E_RUNS=20 CULM_E2E_PUSHED=30000 CULM_HOSTILE_MESSAGES=2200000 $(BIN)/python -m pytest -m "soak or not soak" --timeout 1800 --hypothesis-profile long

test-cluster: $(STAMP)  ## Three secured brokers, Spark workers, edges and consumers, each killed once under load.
	$(BIN)/python -m pytest -m soak --timeout 900 -s tests/cluster

test-hostile: $(STAMP)  ## Every known attack on a connector that serves an honest pair of each protocol, and DAGs fuzzed by the million.
	CULM_HOSTILE_SECONDS=15 $(BIN)/python -m pytest -m soak --timeout 3600 -s tests/hostile
	$(BIN)/python -m pytest -n auto -m soak $(DURATIONS) tests/models/dag/test_dag_hostile.py tests/connectors/dag/test_dag_folder_hostile.py

lint: $(STAMP)   ## ruff, ruff format, mypy --strict, the floors of the house, and the English.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.house.english

format: $(STAMP) ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## Measure, print ratios, write bench/results.
	$(BIN)/python -m bench

walk: $(STAMP)   ## Count the files that an entry, and an SDS message, enter on their way.
	$(BIN)/python -m bench.walk

clean:           ## Remove what was made here.
	rm -rf $(SCRATCH) $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
