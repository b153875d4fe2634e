# Two commands do all the set-up: `make up` runs the platform, `make test` checks all of it.
# Each installs what it needs first; see scripts/setup.
.DEFAULT_GOAL := help
.PHONY: help up ui test fuzz chaos soak oracles lint fmt bench lock clean

# Compiled modules are kept: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

TESTS ?= tests
# More than there are cores: tests of real processes wait for two thirds of their time.
WORKERS ?= 8
SEEDS ?= 100000
HOURS ?= 2
REQUESTS ?= 100000
ARGS ?=

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

up: ## run the platform here, with a sample job (ARGS="--help" shows options)
	@scripts/setup run
	@exec .venv/bin/ares up $(ARGS)

ui: ## build the dashboard anew from ui/, which needs Node; `make up` does not (ARGS=--types after a change of the API)
	@scripts/setup test
	@.venv/bin/python scripts/build_ui.py $(ARGS)

# Names of the tests that failed, for a second look.
FAILED = .pytest_cache/failed

# The first time, kube-apiserver and kube-scheduler are built before the tests begin: minutes of both processors, which no
# test is to share.
test: ## run every test (TESTS=tests/unit ARGS="-x" for a part)
	@scripts/setup test
	@scripts/kubernetes kube-scheduler >/dev/null || true
	@.venv/bin/python -m compileall -q -j 0 src
	@ARES_FAILED=$(FAILED) .venv/bin/pytest $(TESTS) -q -n $(WORKERS) $(ARGS) || scripts/second-look $$? $(FAILED)

chaos: ## all proof of exactly-once: simulated histories, real faults on real processes; hours (SEEDS=1000 for a part)
	@scripts/setup test
	@failed=0; .venv/bin/ares sim run --seeds $(SEEDS) || failed=1; \
	ARES_SEARCH=20 .venv/bin/pytest tests/property -q -n $(WORKERS) --timeout 3600 || failed=1; \
	.venv/bin/pytest $(TESTS) -q -m soak -p no:randomly $(ARGS) || failed=1; exit $$failed

fuzz: ## hostile requests and frames of agents against a real server (REQUESTS=100000; ARES_FUZZ_SEED=n for others)
	@scripts/setup test
	@ARES_FUZZ_REQUESTS=$(REQUESTS) exec .venv/bin/pytest tests/security/fuzz -q -s $(ARGS)

soak: ## a platform under a fault every ten seconds, for HOURS=2 (ARES_CHAOS_SEED=n repeats the faults)
	@scripts/setup test
	@ARES_SOAK_HOURS=$(HOURS) exec .venv/bin/pytest tests/chaos/soak -q -s -m soak $(ARGS)

oracles: ## what it decides, writes and says, against what was recorded (ARGS="--only replays"; ARGS=--record to record)
	@scripts/setup test
	@exec .venv/bin/python -m oracles $(ARGS)

lint: ## style, types, layers and documents only
	@scripts/setup test
	@exec .venv/bin/pytest tests/tidy -q -p no:randomly

fmt: ## format and fix what can be fixed, and write the blocking client and the proto files anew
	@scripts/setup test
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .
	@.venv/bin/python scripts/sync_client.py
	@.venv/bin/python scripts/proto.py

bench: ## measure, side by side with what the machine itself can do
	@scripts/setup test
	@exec .venv/bin/python -m bench $(ARGS)

LOCK = .venv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --quiet --upgrade --extra etcd --extra grpc --group setup

lock: ## pin the newest allowed versions of all dependencies
	@scripts/setup test
	@$(LOCK) -o requirements.lock
	@$(LOCK) --extra dev -c requirements.lock -o requirements-dev.lock

clean: ## remove everything that is built; keeps the platform's data in .ares
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
