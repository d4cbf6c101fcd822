# `make demo` and `make test` need nothing typed before them: each checks its prerequisites, builds .venv
# with the standard library, installs into it and runs.  Choose an interpreter with `make test PYTHON=python3.12`.

PYTHON  ?= python3
CXX     ?= g++
VENV    := .venv
PY      := $(VENV)/bin/python
PROFILE ?= ci
JOBS    ?= auto
ROOM    ?=
GPU     ?= cuda13

# What is imported is compiled when it is: most of what is installed never is.  Of the project all is: that goes
# beside the installation, or each process of the tests would do it.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile

# The caller's environment must not leak into ours.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX

.PHONY: help demo test test-all lint pytest pytest-room peers golden docs docs-links notebooks dist bench gpu clean prerequisites
.DEFAULT_GOAL := help

help:
	@echo "make demo    analyse a layout, find a swizzle, generate, simulate and compile a kernel"
	@echo "make test    ruff, mypy --strict, import-linter and every test that does little work: five minutes"
	@echo "make test ROOM=analysis  the tests and the doctests of one room: kernels/move, codegen, cli, budget, ..."
	@echo "make test-all  all tests, with four times the examples; laws and random triples at 5,000 examples each"
	@echo "make lint    the static checks alone"
	@echo "make peers   install the libraries that tests compare with; without them those tests skip"
	@echo "make golden  rewrite the golden files, then read the diff"
	@echo "make docs    the site of docs/, into site/index.html, with every link in it checked"
	@echo "make docs-links  asks for the links to other sites; needs a network"
	@echo "make notebooks  the tutorials as .ipynb files with their outputs, into build/notebooks"
	@echo "make dist    wheel and source archive into dist/, each tested in an environment of its own"
	@echo "make bench   the benchmarks under tests/bench"
	@echo "make gpu     all that only a GPU can show, into build/gpu; GPU=cuda12 for CUDA 12"
	@echo "make clean   remove .venv, caches and build products"

demo: $(VENV)/.installed-all
	@$(VENV)/bin/layoutalg doctor demo

PYTEST := $(PY) -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal
FIRST  := LAYOUTALG_PROFILE=$(PROFILE) $(PYTEST)
ALL    := LAYOUTALG_PROFILE=all $(PYTEST) -m "deep or not deep"
LAWS   := LAYOUTALG_PROFILE=deep $(PYTEST) tests/algebra/test_laws.py tests/analysis/test_strata.py

# The static checks run beside the tests, and their output comes after that of the tests.
beside = @out=$$(mktemp); $(MAKE) --no-print-directory lint >$$out 2>&1 & lint=$$!; \
  trap 'kill $$lint 2>/dev/null; rm -f $$out' EXIT; trap 'exit 130' INT TERM; \
  $(1); tests=$$?; wait $$lint; checks=$$?; echo "== static checks"; sed '/ KEPT/d' $$out; \
  [ $$checks = 0 ] || echo "the static checks FAIL"; [ $$tests = 0 ] || echo "the tests FAIL"; \
  [ $$tests$$checks = 00 ]

ifeq ($(ROOM),)
test: $(VENV)/.tried-peers
	$(call beside,$(FIRST))
else
test: pytest-room
endif

test-all: $(VENV)/.tried-peers $(VENV)/.tried-browser
	$(call beside,{ $(ALL); all=$$?; $(LAWS) && [ $$all = 0 ]; })

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

pytest: $(VENV)/.tried-peers
	$(FIRST)

# Of a room, a room in a room (a folder, or files with its name as a prefix), or a module at the top.
OF_ROOM = $(wildcard $(addprefix layoutalg/,$(ROOM) $(ROOM).py) tests/$(ROOM) tests/$(dir $(ROOM))test_$(notdir $(ROOM))*.py)

pytest-room: $(VENV)/.tried-peers
	@[ -n "$(OF_ROOM)" ] || { echo "there is no room $$ROOM: name a folder or a module of layoutalg/ or tests/" >&2; exit 1; }
	$(FIRST) $(OF_ROOM)

# Seven megabytes, for tests alone and without what they depend on: pycute needs nothing of nvidia-cutlass.
PEERS := $(PIP) --no-deps nvidia-cutlass==4.2.0 tensor-layouts==0.3.2

peers: $(VENV)/.installed-dev
	$(PEERS)

# The tests do without peers where they cannot be had, and say so.
$(VENV)/.tried-peers: $(VENV)/.installed-dev
	@$(PEERS) || echo "the peers cannot be installed here; tests that compare with them skip"
	@touch $@

# A browser for the tests of pages; without one those skip, and say so.
$(VENV)/.tried-browser: $(VENV)/.installed-dev
	@{ $(MAKE) $(VENV)/.installed-browser && $(PY) -m playwright install chromium; } || \
	  echo "no browser of playwright's can be installed here; tests of pages use the system's Chromium, or skip"
	@touch $@

golden: $(VENV)/.installed-dev
	$(PY) -m pytest --update-golden -k golden -m "deep or not deep"

docs: $(VENV)/.installed-docs
	$(PY) -m tests.docs.build_site site

docs-links: $(VENV)/.installed-docs
	$(PY) -m tests.docs.build_site site linkcheck

notebooks: $(VENV)/.installed-notebook
	$(PY) -m tests.docs.notebooks build/notebooks

# A tree without links stands for a checkout on a file system that has none.
dist: $(VENV)/.installed-dev
	PYTHON=$(PY) .ci/dist

bench: $(VENV)/.installed-dev
	@for script in tests/bench/bench_*.py; do $(PY) $$script || exit 1; done

# The tables of docs/measured.md, and every check that needs a GPU: about an hour.
gpu: $(VENV)/.installed-dev $(VENV)/.installed-$(GPU)
	$(PY) -m tests.gpu.everything build/gpu

clean:
	rm -rf $(VENV) build dist site *.egg-info .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# One stamp per extra: a second run installs only when pyproject.toml has changed.  A source archive holds no
# links: the two of this project are made where links can be, and where not the installation finds both folders.
$(VENV)/.installed-%: pyproject.toml | prerequisites
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing layoutalg[$*] into $(VENV): about 150 MB, some minutes the first time"
	@for part in codegen kernels; do [ -e layoutalg/$$part ] || ln -s ../$$part layoutalg/$$part 2>/dev/null \
	  || echo "no links here: layoutalg.$$part is found by the installation"; done
	@$(PY) -m compileall -q layoutalg codegen kernels tests & $(PIP) --editable ".[$*]"; done=$$?; wait; exit $$done
	@touch $@

APT := apt-get install python3 python3-venv make g++

prerequisites:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "python3 >= 3.11 is needed ('$(PYTHON)' is not): $(APT), or name one with PYTHON=..."; exit 1; } >&2
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "'$(PYTHON)' has no venv module: $(APT)"; exit 1; } >&2
	@command -v $(firstword $(CXX)) >/dev/null || \
	  echo "no C++ compiler ('$(CXX)' is not found), tests that need one skip: $(APT)" >&2
