# The contract: people and CI use these targets and nothing else. Each makes the virtual
# environment first where it is missing or older than what it is made from.

PYTHON ?= python3
VENV ?= .venv
# One test process more than there are cores, up to 8: some wait for a browser or for a command that
# is killed. Each loads TVM (1.5 s, some hundred MB), and in a container the cores counted are often
# the host's. `make test JOBS=0` runs all in one process.
JOBS ?= $(shell $(PYTHON) -c "import os; print(1 + len(getattr(os, 'sched_getaffinity', \
  lambda _: range(os.cpu_count() or 1))(0)))")
# More for pytest: make test ARGS="-k matmul -x"
ARGS ?=
# Of `make test-deep`: how long and from where random schedules are played, and more for
# tests/fuzz_schedules.py, as make test-deep SECONDS=3600 SEED=7 FUZZ="--only matmul"
SECONDS ?= 600
SEED ?= 0
FUZZ ?=
# Of long tests `make test` runs this day's share, and says what it left out.
TIRSTEP_DAY ?= $(shell date +%F)

VENV_LOWEST ?= .venv-lowest
# What depends on the packages' versions: the command line and kernels.
LOWEST := $(addprefix tests/cli/test_,help.py list_and_steps.py output.py wrong_use.py streams.py \
  check.py compare.py modernize.py write_goldens.py ladder.py bench.py) tests/modules/test_scripts.py \
  tests/lowering_checks/test_notebook.py

PY := $(VENV)/bin/python
STAMP_LOWEST := $(VENV_LOWEST)/.installed
STAMP := $(VENV)/.installed
PYTEST := $(PY) -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test test-lowest test-gpu test-deep check size golden bench docs dist format

help: ## list the targets
	@echo "tirstep: TensorIR schedules, step by step"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The processes share the cores already, so each keeps to one thread. Hundreds of commands start, and
# without bytecode each would compile all that it imports.
test test-lowest: export OPENBLAS_NUM_THREADS = 1
test test-lowest: export TVM_NUM_THREADS = 1
test test-lowest: export PYTHONDONTWRITEBYTECODE =
# glibc keeps what was freed: TVM's passes and the simulator's arrays ask for it again at once, and
# mapping and clearing it each time was a tenth of the tests' time.
test test-lowest: export MALLOC_MMAP_THRESHOLD_ = 1073741824
test test-lowest: export MALLOC_TRIM_THRESHOLD_ = 1073741824
test test-lowest: export MALLOC_TOP_PAD_ = 33554432
test: export TIRSTEP_DAY := $(TIRSTEP_DAY)
test: $(STAMP) ## every test that needs no GPU, of long ones the day's share (TIRSTEP_DAY=2026-11-27)
	$(PYTEST) -m "not gpu" -n $(JOBS) --maxprocesses 8 --dist loadgroup $(ARGS)

# Without the tools that check and build, whose versions matter to nobody who installs tirstep.
test-lowest: $(STAMP_LOWEST) ## the tests of the command line and of kernels, with the lowest versions
	$(VENV_LOWEST)/bin/python -m pytest -q -m "not gpu" -n $(JOBS) --maxprocesses 8 \
	  --dist loadgroup $(LOWEST) $(ARGS)

test-gpu: export TIRSTEP_REQUIRE_GPU = 1
test-gpu: $(STAMP) ## the tests that need a CUDA device, one after the other
	$(PYTEST) -m gpu $(ARGS)

test-deep: export TIRSTEP_HYPOTHESIS = thorough
test-deep: export OPENBLAS_NUM_THREADS = 1
test-deep: export TVM_NUM_THREADS = 1
test-deep: $(STAMP) ## all of what `make test` has a share of, 300 examples each, and random schedules
	$(PY) tests/fuzz_schedules.py $(SEED) $(SECONDS) --jobs 0 $(FUZZ)
	$(PYTEST) -m "not gpu" -n $(JOBS) --maxprocesses 8 --dist loadgroup \
	  -o faulthandler_timeout=3600 $(ARGS)
	$(PY) tests/foreign/tirx_kernels_table.py

size: ## lines by folder, and what is tangled, against the budgets in tests/support/size.py
	@$(PYTHON) tests/support/size.py

# mypy finds tirstep.* in .typing: packages as folders of links, kept in step with src/tirstep.
check: $(STAMP) ## format, lint, types, direction of imports, budgets of size
	@rm -rf .typing && mkdir -p .typing/tirstep
	@for path in src/tirstep/* modules transforms lowering_checks; do \
	  [ "$${path##*/}" = __pycache__ ] || ln -s "../../$$path" ".typing/tirstep/$${path##*/}"; done
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PYTEST) -q tests/test_import_direction.py
	$(PY) tests/support/size.py --check

golden: $(STAMP) ## write the golden files again (the command refuses under CI)
	$(VENV)/bin/tirstep check --all --write-goldens

bench: $(STAMP) ## time recipes and peers on a GPU, and fill the documents' tables
	$(VENV)/bin/tirstep bench $(ARGS) --save benchmarks/results
	$(PY) docs/build/readme.py

# The pages that are committed, of which `ARGS=--check` says what is stale; then the site.
docs: $(STAMP) ## generated pages, and a site with an API reference in build/site
	$(PY) docs/build/pages.py
	$(PY) docs/build/readme.py $(ARGS)
	$(PY) docs/build/agents.py
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  --no-build-isolation -e '.[docs]'
	$(PY) -m sphinx --quiet --fail-on-warning -c docs/build -d build/doctrees docs build/site
	@echo "open build/site/index.html"

dist: $(STAMP) ## the sdist and the wheel in dist/, as an index would take them
	rm -rf dist
	$(PY) -m build --no-isolation --outdir dist .
	$(PY) -m twine check --strict dist/*

format: $(STAMP) ## format the code and fix what the linter can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

# setuptools comes first and the build is not isolated, so that its version is pinned too.
$(STAMP): pyproject.toml setup.py constraints.txt src/tirstep/__init__.py
	@command -v "$(PYTHON)" >/dev/null || { echo "tirstep needs Python 3.10 or later, and there \
	is no '$(PYTHON)' here; install one, or name it: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tirstep needs Python \
	3.10 or later, and $(PYTHON) is %d.%d; name another: make PYTHON=python3.12" \
	% sys.version_info[:2])'
	@$(PY) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt --no-build-isolation \
	  -e '.[dev]'
	@touch $@

# Of the extra dev what runs tests is installed.
$(STAMP_LOWEST): constraints-lowest.txt pyproject.toml setup.py
	@$(@D)/bin/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $< setuptools
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $< \
	  --no-build-isolation -e . filecheck hypothesis jsonschema pytest pytest-xdist
	@touch $@
