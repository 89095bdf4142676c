# Every target sets itself up: .venv is built once, and again only when its inputs change.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: all demo test test-all pythons lint types law bench soak fuzz mutants figures docs proofs release-check clean
all: lint types law test

demo: .venv/core
	$(BIN)/littlestone demo
	@echo "To find the command littlestone in this shell: source .venv/bin/activate"

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile

# Minutes: fewer cases of each test, and none that is slow: soaks, audits by games, proofs, browsers ...
test: .venv/dev
	LITTLESTONE_EFFORT=0.2 $(PYTEST) -m "not slow"

# Every test, as .ci/run does. `make test-all EFFORT=1` goes through all cases of each: half an hour.
EFFORT ?= 0.4
test-all: .venv/dev
	LITTLESTONE_EFFORT=$(EFFORT) $(PYTEST)

# `make test` of what is committed, with each of several interpreters in a clone and an environment of its own.
PYTHONS ?= python3.11 python3.12 python3.13
pythons:
	for python in $(PYTHONS); do \
		clone=build/pythons/$$($$python -c 'import sys; print(sys.version.split()[0])') && \
		{ test -d $$clone || git clone --quiet . $$clone; } && \
		git -C $$clone fetch --quiet origin HEAD && git -C $$clone reset --quiet --hard FETCH_HEAD && \
		$(MAKE) --no-print-directory -C $$clone PYTHON=$$(command -v $$python) test || exit 1; \
	done

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

law: .venv/dev
	$(BIN)/lint-imports

# Every table of docs/results.md and the figures of the README, written into them; meant to take an hour.
# `.venv/bin/python -m bench PART` prints one part and writes nothing.
bench: .venv/bench
	$(BIN)/python -m bench --write

# Kills learners 1,000 times at random moments (files, Kafka, the service, Ray), and checks that nothing
# is lost or doubled, and that budgets are exact: an hour or two. `make soak KILLS=200` is a shorter look.
KILLS ?= 1000
soak: .venv/dev
	PYTHONPATH=tests $(BIN)/python -m soak $(KILLS)

# Sends 100,000 requests, most of them wrong, to a service: no 5xx, and nothing changed by a refusal.
REQUESTS ?= 100000
fuzz: .venv/dev
	PYTHONPATH=tests $(BIN)/python -m fuzz_service $(REQUESTS)

# Breaks, one at a time, lines that guard the guarantee, and says which break no test: some minutes.
mutants: .venv/dev
	PYTHONPATH=tests $(BIN)/python -m mutants

# docs/cli.md from --help, the notebook from the tutorial, the page of sliders; then the site: build/site/index.html.
docs: .venv/dev
	$(BIN)/python docs/generate.py
	$(BIN)/sphinx-build -W -E --keep-going -q -j auto -d build/doctrees docs build/site

# Builds the package into dist, and runs the README's commands with the wheel in a clean environment.
release-check:
	$(PYTHON) tests/release.py

# Every picture of docs/ but those of benchmarks: of the theory, of the examples, of page and report
# (with Chromium). Half a minute; `python -m bench.drawings screens` takes the last two only.
figures: .venv/dev
	$(BIN)/python -m bench.drawings

# Has Coq check the theorems of docs/guarantee.md (proofs/): half a minute; says what to install where there is no Coq.
proofs:
	$(MAKE) --no-print-directory -j 2 -C proofs

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Setting up .venv (once; a minute or two) ..."
	$(PIP) --editable .
	@touch $@

.venv/bench: .venv/dev
	$(PIP) --editable '.[bench]'
	@touch $@

.venv/dev: .venv/core
	$(PIP) --editable '.[dev]'
	@touch $@
