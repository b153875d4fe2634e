# Two commands do all the set-up: `make up` runs the platform, `make test` checks all of it.
# Each installs what it needs first; see scripts/setup.
.DEFAULT_GOAL := help
.PHONY: help up test chaos lint fmt bench lock clean

# Compiled modules are kept: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

TESTS ?= tests
WORKERS ?= 3
ARGS ?=

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

up: ## run the platform here, with a sample job (ARGS="--help" shows options)
	@scripts/setup run
	@exec .venv/bin/ares up $(ARGS)

test: ## run every test (TESTS=tests/unit ARGS="-x" for a part)
	@scripts/setup test
	@exec .venv/bin/pytest $(TESTS) -q -n $(WORKERS) --dist worksteal $(ARGS)

chaos: ## kill, freeze and cut off processes for some minutes (ARES_CHAOS_SEED=n repeats a run)
	@scripts/setup test
	@exec .venv/bin/pytest tests/chaos -q -s -m soak $(ARGS)

lint: ## style, types, layers and documents only
	@scripts/setup test
	@exec .venv/bin/pytest tests/tidy -q -p no:randomly

fmt: ## format and fix what can be fixed
	@scripts/setup test
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

bench: ## measure, side by side with what the machine itself can do
	@scripts/setup test
	@exec .venv/bin/python -m bench $(ARGS)

LOCK = .venv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --quiet --upgrade --extra etcd --group setup

lock: ## pin the newest allowed versions of all dependencies
	@scripts/setup test
	@$(LOCK) -o requirements.lock
	@$(LOCK) --extra dev -c requirements.lock -o requirements-dev.lock

clean: ## remove everything that is built; keeps the platform's data in .ares
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
