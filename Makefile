# Everything one does with Berth. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Bytecode makes every later start faster; some machines switch it off.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := openssh-server nftables iproute2 podman runc iputils-ping busybox-static gcc libc6-dev chromium fonts-droid-fallback
CODE := $(wildcard portal apps workers cli tests benchmarks manage.py)
SHIPPED := $(wildcard portal apps workers cli)
# Most tests wait for servers, nodes and pages: two at a time keep two cores busy.
PYTEST := $(PY) -m pytest -n $(or $(WORKERS),2) $(ARGS)
# Checks need settings but no server: they get a data folder of their own.
DRY := BERTH_DATA_DIR=.berth/check BERTH_DB_POOL_SIZE=0 BERTH_PUBLIC_URL=https://berth.example.org $(PY) -W ignore::RuntimeWarning manage.py

.PHONY: help install lock check format test test-unit test-integration test-nodes test-journeys demo up kill-matrix bench clean

help: ## This list
	@echo "make TARGET [ARGS=…]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile

install: $(VENV)/.packages $(VENV)/.python ## Install what Berth needs: .venv from the hashed lock; as root also Debian packages

# The first python that is new enough. It serves Berth itself; PostgreSQL and Redis are plain programs inside wheels.
$(VENV)/bin/python:
	@for python in $${PYTHON:-python3.13 python3.12 python3.11 python3}; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$${found:-}" ]; then echo "No Python 3.11 or newer found: install one, or name it: make install PYTHON=/path/to/python3.11" >&2; exit 1; fi; \
	echo "Using $$($$found --version) ($$(command -v $$found))"; \
	rm -rf $(VENV); \
	$$found -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); $$found -m venv --without-pip $(VENV); }; \
	if [ ! -x $(VENV)/bin/pip ]; then echo "(venv without pip: using $$found's)"; fi

$(VENV)/bin/uv: $(VENV)/bin/python
	@awk '/^uv==/ { on = 1 } on { print } on && !/\\$$/ { exit }' requirements-dev.txt > $(VENV)/uv.txt; \
	if [ -x $(VENV)/bin/pip ]; then pip="$(PY) -m pip"; else pip="$$(sed -n 's/^executable = //p' $(VENV)/pyvenv.cfg) -m pip --python $(PY)"; fi; \
	$$pip install -q --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt

$(VENV)/.python: requirements-dev.txt pyproject.toml | $(VENV)/bin/uv
	@$(VENV)/bin/uv pip install -q --python $(PY) --require-hashes --compile-bytecode -r requirements-dev.txt
	@$(VENV)/bin/uv pip install -q --python $(PY) --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

$(VENV)/.packages: Makefile deploy/install-packages | $(VENV)/bin/python
	@deploy/install-packages $(PACKAGES)
	@touch $@

lock: | $(VENV)/bin/uv ## Make the hashed locks anew from requirements.in and requirements-dev.in (UPGRADE=1 takes new releases)
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes $(if $(UPGRADE),--upgrade) requirements.in -o requirements.txt
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes $(if $(UPGRADE),--upgrade) requirements-dev.in -o requirements-dev.txt

format: install ## Format the code and apply safe fixes
	$(VENV)/bin/ruff check --fix-only -q $(CODE)
	$(VENV)/bin/ruff format -q $(CODE)

check: install ## Lint, types, import contracts, migrations, deployment settings, security
	$(VENV)/bin/ruff check -q $(CODE)
	$(VENV)/bin/ruff format --check -q $(CODE)
	$(VENV)/bin/mypy $(CODE)
	$(VENV)/bin/lint-imports --no-logo
	$(DRY) makemigrations --check --dry-run
	$(DRY) check --deploy --fail-level ERROR
	$(VENV)/bin/bandit -q -c pyproject.toml -r $(SHIPPED)

test: install test-unit test-integration test-nodes test-journeys ## All tests (real PostgreSQL, Redis, sshd, containers, browser)

test-unit: install ## Tests without database, network and real time
	$(PYTEST) tests/unit $(wildcard tests/architecture)

test-integration: install ## Tests on real PostgreSQL and Redis (TEST_DATABASE_URL, TEST_REDIS_URL: external ones)
	$(PYTEST) tests/integration

test-nodes: install ## Tests on sandbox nodes: real sshd and containers; needs root
	$(if $(wildcard tests/nodes),$(PYTEST) tests/nodes,@echo "no tests/nodes yet")

test-journeys: install ## Whole stories, some in a browser
	$(if $(wildcard tests/journeys),$(PYTEST) tests/journeys,@echo "no tests/journeys yet")

demo: install ## Start everything and run a real training job on two sandbox nodes; stays up (ONCE=1: ends after the job)
	$(PY) -m portal.demo $(ARGS)

up: install ## Start Berth's processes without the sandbox; Ctrl-C stops them
	$(PY) -m portal.supervisor $(ARGS)

kill-matrix: install ## Kill every part at every step of a job and print what became of it
	$(PY) -m benchmarks.kill_matrix $(ARGS)

bench: install ## One measurement: make bench NAME=start_latency ARGS=…
	@if [ -z "$(NAME)" ]; then echo "Which one? make bench NAME=…, one of:$$(cd benchmarks && ls *.py | sed 's/\.py$$//; s/^/ /' | tr -d '\n')" >&2; exit 1; fi
	$(PY) -m benchmarks.$(NAME) $(ARGS)

clean: ## Remove caches and test data; keeps .venv and the installation's data
	@if [ -x $(PY) ]; then BERTH_DATA_DIR=.berth/test $(PY) -m portal.embedded stop >/dev/null; fi
	rm -rf .berth/test .berth/check .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist *.egg-info
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
