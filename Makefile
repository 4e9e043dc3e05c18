# The project's commands. `make` lists them. Each installs what it needs, once.
.DEFAULT_GOAL := help
.PHONY: help setup run test test-quick test-all test-times prove lint docs dist fuzz soak bench bench-check demo lock audit clean

VENV   := .venv
BIN    := $(VENV)/bin
CONFIG ?= config/server.properties
# A worker for each core, two at least and four at most, as some tests start a Spark or an Apache Kafka. A worker takes a file at a time,
# so a file's brokers are started once. The slowest files come first (tests/seconds.tsv).
TEST_WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 2 ? 2 : cores > 4 ? 4 : cores)))
PARTED := --numprocesses $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
# Compiled where there is a C compiler (setup.py), each with its types in a .pxd beside it
COMPILED := storage/cleaner/walk.py protocol/records/fields.py
# Extras that a running broker, its commands and its data sources can need
RUNTIME := security client metrics console arrow spark pipeline
# pip reads its own configuration and environment (proxies, certificates, mirrors); the versions are ours
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

# Where Pythons are looked for, unless PYTHON names one, and what says how fast each is, in microseconds: it fails where a version is not wanted
PYTHONS := python3.13 python3.12 python3.11 python3 python3.14 python /usr/bin/python3
define PYTHON_SPEED
import sys, ensurepip, venv, timeit
assert (3, 11) <= sys.version_info[:2] <= (3, int(sys.argv[1]))
setup = "class A:\n def f(self, x): return {x: self}\na = A()"
print(round(min(timeit.repeat("for i in range(20000): a.f(i)", setup, number=1, repeat=5)) * 1e6))
endef
export PYTHON_SPEED

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.broker ## create .venv and install the broker into it

run: setup ## start the broker from config/server.properties (CONFIG=..., ARGS="--override KEY=VALUE")
	@exec $(BIN)/pybroker $(CONFIG) $(ARGS)

test: $(VENV)/.develop lint ## lint, and every test at the sizes of continuous integration
	$(BIN)/python -m pytest $(PARTED) $(PYTEST_ARGS)

test-quick: $(VENV)/.develop lint ## lint and unit tests: below two minutes
	$(BIN)/python -m pytest --numprocesses 2 tests/unit $(PYTEST_ARGS)

test-all: $(VENV)/.develop ## every test at full size, against Apache Kafka too: takes long
	PYBROKER_TEST_SCALE=$${PYBROKER_TEST_SCALE:-50} $(BIN)/python -m pytest $(PARTED) $(PYTEST_ARGS)

test-times: $(VENV)/.develop ## measure how long each test file takes: renews tests/seconds.tsv, which orders the files
	PYBROKER_TEST_TIMES=1 $(BIN)/python -m pytest $(PARTED) $(PYTEST_ARGS)

prove: $(VENV)/.develop ## run changed conformance tests against Apache Kafka: renews tests/conformance/proven.tsv
	PYBROKER_TEST_KAFKA=prove $(BIN)/python -m pytest tests/conformance $(PYTEST_ARGS)

lint: $(VENV)/.develop ## style, types, the contracts between the rooms, the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint docker/Dockerfile; fi

fuzz: $(VENV)/.develop ## fuzz all that reads bytes of others, FUZZ_MINUTES of them (10); Linux on x86-64
	$(BIN)/python -m tests.fuzz --minutes $${FUZZ_MINUTES:-10} $(ARGS)

soak: $(VENV)/.develop ## all kinds of load, with kills, for SOAK_MINUTES (20): nothing lost, all flat; draws .cache/soak/soak.svg
	$(BIN)/python -m tests.soak --minutes $${SOAK_MINUTES:-20} $(ARGS)

bench: $(VENV)/.develop ## measure beside Apache Kafka, 40 minutes, into docs/how-it-works/benchmarks.md (ARGS=NAME: another benchmark)
	$(BIN)/python -m bench $(ARGS)

bench-check: $(VENV)/.develop ## have functions of the hot path become slower? (ARGS=--update: what is now is the baseline)
	$(BIN)/python -m bench.micro.check $(ARGS)

demo: $(VENV)/.demo ## an access log through the broker and Spark into Parquet, and a report
	$(BIN)/python examples/access-log/demo.py $(ARGS)

docs: $(VENV)/.docs ## the documentation as a site in .cache/site, any warning an error (ARGS=--serve: at port 8000, renewed as files change)
	$(BIN)/python -m tools.site $(ARGS)

dist: $(VENV)/.develop ## wheel and source distribution into dist/, the same bytes each time (SOURCE_DATE_EPOCH: else the commit's)
	$(BIN)/python .ci/dist --check

lock: $(BIN)/python ## resolve every dependency anew: constraints.txt, and requirements.lock with hashes of what running needs
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

audit: $(BIN)/python ## ask PyPI which of the versions in constraints.txt have known vulnerabilities (pip-audit)
	$(BIN)/python -m venv .cache/audit
	.cache/audit/bin/python -m pip install --quiet pip-audit
	.cache/audit/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

clean: ## remove what the verbs made (not data/)
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find protocol storage -name '*.so' -delete

# What is installed, newest first: a stamp for each set, renewed when the project's pins change, or what is compiled.
# That is done with the broker (setup.py), and not again. Python's own bytecode as well: where PYTHONDONTWRITEBYTECODE is
# set, as in many containers, each start would compile all modules, and take twice as long. By way of wheels: an old pip
# leaves no record of wheel tags for packages that come as source alone (crcmod), and the tests pack what is installed.
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

# The fastest of the Pythons there are, among versions that all pins are tried with; else any that is new enough. A Python that a version manager
# has built without the optimizations that distributions build theirs with takes a fifth longer for everything.
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
