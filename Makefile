# A fresh checkout → .venv → the job. Needs Python ≥ 3.11 with venv, and the network for PyPI at the first run.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4

.PHONY: help demo install check test test-train test-elastic-8 test-all lint bench docs dist clean
.DEFAULT_GOAL := help

help: ## what can be made; times are of two quiet cores
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.base ## the whole job on articles in ten languages: indexed, calibrated, searched, scored; 1 min
	$(BIN)/dragoman demo

# Dragoman with extras; with gpu, ONNX Runtime for CUDA takes the place of the CPU's, and stays in later calls unless EXTRAS has
# cpu. The two overwrite each other, so the other one goes first.
install: | $(VENV)/bin/python ## dragoman with extras, in .venv: make install EXTRAS=elastic,serve
	$(if $(call installed,$(OTHER)),$(UNINSTALL) onnxruntime onnxruntime-gpu)
	$(INSTALL) -e '.[$(subst $(space),$(comma),$(strip $(RUNTIME) $(filter-out cpu gpu gpu12,$(WANTED))))]'
	touch $(VENV)/.base

comma := ,
space := $(subst ,, )
WANTED = $(subst $(comma),$(space),$(EXTRAS))
installed = $(wildcard $(VENV)/lib/python*/site-packages/$(1)-*.dist-info)
RUNTIME = $(or $(firstword $(filter cpu gpu gpu12,$(WANTED))),$(if $(wildcard $(VENV)/lib/python*/site-packages/onnxruntime_gpu-1.2[0-6].*),gpu12,$(if $(call installed,onnxruntime_gpu),gpu,cpu)))
OTHER = $(if $(filter cpu,$(RUNTIME)),onnxruntime_gpu,onnxruntime)

# each tier runs the tier before it, too
check: $(VENV)/.dev ## the tests that need no server and no torch; 2 min
	$(PYTEST) -m 'not parts and not long' --seconds 15 $(ARGS)

test: $(VENV)/.dev ## check, and the tests of real parts: servers, torch, the browser; 9 min
	$(PYTEST) -m 'not train and not long' $(ARGS)

test-train: $(VENV)/.dev ## the trainings, which test leaves out
	$(PYTEST) -m train $(ARGS)

test-elastic-8: $(VENV)/.dev ## the tests of test that use Elasticsearch, on version 8.19
	TESTS_ELASTIC_VERSION=8.19.0 $(PYTEST) -m 'elastic and not long' $(ARGS)

test-all: $(VENV)/.dev ## test, test-train, and accidents, races, installations
	$(PYTEST) $(ARGS)

lint: $(VENV)/.dev ## ruff, mypy --strict, import rules, links of the pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_pages.py

bench: $(VENV)/.bench ## three of the measurements (benchmarks/__main__.py); writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

# pages lie in build/pages as in the repository, so that their links work in both places
docs: $(VENV)/.docs ## docs/cli.md from the commands' help, and the documentation site, in site/
	$(BIN)/python docs/cli_page.py
	rm -rf build/pages && mkdir -p build/pages
	tar -cf - *.md LICENSE CITATION.cff $$(find docs docker -name '*.md' -o -name '*.png') | tar -xf - -C build/pages
	$(BIN)/zensical build --clean --strict

DIST ?= dist
dist: $(VENV)/.dev ## the source distribution, and the wheel built from it, in dist/
	$(BIN)/python -m uv build -q -o $(DIST)

# uv where it is at hand, pip otherwise: the same packages, uv is quicker; an early pip is silent while it installs
$(VENV)/bin/python:
	@echo 'Installing Dragoman into $(VENV), once: 540 MB, extras aside (ONNX Runtime, an encoder of 95 MB, NumPy, SciPy …), a minute or two.'
	@uv venv -q $(VENV) --python $(PYTHON) 2>/dev/null || { $(PYTHON) -m venv --without-pip $(VENV) && $(BIN)/python -m ensurepip && \
	$(BIN)/python -m pip install --no-compile -U pip; } || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }

INSTALL = $(shell command -v uv >/dev/null 2>&1 && echo "uv pip install --python $(BIN)/python" || echo "$(BIN)/python -m pip install --no-compile")
UNINSTALL = $(shell command -v uv >/dev/null 2>&1 && echo "uv pip uninstall -q --python $(BIN)/python" || echo "$(BIN)/python -m pip uninstall -q -y")

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[$(RUNTIME)]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[$(RUNTIME),train,datasets,elastic,serve,dev]'
	touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[$(RUNTIME),train,datasets,elastic,serve,dev,bench]'
	touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[$(RUNTIME),docs]'
	touch $@ $(VENV)/.base

clean: ## remove all that was made, .venv too
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache dist build site
