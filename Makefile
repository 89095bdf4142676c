# Every target sets itself up: .venv is built once, and again only when its inputs change.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: all demo test lint types law bench clean
all: lint types law test

demo: .venv/core
	$(BIN)/littlestone demo

test: .venv/dev
	$(BIN)/python -m pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

law: .venv/dev
	$(BIN)/lint-imports

bench: .venv/dev
	$(BIN)/python -m bench

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Setting up .venv (once; a minute or two) ..."
	$(PIP) --editable .
	@touch $@

.venv/dev: .venv/core
	$(PIP) --editable '.[dev]'
	@touch $@
