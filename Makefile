# Every target works on a machine with only Python 3.10+ and a package index:
# the first run creates .venv and installs, later runs reuse it.

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
TEG_SHARED ?= ../shared
PYTEST_ARGS ?= -n auto --maxprocesses=4
CONFIG ?= benchmarks/configs/fraud_smoke.yaml
OUT ?= build/bench/$(basename $(notdir $(CONFIG)))

export TEG_SHARED

# Threads that wait sleep instead of spinning: on busy cores, spinning makes
# small operations many times slower.
export OMP_WAIT_POLICY ?= PASSIVE

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
NATIVE := $(shell find torch_energy_graph/csrc -type f)
WHEELS := $(wildcard $(TEG_SHARED)/wheels/*.whl)

.PHONY: demo test test-full lint docs features bench sparse clean

demo: $(INSTALLED)
	$(BIN)/teg bench run benchmarks/configs/demo.yaml --out build/demo
	@echo 'make demo: ok, the results are in build/demo'

test: lint sparse
	$(BIN)/python -m pytest $(PYTEST_ARGS)
	@echo 'make test: ok'

test-full: lint sparse docs
	$(BIN)/python -m pytest $(PYTEST_ARGS) --full
	@echo 'make test-full: ok'

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(INSTALLED)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo 'make docs: ok, open build/docs/index.html'

# the table of docs/features.md, from what the tests find
features: $(INSTALLED)
	$(BIN)/python -m pytest $(PYTEST_ARGS) --full tests/nn -k test_drop_in \
	  --junitxml=build/features.xml
	$(BIN)/python docs/_features.py build/features.xml
	@echo 'make features: ok, see docs/features.md'

bench: $(INSTALLED)
	$(BIN)/teg bench run $(CONFIG) --out $(OUT)
	@echo 'make bench: ok, the results are in $(OUT)'

# torch first and alone, so that pip takes the one named here; then the
# package without build isolation, so that its build sees this torch.
$(INSTALLED): pyproject.toml setup.py $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip setuptools wheel ninja
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install '$(TORCH)'
	$(PIP) install --no-build-isolation -e '.[dev]'
	@touch $@

# torch-scatter and torch-sparse are optional: the tests that need them skip
# without them. The wheels are for Python 3.11; TEG_NO_SPARSE=1 ignores them.
sparse: $(INSTALLED)
ifneq ($(WHEELS),)
ifndef TEG_NO_SPARSE
	@if $(BIN)/python -c 'import torch_scatter, torch_sparse' 2>/dev/null; \
	then :; \
	elif $(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; \
	then $(PIP) install --no-deps $(WHEELS) || \
	  echo 'WARNING: torch-scatter/torch-sparse did not install; going on without'; \
	else echo 'No torch-scatter/torch-sparse: the wheels are for Python 3.11'; \
	fi
endif
endif

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find torch_energy_graph tests docs benchmarks -name __pycache__ -prune -exec rm -rf {} +
