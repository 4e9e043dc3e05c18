# The project's commands. `make` lists them. Each installs its dependencies once.
.DEFAULT_GOAL := help
.PHONY: help setup run test test-quick test-all test-times tests-of-all-kinds tests-bytecode prove lint docs dist fuzz simulate soak bench bench-check demo lock audit clean

VENV   := .venv
BIN    := $(VENV)/bin
CONFIG ?= config/server.properties
# Further releases of Apache Kafka that the conformance tests of test-all run against
OLDER_KAFKA ?= 4.3.1
# More workers than most machines have cores, since many tests wait; no more, as some start Spark or Apache Kafka. A worker
# runs a whole file, so a file's brokers start once. The slowest files run first (tests/seconds.tsv).
TEST_WORKERS ?= 4
# Brokers of the tests flush often. They write to memory where 6 GiB are free, so that no test waits for the disk.
TEST_FILES ?= $(shell df -Pk /dev/shm 2>/dev/null | awk 'END { if ($$4 > 6 * 1024 * 1024) print "/dev/shm" }')
# Containers often forbid bytecode. Without it, each worker would rewrite the assertions of all tests at its start.
export PYTHONDONTWRITEBYTECODE :=
PARTED := --numprocesses $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
# Modules that are compiled if there is a C compiler (setup.py); a .pxd file beside each has its types
COMPILED := storage/cleaner/walk.py protocol/records/fields.py
# Extras for the broker, its commands and its data sources
RUNTIME := security client metrics console arrow spark pipeline
# pip reads its own configuration and environment (proxies, certificates, mirrors); the versions are pinned here
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

# The Pythons to try unless PYTHON names one, and a program that prints the speed of each in microseconds and fails for unsupported versions
PYTHONS := python3.13 python3.12 python3.11 python3 python3.14 python /usr/bin/python3
define PYTHON_SPEED
import sys, ensurepip, venv, timeit
assert (3, 11) <= sys.version_info[:2] <= (3, int(sys.argv[1]))
setup = "class A:\n def f(self, x): return {x: self}\na = A()"
print(round(min(timeit.repeat("for i in range(20000): a.f(i)", setup, number=1, repeat=5)) * 1e6))
endef
export PYTHON_SPEED

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.broker ## create .venv and install the broker into it

run: setup ## start the broker from config/server.properties (CONFIG=..., ARGS="--override KEY=VALUE")
	@exec $(BIN)/pybroker $(CONFIG) $(ARGS)

test: $(VENV)/.develop ## lint and all tests at the sizes of continuous integration
	@$(MAKE) --no-print-directory --jobs 2 $(VENV)/.class-data tests-bytecode
	@$(MAKE) --no-print-directory --jobs 2 lint tests-of-all-kinds  # together, since tests leave much of the processor idle

tests-of-all-kinds: $(VENV)/.class-data
	@files=$$(mktemp -d "$(or $(TEST_FILES),$${TMPDIR:-/tmp})/test.XXXX") && chmod 755 "$$files" && trap 'rm -rf "$$files"' EXIT && \
	    MAKEFLAGS= TMPDIR=$$files $(BIN)/python -m pytest $(PARTED) $(PYTEST_ARGS)

test-quick: $(VENV)/.develop lint ## lint and unit tests: below two minutes
	$(BIN)/python -m pytest --numprocesses 2 tests/unit $(PYTEST_ARGS)

test-all: $(VENV)/.develop ## all tests at full size, also against Apache Kafka and its release before (OLDER_KAFKA=: without it); takes long
	PYBROKER_TEST_SCALE=$${PYBROKER_TEST_SCALE:-50} $(BIN)/python -m pytest $(PARTED) $(PYTEST_ARGS)
	@for version in $(OLDER_KAFKA); do \
	    echo "Conformance tests against Apache Kafka $$version"; \
	    PYBROKER_TEST_KAFKA=all PYBROKER_TEST_KAFKA_VERSION=$$version $(BIN)/python -m pytest $(PARTED) tests/conformance $(PYTEST_ARGS) || exit; \
	done

test-times: $(VENV)/.class-data ## measure the time of each test file; renews tests/seconds.tsv, which orders the files
	PYBROKER_TEST_TIMES=1 $(BIN)/python -m pytest $(PARTED) $(PYTEST_ARGS)

prove: $(VENV)/.develop ## run changed conformance tests against Apache Kafka; renews proofs and recorded answers
	PYBROKER_TEST_KAFKA=prove $(BIN)/python -m pytest tests/conformance $(PYTEST_ARGS)

tests-bytecode: $(VENV)/.develop
	@$(BIN)/python -m pytest --collect-only --quiet | tail -n 1

lint: $(VENV)/.develop ## check style, types, import contracts and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint docker/Dockerfile; fi

fuzz: $(VENV)/.develop ## fuzz all readers of foreign bytes for FUZZ_MINUTES (10); Linux on x86-64
	$(BIN)/python -m tests.fuzz --minutes $${FUZZ_MINUTES:-10} $(ARGS)

simulate: $(VENV)/.develop ## simulate replication with faults, seed by seed (ARGS="--first 0 --count 10000", "--mutations", "--replay FILE")
	$(BIN)/python -m tests.simulation $(ARGS)

soak: $(VENV)/.develop ## run all kinds of load, with kills, for SOAK_MINUTES (20); draws .cache/soak/soak.svg
	$(BIN)/python -m tests.soak --minutes $${SOAK_MINUTES:-20} $(ARGS)

bench: $(VENV)/.develop ## measure beside Apache Kafka, 40 minutes, into docs/how-it-works/benchmarks.md (ARGS=NAME: another benchmark)
	$(BIN)/python -m bench $(ARGS)

bench-check: $(VENV)/.develop ## fail if functions of the hot path became slower (ARGS=--update writes a new baseline)
	$(BIN)/python -m bench.micro.check $(ARGS)

demo: $(VENV)/.demo ## send an access log through the broker and Spark into Parquet, with a report
	$(BIN)/python examples/access-log/demo.py $(ARGS)

docs: $(VENV)/.docs ## build the documentation in .cache/site; a warning is an error (ARGS=--serve: serve it on port 8000)
	$(BIN)/python -m tools.site $(ARGS)

dist: $(VENV)/.develop ## build wheel and source distribution into dist/, reproducible to the byte (SOURCE_DATE_EPOCH: by default the time of the commit)
	$(BIN)/python .ci/dist --check

lock: $(BIN)/python ## resolve all dependencies again into constraints.txt and requirements.lock
	rm -rf .cache/lock
	$(BIN)/python -m venv .cache/lock
	.cache/lock/bin/python -m pip install --quiet --upgrade setuptools==80.9.0 wheel '.[test,dev,docs,pipeline]'
	@{ sed -n '/^#/p' constraints.txt; \
	   .cache/lock/bin/python -m pip list --format=freeze --exclude pip --exclude pybroker | LC_ALL=C sort -f; } > .cache/constraints.txt
	@mv .cache/constraints.txt constraints.txt
	.cache/lock/bin/python -m pip install --quiet uv
	@{ sed -n '/^#/p' requirements.lock; \
	   .cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	     --constraints constraints.txt $(foreach extra,$(RUNTIME),--extra $(extra)) pyproject.toml; } > .cache/requirements.lock
	@mv .cache/requirements.lock requirements.lock

audit: $(BIN)/python ## check the versions in constraints.txt for known vulnerabilities (pip-audit)
	$(BIN)/python -m venv .cache/audit
	.cache/audit/bin/python -m pip install --quiet pip-audit
	.cache/audit/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

clean: ## remove everything that make created, except data/
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find protocol storage -name '*.so' -delete

# A stamp file for each set of packages, renewed when the pins or the compiled modules change. Only the first set compiles
# modules (setup.py) and bytecode: with PYTHONDONTWRITEBYTECODE, as in many containers, each start would compile all modules
# and take twice as long. --use-pep517 builds wheels: an old pip otherwise records no wheel tags for packages without a
# wheel (crcmod), and the tests pack the installed packages.
$(VENV)/.broker: pyproject.toml setup.py constraints.txt $(COMPILED) $(COMPILED:.py=.pxd) | $(BIN)/python
	@echo "Installing the broker into $(VENV)"
	@$(INSTALL) --use-pep517 --editable '.[security]'
	@$(BIN)/python -m compileall -q $(dir $(wildcard */__init__.py))
	@touch $@

$(VENV)/.demo: $(VENV)/.broker
	@echo "Installing the pipeline's packages into $(VENV) (Spark is some 450 MB: this takes a minute or two)"
	@PYBROKER_COMPILE=0 $(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/.docs: $(VENV)/.broker
	@echo "Installing the site's packages into $(VENV)"
	@PYBROKER_COMPILE=0 $(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.develop: $(VENV)/.broker
	@echo "Installing packages for tests and development into $(VENV) (Spark is some 450 MB: this takes a minute or two)"
	@PYBROKER_COMPILE=0 $(INSTALL) --editable '.[test,dev,docs,pipeline]'
	@touch $@

# With archives of their classes the many short JVMs of the tests start in less time
$(VENV)/.class-data: $(VENV)/.develop
	@$(BIN)/python -m tests.support.class_data
	@touch $@

# The fastest Python among the versions that all pins are tested with, else any newer one. A Python that a version manager built without
# the optimizations of distributions is slower by a fifth.
$(BIN)/python:
	@for newest in 13 99; do \
	    found=$$(for python in $(or $(PYTHON),$(PYTHONS)); do \
	        "$$python" -c "$$PYTHON_SPEED" $$newest 2> /dev/null && echo "$$python"; \
	    done | paste -d ' ' - - | sort -n | head -n 1 | cut -d ' ' -f 2-); \
	    [ -n "$$found" ] || continue; \
	    "$$found" -m venv $(VENV) && exit; \
	    rm -rf $(VENV); \
	done; \
	echo "pybroker needs Python 3.11 or newer with its venv module, and found none." >&2; \
	echo "  Debian, Ubuntu: apt install python3 python3-venv;  Fedora: dnf install python3;  macOS: brew install python@3.13" >&2; \
	echo "  A Python that is not on PATH: make PYTHON=/path/to/python3" >&2; \
	exit 1
