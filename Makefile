# Each target does its own set-up in .venv; a fresh clone needs Python 3.11+ and make alone.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help demo demo-deployment notebooks test test-slow test-docs test-flower test-lowest dist test-dist test-sdist proofs review bench lint lint-files format docs figures clean
.DEFAULT_GOAL := help

help: ## what can be done
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

# One stamp for each set of extras, renewed when the requirements change.
.venv/installed-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: .venv/installed-parquet,plot ## a private sum and mean of real data
	$(BIN)/ikos demo

demo-deployment: .venv/installed-deployment ## a private sum between programs on this machine
	$(BIN)/python -m ikos.cli.demo_deployment

notebooks: .venv/installed-notebooks ## the notebooks, in a browser; as root: JUPYTER=--allow-root
	$(BIN)/jupyter lab $(JUPYTER) notebooks

test: .venv/installed-test ## the quick tests, on two processes
	$(PYTEST) -m "not slow" -n 2

test-slow: .venv/installed-test ## the slow tests alone
	$(PYTEST) -m "slow and not reproduces" -n 2

test-docs: .venv/installed-test ## the documentation's figures, tables and notebooks, made anew
	$(PYTEST) -m reproduces -n 2

# The lowest versions of the direct requirements, in an environment of their own
.venv/lowest/installed: pyproject.toml
	@test -x .venv/lowest/bin/python || $(PYTHON) -m venv .venv/lowest
	.venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check "uv==0.13.9"
	.venv/lowest/bin/uv pip install --quiet --python .venv/lowest/bin/python --resolution lowest-direct \
		--requirements pyproject.toml --extra test
	.venv/lowest/bin/uv pip install --quiet --python .venv/lowest/bin/python --no-deps --editable .
	@touch $@

test-lowest: .venv/lowest/installed ## the quick tests with the lowest versions that are allowed
	.venv/lowest/bin/python -m pytest -m "not slow" -n 2 -W default::DeprecationWarning

dist: .venv/installed-release ## the wheel and the sdist, in dist
	rm -rf dist
	$(BIN)/python -m build

test-dist: dist ## the wheel, installed in new environments
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tests/installed.py dist

test-sdist: dist .venv/installed-test ## the quick tests of the sdist
	rm -rf build/sdist
	mkdir -p build/sdist
	tar -xzf dist/*.tar.gz -C build/sdist --strip-components 1
	cd build/sdist && PYTHONPATH=$(CURDIR)/build/sdist ../../$(PYTEST) -m "not slow" -n 2

# Flower pins many packages: it has an environment of its own
.venv/flower/installed: pyproject.toml examples/flower/requirements.txt
	@test -x .venv/flower/bin/python || $(PYTHON) -m venv .venv/flower
	.venv/flower/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
		-r examples/flower/requirements.txt "pytest>=8" "hypothesis>=6.100"
	@touch $@

test-flower: .venv/flower/installed ## the example with Flower
	.venv/flower/bin/python -m pytest tests/test_flower_example.py tests/test_analysis_secure_aggregation.py

proofs: .venv/installed-test ## the machine-checked proofs, with Coq
	@command -v coqc > /dev/null || { echo "Coq is missing: apt-get install --no-install-recommends" \
		"coq libcoq-mathcomp-ssreflect libcoq-mathcomp-fingroup libcoq-mathcomp-algebra"; exit 1; }
	$(MAKE) -C proofs check
	$(PYTEST) tests/test_proofs.py

review: .venv/installed-test ## claims, each with its tests and a mistake that they notice
	$(BIN)/python -m analysis.review

bench: .venv/installed-bench ## times as ratios to floors of the same run
	$(PYTEST) benchmarks

lint: .venv/installed-dev lint-files ## style, types, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema
lint-files: .venv/installed-dev # workflows and metadata, which run or are read elsewhere
	$(BIN)/zizmor --quiet --offline --pedantic .github
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/proposal.yml
	$(SCHEMA) vendor.readthedocs .readthedocs.yaml
	$(SCHEMA) vendor.citation-file-format CITATION.cff

docs: .venv/installed-docs ## the documentation, in docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Table 2 needs adult.data of the UCI Adult data set: make figures ADULT=path/to/adult.data
ADULT ?= $(wildcard ../shared/data/adult.data)
# Libraries that are not installed are left out of the last table: .venv/bin/pip install -e '.[peers]'
figures: .venv/installed-learning ## tables and figures of the documentation, in build/figures
	$(BIN)/python -m analysis.message_counts --output build/figures
	$(BIN)/python -m analysis.necessary_messages --output build/figures
	$(BIN)/python -m analysis.higher_moments --output build/figures
	$(BIN)/python -m analysis.direct_comparison --output build/figures
	$(BIN)/python -m analysis.random_graphs --output build/figures
	$(BIN)/python -m analysis.bbgn20_table_1 --output build/figures
	$(if $(ADULT),$(BIN)/python -m analysis.bbgn20_table_2 --data $(ADULT) --output build/figures)
	$(BIN)/python -m analysis.bbgn20_table_3 --output build/figures
	$(BIN)/python -m analysis.bbgn20_figure_2 --output build/figures
	$(BIN)/python -m analysis.scalar_robustness --output build/figures
	$(BIN)/python -m analysis.vector_tables --output build/figures
	$(BIN)/python -m analysis.masked_vectors --output build/figures
	$(BIN)/python -m analysis.transports --output build/figures
	$(BIN)/python -m analysis.verified_sums --output build/figures
	$(BIN)/python -m analysis.scm22_figures --output build/figures
	$(BIN)/python -m analysis.wlqdly21_figures --output build/figures
	$(BIN)/python -m analysis.afnntz24_rates --output build/figures
	$(BIN)/python -m analysis.afnntz24_single_message --output build/figures
	$(BIN)/python -m analysis.afnntz24_attacks --output build/figures
	$(BIN)/python -m analysis.federated_learning --output build/figures
	$(BIN)/python -m analysis.deployment_plan --output build/figures
	$(BIN)/python -m analysis.peers --output build/figures
	$(BIN)/python -m analysis.peer_libraries --output build/figures

format: .venv/installed-dev ## reformat the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what was made
	rm -rf .venv build dist docs/_build docs/notebooks .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
