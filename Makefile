PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

OLDEST := $(shell sed -n 's/.*"jax>=\([0-9.]*\).*/\1/p' pyproject.toml)
# jax from 0.11 on needs Python 3.12. Where pyenv keeps several, the names answer only for the one that it has chosen.
NEWEST_PYTHON ?= $(or $(shell for p in python3.14 python3.13 python3.12; do $$p -c '' 2>/dev/null && echo $$p && break; done),$(shell ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[2-9].*/bin/python 2>/dev/null | sort -V | tail -1),$(PYTHON))

.PHONY: demo test test-all test-versions lint docs notebooks gallery viewer dist experiments benchmark clean

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

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/jaxmbd demo --out demo

# SHARE=K/N adds one of N parts of the tests that take long.
test: $(VENV)/.test tests/viz/node_modules
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(if $(SHARE),--share $(SHARE))

# The validator of binary glTF, where npm is there; its test is skipped otherwise.
tests/viz/node_modules: tests/viz/package.json
	-command -v npm > /dev/null && npm install --silent --no-audit --no-fund --prefix tests/viz
	@mkdir -p $@ && touch $@

# The part of three.js that views need, from the versions that package.json names.
viewer:
	cd jaxmbd/viz/assets && npm install --silent --no-audit --no-fund && npm run build && rm -rf node_modules package-lock.json

# With the long reproductions too: an hour or more.
test-all: $(VENV)/.test tests/viz/node_modules
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "slow or not slow"

# What reads JAX's own equations, on the oldest and on the newest jax that pyproject.toml allows, each in its own .venv-*.
test-versions: .venv-oldest .venv-newest
	.venv-oldest/bin/python -m pip install --quiet -e '.[test]' jax==$(OLDEST)
	.venv-newest/bin/python -m pip install --quiet --upgrade -e '.[test]' jax jaxlib
	for venv in $^; do \
	  $$venv/bin/python -c 'import jax; print("jax", jax.__version__)' && \
	  $$venv/bin/python -m pytest -n 2 --dist loadgroup -p no:cacheprovider tests/xla tests/solvers \
	    tests/integrators/test_first_row.py || exit 1; \
	done

.venv-oldest:
	$(PYTHON) -m venv $@

.venv-newest:
	$(NEWEST_PYTHON) -m venv $@

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The manual: every code cell runs, two pages at a time, and every link is followed; docs/_build/html/index.html opens from the file
# system. SHARE=K/N runs the cells of one of N parts of the pages.
docs: $(VENV)/.docs
	$(if $(SHARE),DOCS_SHARE=$(SHARE)) $(BIN)/sphinx-build -j 2 -W --keep-going -q -b html docs docs/_build/html

# The notebooks with the outputs of the present code.
notebooks: $(VENV)/.docs
	$(BIN)/python docs/run_notebooks.py

# The moving pictures of the manual, from the present code.
gallery: $(VENV)/.docs
	$(BIN)/python docs/make_gallery.py

# The wheel and the source archive, and the demo from the wheel in an empty environment outside the checkout.
dist: $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/check_dist.py dist

benchmark: $(VENV)/.test
	$(BIN)/python -m experiments benchmarks
	$(BIN)/python -m experiments scale
	$(BIN)/python -m experiments first_result

# Each writes to its own folder; `python -m experiments --list` says what they are.
experiments: benchmark
	for name in rotation_formulations gradients identification control munthe_kaas_groups \
	    discrete_null_space rotation_elements bicycle contact beams limits learning; do \
	  $(BIN)/python -m experiments $$name || exit 1; \
	done

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest demo build dist
