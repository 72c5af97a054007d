# Two commands: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: setup demo demo-artificial test lint types clean

setup: $(VENV)/.installed

# Again when the C sources of the CPU kernels change: they are compiled by the installation.
$(VENV)/.installed: pyproject.toml hatch_build.py wholedoc/kernels/build.py $(wildcard wholedoc/kernels/csrc/*)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wholedoc needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -c 'from wholedoc.kernels import describe; print("CPU kernels:", describe())'
	touch $@

# A handbook is translated by the model in the box with a translation memory, then the page is served.
# DEMO_SECONDS=… ends it by itself.
demo: setup
	mkdir -p demo && cp docs/examples/* demo
	cd demo && test -d handbook || ../$(BIN)/wholedoc tm build handbook handbook.tmx
	cd demo && ../$(BIN)/wholedoc translate de-en washer-dryer.md --tm handbook -o washer-dryer.en.md && cat washer-dryer.en.md
	@echo 'Now in the browser: open the address below and drop demo/washer-dryer.md on the page.'
	cd demo && ../$(BIN)/wholedoc serve de-en --tm handbook --port $(or $(DEMO_PORT),8000) --seconds $(or $(DEMO_SECONDS),0)

# The paper's memories on an artificial corpus, for which the best possible is known.
demo-artificial: setup
	$(BIN)/wholedoc demo --out demo-artificial

# Two workers of one thread each: on two cores faster than one worker of two.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo demo-artificial build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
