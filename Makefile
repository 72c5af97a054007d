# Two commands: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: setup demo demo-artificial test lint types fuzz audit sbom tools release clean

setup: $(VENV)/.installed

# Again when the C sources of the CPU kernels change: they are compiled by the installation.
$(VENV)/.installed: pyproject.toml hatch_build.py wholedoc/kernels/build.py $(wildcard wholedoc/kernels/csrc/*)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wholedoc needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -c 'from wholedoc.kernels import describe; print("CPU kernels:", describe())'
	touch $@

# A handbook is translated by the model in the box with a translation memory and a glossary, then the page is
# served, without the glossary: it shows what an approved sentence does.
# DEMO_SECONDS=… ends it by itself.
demo: setup
	mkdir -p demo && cp docs/examples/* demo
	cd demo && test -d handbook || ../$(BIN)/wholedoc tm build handbook handbook.tmx
	cd demo && ../$(BIN)/wholedoc translate de-en washer-dryer.md --tm handbook --glossary terms.tsv -o washer-dryer.en.md
	@echo && cat demo/washer-dryer.en.md && echo
	@echo 'That was demo/washer-dryer.md, translated with a memory of 121 sentences and a glossary of 3 terms.'
	@echo 'Now without the glossary, on a page: open the address below in a browser, drop demo/washer-dryer.md on it,'
	@echo 'put right what is wrong in sentence 2 and press Ctrl+Enter: sentences 3, 4 and 11 follow. Ctrl+C here ends it.'
	@echo 'The model is small and has read software manuals and speeches: other text comes out worse, unless a memory helps.'
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

# 100,000 inputs to all readers of files and 20,000 requests to the service; some hours. By atheris
# where it can be installed, else by hypothesis.
fuzz: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]' || $(BIN)/python -m pip install --quiet --disable-pip-version-check schemathesis
	$(BIN)/python tests/faults/fuzz.py --out bench/faults/results/fuzz.json $(FUZZ)

# Known faults in what users install; asks a database on the network, and fails without it.
audit: tools build/users/.installed
	build/users/bin/pip freeze --exclude wholedoc | sed 's/+cpu//' > build/requirements.txt
	build/tools/bin/pip-audit --strict --no-deps --disable-pip -r build/requirements.txt

# What users install, as CycloneDX.
sbom: tools build/users/.installed
	build/tools/bin/cyclonedx-py environment build/users/bin/python --output-reproducible --of JSON -o build/sbom.json

build/users/.installed: pyproject.toml
	$(PYTHON) -m venv build/users
	build/users/bin/pip install --quiet --disable-pip-version-check .
	touch $@

tools: build/tools/.installed

build/tools/.installed:
	$(PYTHON) -m venv build/tools
	build/tools/bin/pip install --quiet --disable-pip-version-check 'pip-audit>=2.7,<3' 'cyclonedx-bom>=6,<8'
	touch $@

# Wheel and sdist, installed into fresh environments and tested outside the checkout.
release:
	PYTHON=$(PYTHON) .ci/release

clean:
	rm -rf $(VENV) demo demo-artificial build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
