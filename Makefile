# Two commands: `make demo` shows the product, `make test` runs everything CI runs. Both set up what they need.
PYTHON ?= python3
WORKLOADS ?= all
REPEATS ?= 3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup demo lab test test-all bench soak lint unit integration notebooks pictures lock clean

help:
	@echo "make demo   two real Kafka clusters, one dies, applications carry on; ends with a report"
	@echo "make test   everything CI runs"
	@echo "make test-all  that, and what takes minutes: long faults, the real MirrorMaker 2 beside ours"
	@echo "make bench  our engine, MirrorMaker 2 and the raw wire side by side: WORKLOADS=a,b REPEATS=n"
	@echo "make soak   random faults against continuous traffic: MINUTES=10, and SEED=n to play one again"
	@echo "make setup  only the set-up: .venv with locked dependencies, and the jars"
	@echo "make lab    JupyterLab on the notebooks"

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
	@touch $@

demo: setup
	@$(BIN)/drlib run runbooks/failover-drill.yaml --lab

lab: setup
	@$(BIN)/jupyter lab --ip 127.0.0.1 notebooks

test: setup lint unit integration notebooks

test-all: test
	$(BIN)/python -m pytest -q -m "long or mm2" tests/integration

bench: setup
	$(BIN)/python -m bench --workloads "$(WORKLOADS)" --repeats $(REPEATS)

soak: setup
	PYTHONPATH=tests:. $(BIN)/python -m soak --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup
	$(BIN)/python -m pytest -q tests/unit tests/contract

integration: setup
	$(BIN)/python -m pytest -q -m "not long and not mm2" tests/integration

notebooks: setup
	$(BIN)/python -m pytest -q tests/notebooks
	$(BIN)/python -m pytest -q --nbval-lax notebooks

pictures: setup
	$(BIN)/python docs/make_pictures.py

lock:
	uv pip compile --universal --python-version 3.11 --extra dev --extra lab --generate-hashes --no-emit-index-url --no-header pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .lab runs
