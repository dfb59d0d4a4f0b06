PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint experiments benchmark clean

# One stamp per set of extras: pip runs again only when pyproject.toml changes.
$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jaxmbd needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[viz]'
	touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/jaxmbd demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

benchmark: $(VENV)/.test
	$(BIN)/python experiments/benchmarks/run.py --out experiments/benchmarks

experiments: benchmark
	$(BIN)/python experiments/rotation_formulations/run.py --out experiments/rotation_formulations
	$(BIN)/python experiments/gradients/run.py --out experiments/gradients
	$(BIN)/python experiments/identification/run.py --out experiments/identification
	$(BIN)/python experiments/control/run.py --out experiments/control
	$(BIN)/python experiments/munthe_kaas_groups/run.py --out experiments/munthe_kaas_groups
	$(BIN)/python experiments/discrete_null_space/run.py --out experiments/discrete_null_space
	$(BIN)/python experiments/rotation_elements/run.py --out experiments/rotation_elements

clean:
	rm -rf $(VENV) demo build dist
