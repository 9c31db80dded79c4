# A fresh checkout → .venv → the job. Needs Python ≥ 3.11 with venv, and the network for PyPI at the first run.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4

.PHONY: demo install check test test-all lint bench docs clean

demo: $(VENV)/.base
	$(BIN)/dragoman demo

# make install EXTRAS=elastic,serve: Dragoman with extras; with gpu, ONNX Runtime for CUDA takes the place of the CPU's,
# and stays in later calls unless EXTRAS has cpu. The two overwrite each other, so the other one goes first.
install: | $(VENV)/bin/python
	$(if $(call installed,$(OTHER)),$(UNINSTALL) onnxruntime onnxruntime-gpu)
	$(INSTALL) -e '.[$(subst $(space),$(comma),$(strip $(RUNTIME) $(filter-out cpu gpu,$(WANTED))))]'
	touch $(VENV)/.base

comma := ,
space := $(subst ,, )
WANTED = $(subst $(comma),$(space),$(EXTRAS))
installed = $(wildcard $(VENV)/lib/python*/site-packages/$(1)-*.dist-info)
RUNTIME = $(or $(firstword $(filter cpu gpu,$(WANTED))),$(if $(call installed,onnxruntime_gpu),gpu,cpu))
OTHER = $(if $(filter gpu,$(RUNTIME)),onnxruntime,onnxruntime_gpu)

# each tier runs the tier before it, too. check: no server, no torch; test: real parts; test-all: what takes long
check: $(VENV)/.dev
	$(PYTEST) -m 'not parts and not long' --seconds 5 $(ARGS)

test: $(VENV)/.dev
	$(PYTEST) -m 'not long' $(ARGS)

test-all: $(VENV)/.dev
	$(PYTEST) $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev
	$(BIN)/python docs/cli_page.py

# uv where it is at hand, pip otherwise: the same packages, uv is quicker
$(VENV)/bin/python:
	uv venv -q $(VENV) --python $(PYTHON) 2>/dev/null || $(PYTHON) -m venv $(VENV)

INSTALL = $(shell command -v uv >/dev/null 2>&1 && echo "uv pip install -q --python $(BIN)/python" || echo "$(BIN)/python -m pip install -q")
UNINSTALL = $(shell command -v uv >/dev/null 2>&1 && echo "uv pip uninstall -q --python $(BIN)/python" || echo "$(BIN)/python -m pip uninstall -q -y")

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[$(RUNTIME)]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[cpu,train,datasets,elastic,serve,dev]'
	touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[cpu,train,datasets,elastic,serve,dev,bench]'
	touch $@ $(VENV)/.base

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
