# make demo   see the whole idea work, offline, in under a minute after set-up
# make test   run every test; installs what it needs
# make check  ruff, mypy, import-linter, tests
# make bench  benchmarks, as ratios in one run

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3.14 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check bench editors postgres clean

demo: $(STAMP)
	@$(BIN)/python docs/examples/demo.py

test: $(STAMP) editors postgres
	@$(BIN)/python -m pytest -q

check: $(STAMP) editors postgres
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q

bench: $(STAMP)
	@[ -x .cache/bench/bin/python ] || { $(PYTHON) -m venv .cache/bench && .cache/bench/bin/python -m pip install -q dbos 'python-lsp-server[all]'; }
	@[ -e .cache/bench/node_modules/pyright ] || ! command -v npm >/dev/null || npm install --prefix .cache/bench --no-audit --no-fund --loglevel=error pyright >/dev/null
	@for file in tests/bench/bench_*.py; do $(BIN)/python $$file || exit 1; done

editors: $(STAMP)
	@PYTHON=$(BIN)/python bash tests/e2e/editors/setup.sh

postgres:
	@bash tests/e2e/postgres/setup.sh

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rulvar needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install -q --upgrade pip 2>/dev/null
	@$(BIN)/python -m pip install -q -e '.[all]' --group dev
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
