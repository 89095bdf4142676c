# Every target sets itself up: .venv is built once, and again only when its inputs change.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: all demo test lint types law bench soak results clean
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

# Kills the learner 200 times at random moments, under load, and checks that nothing is lost or doubled.
soak: .venv/dev
	PYTHONPATH=tests $(BIN)/python -m soak 200

# Reprints the tables of docs/results.md and draws its figures.
results: .venv/dev
	$(BIN)/littlestone compare --class points:x --learners dpsoa,dpsoa-paper,soa --streams iid,halving \
		--rounds 1000,10000,100000 --seeds 5 --figures docs/figures/rounds
	$(BIN)/littlestone compare --class points:x --learners dpsoa,soa --streams iid,halving \
		--rounds 100000 --epsilon 0.5,1,2 --seeds 5 --figures docs/figures/epsilon
	$(BIN)/littlestone compare --class thresholds:x:1:1 --class thresholds:x:1:3 --class thresholds:x:1:7 \
		--class thresholds:x:1:15 --class thresholds:x:1:31 --learners dpsoa,soa --streams iid,halving,mirror \
		--rounds 20000 --seeds 5 --figures docs/figures/dimension
	$(BIN)/python -m bench agreement

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
