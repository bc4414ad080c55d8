# Two commands: `make demo` shows the product, `make test` tests it. Each target sets up what it needs.
PYTHON ?= python3
WORKLOADS ?= all
REPEATS ?= 3
BIN := .venv/bin
WHOLE_FILES := --dist loadfile --no-loadscope-reorder
# Compiled once, whatever the caller's environment says: the tests start drlib hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo shell lab test incidents test-all long bench soak fuzz mutants lint unit integration pictures docs lock sbom clean

help:
	@echo "make demo   two real Kafka clusters, one dies, applications carry on; ends with a report"
	@echo "make test   what CI runs first: everything but what takes minutes"
	@echo "make incidents  each cause of levels 1 to 5 solved, and players who do nothing or harm; CI runs it as well"
	@echo "make test-all  that, and what takes minutes: long faults, incidents of level 6, the real MirrorMaker 2 beside ours"
	@echo "make long   only what takes minutes; test-all is make test and this"
	@echo "make bench  our engine, MirrorMaker 2 and the raw wire side by side: WORKLOADS=a,b REPEATS=n; then the analyses, and a million claims"
	@echo "make soak   random faults against continuous traffic, 30 schedules of both directions, make fuzz; MINUTES=10; SEED=n to play one again"
	@echo "make fuzz   changed inputs for every decoder of what others wrote: MINUTES=2, and SEED=n for the same ones again"
	@echo "make mutants  small changes to the pure code that no unit test notices: a sample, or PACKAGE=drlib.mirror.journal"
	@echo "make docs   these pages and the API reference as a static site in build/site"
	@echo "make setup  only the set-up: .venv with locked dependencies, and the jars"
	@echo "make lab    JupyterLab on the notebooks"
	@echo "make shell  a shell with drlib on its PATH"

setup: .venv/.ready

.venv/.ready: requirements.lock pyproject.toml drlib/lab/jars.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Run: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Setting up: the virtual environment (about two minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "Setting up: Kafka's and Spark's jars"
	@$(BIN)/python -m drlib.lab.jars
	@$(BIN)/python -m drlib.lab.brokers.record_classes
	@touch $@

demo: setup
	@$(BIN)/drlib run failover-drill --lab

# Without what make exports: the shell is yours.
shell: setup
	@echo "drlib is on the PATH of this shell: drlib --help. To leave it: exit"
	@exec env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL PATH="$(CURDIR)/$(BIN):$$PATH" \
	  VIRTUAL_ENV="$(CURDIR)/.venv" "$${SHELL:-/bin/sh}"

lab: setup
	@$(BIN)/drlib notebook

# The linters beside the pure tests: mypy works on one processor.
test: setup
	$(MAKE) -j2 lint unit
	$(MAKE) integration

# Two at a time: an incident waits for its clusters about as long as it works.
incidents: setup
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/integration/training/test_incidents.py tests/notebooks/test_game_day.py

# Secured clusters of three brokers each alone: beside anything else two cores do not keep their deadlines.
ALONE := tests/integration/drill/test_secured_night.py tests/integration/runbook/test_secured_lab.py
test-all: test long

long: setup
	$(BIN)/python -m pytest -q --durations=20 -m "long or mm2" $(ALONE)
	$(BIN)/python -m pytest -q -n 2 $(WHOLE_FILES) --durations=30 -m "long or mm2" $(addprefix --ignore=,$(ALONE)) \
	  tests/integration tests/notebooks
	$(BIN)/python -m pytest -q -n 2 $(WHOLE_FILES) --nbval-lax notebooks/01_mirror_two_clusters.ipynb \
	  notebooks/04_consume_in_order.ipynb notebooks/05_find_duplicates.ipynb notebooks/06_analyse_lag.ipynb \
	  notebooks/07_size_the_link.ipynb notebooks/08_audit_clusters.ipynb notebooks/09_follow_both_clusters.ipynb

bench: setup
	$(BIN)/python -m bench --workloads "$(WORKLOADS)" --repeats $(REPEATS)
	$(BIN)/python -m bench.analyses
	$(BIN)/python -m bench.claims

soak: setup
	PYTHONPATH=tests:. $(BIN)/python -m soak --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))
	PYTHONPATH=tests:. $(BIN)/python -m soak.both_ways --schedules 30 $(if $(SEED),--seed $(SEED))
	PYTHONPATH=tests:. $(BIN)/python -m fuzz --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

fuzz: setup
	PYTHONPATH=tests:. $(BIN)/python -m fuzz --minutes $(or $(MINUTES),2) $(if $(SEED),--seed $(SEED))

mutants: setup
	PYTHONPATH=tests:. $(BIN)/python -m mutants $(PACKAGE) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup
	$(BIN)/python -m pytest -q -n 2 tests/unit tests/contract tests/repository

# Two at a time, a file in one of them, the longest first: tests on brokers wait about as long as they work. The 30 slowest are
# printed.
integration: setup
	$(BIN)/python -m pytest -q -n 2 $(WHOLE_FILES) --durations=30 -m "not long and not mm2" --nbval-lax \
	  tests/integration tests/notebooks notebooks/00_start_here.ipynb notebooks/02_fail_over.ipynb notebooks/03_fail_back.ipynb

docs: setup
	$(BIN)/python docs/make_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

pictures: setup
	$(BIN)/python docs/make_pictures.py

lock:
	uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock
	$(MAKE) setup
	$(MAKE) sbom

# Licences are read from the packages that are installed.
sbom:
	PYTHONPATH=. $(BIN)/python docs/make_sbom.py > sbom.cdx.json

clean:
	rm -rf .venv .lab .lab-* runs build
