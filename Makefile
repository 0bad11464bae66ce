# Targets for development; `make` lists them. Everything is installed into $(VENV) only.
#   make demo        make test        make test-full EXTRAS=all        make test EXTRAS=onnx,keras
PYTHON ?= python3
VENV ?= .venv
OUT ?= evenhand-report
INSTALLED ?= $(VENV)/dist
EXTRAS ?=
PYTEST_ARGS ?=
PAPER ?=
TABLE ?=
QUICK ?=

bin := $(VENV)/bin
pip := $(bin)/python -m pip --disable-pip-version-check
stamps := $(VENV)/.stamps

# The tests install the package with the requested extras. EXTRAS=all adds the frameworks that results are compared with.
comma := ,
extras := $(if $(EXTRAS),[$(EXTRAS)])
frameworks := $(if $(filter all,$(EXTRAS)),--group frameworks)
tested := $(stamps)/test$(if $(EXTRAS),-$(subst $(comma),-,$(EXTRAS)))

# One process per core, at most eight. Each runs neighbouring tests, which share compiled kernels and trained models.
pytest := EVENHAND_EXTRAS=$(EXTRAS) $(bin)/python -m pytest
parallel := -n auto --maxprocesses 8 --dist worksteal

.PHONY: help demo test test-full test-slow snapshots lint docs notebooks reproduce dist sbom
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(stamps)/plain  ## audit a model on a bundled data set and print the path of the report
	$(bin)/evenhand audit --example adult --out $(OUT)
	@printf '\nThe report: %s\n' '$(abspath $(OUT))/report.html'

test: $(tested)  ## run the short test suite; EXTRAS=all includes the tests of all extras
	$(pytest) $(parallel) -m 'not full and not slow' --hypothesis-profile=short -r fE $(PYTEST_ARGS)

test-full: $(tested)  ## run all tests except the slow ones, with every example
	$(pytest) $(parallel) -m 'not slow' $(PYTEST_ARGS)

test-slow: $(tested)  ## run the tests that take minutes each, and full simulations
	$(pytest) -m slow $(PYTEST_ARGS)

snapshots: $(tested)  ## update the snapshots of reports and terminal output
	$(pytest) tests/view/test_snapshots.py --snapshot-update $(PYTEST_ARGS)

lint: $(stamps)/lint  ## format, style, types, import rules
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/mypy --strict
	$(bin)/lint-imports

docs: $(stamps)/docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict

notebooks: $(tested)  ## execute the notebooks of the documentation and write their outputs
	$(bin)/python tools/run_notebooks.py

reproduce: $(stamps)/plain  ## reproduce the tables of a paper: PAPER=fairquant [TABLE=II] [QUICK=1]
	@$(bin)/python -m reproductions $(PAPER) $(if $(TABLE),--table "$(TABLE)") $(if $(QUICK),--quick)

dist: $(stamps)/dist  ## build the sdist, and from it the wheel, into dist/
	@rm -rf dist
	$(bin)/python -m build
	$(bin)/python tools/check_distributions.py dist

# Describes the environment INSTALLED, by default a new one with the wheel and its dependencies but without pip.
sbom: $(stamps)/dist  ## write the bill of materials of the wheel in dist/ and its dependencies (CycloneDX)
	@test -e $(INSTALLED) || { $(PYTHON) -m venv --without-pip $(INSTALLED) && \
		$(pip) --python $(INSTALLED) install --quiet dist/*.whl; }
	@sed "s/^dynamic = .*/version = \"$$($(INSTALLED)/bin/evenhand --version | cut -d ' ' -f 2)\"/" pyproject.toml \
		>$(stamps)/pyproject.toml
	$(bin)/cyclonedx-py environment --pyproject $(stamps)/pyproject.toml --mc-type library --output-reproducible \
		--spec-version 1.6 --validate --output-file dist/evenhand.cdx.json $(INSTALLED)

$(stamps)/venv:
	@$(PYTHON) -c 'import sys; old = sys.version_info < (3, 11); sys.exit("Evenhand needs Python 3.11 or newer; name one: make PYTHON=python3.12" if old else 0)'
	@test -x $(bin)/python || $(PYTHON) -m venv $(VENV)
	@$(pip) install --quiet 'pip>=25.1'
	@mkdir -p $(stamps)
	@touch $@

$(stamps)/plain: $(stamps)/venv pyproject.toml
	@echo 'Installing Evenhand into $(VENV) (the first time about 180 MB to download)'
	@$(pip) install --quiet --editable .
	@touch $@

$(tested): $(stamps)/venv pyproject.toml
	@echo 'Installing Evenhand$(extras) and what its tests need into $(VENV)'
	@$(pip) install --quiet --editable '.$(extras)' --group test $(frameworks)
	@touch $@

$(stamps)/lint: $(stamps)/venv pyproject.toml
	@$(pip) install --quiet --editable '.[serve,postgres]' --group lint
	@touch $@

$(stamps)/docs: $(stamps)/venv pyproject.toml
	@$(pip) install --quiet --editable '.[docs]'
	@touch $@

$(stamps)/dist: $(stamps)/venv pyproject.toml
	@$(pip) install --quiet --group release
	@touch $@
