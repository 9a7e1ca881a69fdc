# make is the only runner. On a fresh machine `make demo` and `make test` do all set-up themselves.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := standard,dev,docs,exchange,postgres,spark,studio
# Peers that benchmarks import beside us, and peers that need an environment of their own.
PEERS_INSIDE := clarabel cvxpy opendp
PEERS_OUTSIDE := autodp dp-accounting fastlmmclib gx2 prv-accountant
# The newest PyTorch that runs on the CPU alone: later ones bring gigabytes of CUDA on aarch64, too.
PEERS_TRAIN := autodp==0.2.3.1 dp-accounting==0.6.0 jax==0.10.2 jax-privacy==2.0.0 opacus==1.6.0 prv-accountant==0.2.0 pytest \
	"torch==2.6.0; platform_machine == 'aarch64'" "torch>=2.6; platform_machine != 'aarch64'"
# One more than cores, four at most: whoever drives the browser or Spark mostly waits, and each worker loads everything.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((cores < 3 ? cores + 1 : 4)))

export PYTHON
# Workers share the cores; BLAS threads on top of them only fight.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Tests start the command hundreds of times: what it imports is compiled once, whatever the caller's shell says.
export PYTHONDONTWRITEBYTECODE :=

# What has passed of a run at full sizes, of this commit.
PASSED = build/passed-$(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

INPUTS := pyproject.toml studies/pyproject.toml constraints.txt scripts/setup.sh
NATIVE := src/gaussveil/spectrum/native
USER_STAMP := $(VENV)/.installed-user
DEV_STAMP := $(VENV)/.installed-dev
PEERS_STAMP := .venv-peers/.installed
TRAIN_STAMP := .venv-peers-train/.installed

INSTALL = $(if $(wildcard $(BIN)/uv),$(BIN)/uv pip install --python,) $(1)/bin/python \
	$(if $(wildcard $(BIN)/uv),,-m pip install) -c constraints.txt

.PHONY: help native demo test tests beside test-full lint format docs package bench notebooks release numbers images components constraints clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(USER_STAMP) ## Set up, then do the whole job on a simulated town; report in out/demo.html (no root needed)
	$(BIN)/gaussveil demo --out out

# Tests often wait for a server, a browser or Spark: whoever checks beside them takes the cores meanwhile.
test: components $(DEV_STAMP) native ## Set up, then lint, types, import layers, tests, wheel and README example
	$(MAKE) --no-print-directory -j 2 tests beside

beside:
	nice -n 10 $(MAKE) --no-print-directory lint docs package

tests: $(DEV_STAMP) native
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(PYTEST)

test-full: ## The same at full sizes (takes hours; RESUME=1 leaves out what passed at this commit before)
	$(if $(RESUME),,rm -f $(PASSED))
	$(MAKE) --no-print-directory test PYTEST="--full --go-on $(PASSED) $(PYTEST)"

native: $(NATIVE)/kernel.so ## Compile the kernel beside its sources (an installation does so too)

test-peers: $(TRAIN_STAMP) ## The drop-ins in a real training run with Opacus (PyTorch on CPU) and in jax_privacy
	.venv-peers-train/bin/python -m pytest -q -s -p no:cacheprovider benchmarks/training_peers.py

lint: $(DEV_STAMP) ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_STAMP) ## Write the exports of new mechanisms, let ruff repair what it can
	$(BIN)/python scripts/write_exports.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV_STAMP) ## Build the documentation into build/docs, warnings as errors (its examples run with the tests)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

package: $(DEV_STAMP) ## Build wheel and sdist, install the wheel in an empty environment, run the README's example there
	scripts/check_wheel.sh $(VENV)

bench: $(PEERS_STAMP) ## Ratios against the peers, measured in one run; results in docs/benchmarks (BENCH=name, RESUME=1)
	scripts/davies.sh
	missed=0; $(BIN)/python benchmarks/run.py $(if $(RESUME),--resume) $(BENCH) || missed=$$?; \
	$(BIN)/python scripts/write_numbers.py --fill; exit $$missed

notebooks: $(DEV_STAMP) ## Run the pages of docs/notebooks as Jupyter notebooks and keep what they say
	$(BIN)/python scripts/write_notebooks.py

release: $(DEV_STAMP) ## What is built for a version: wheels, the same bytes twice, a bill of materials (docs/releasing.md)
	scripts/release.sh all

numbers: $(DEV_STAMP) $(if $(STUDIES),,$(PEERS_STAMP)) ## Write every figure of README and docs anew: all studies, or STUDIES="ndis computed"; MEASURE=1: benchmarks too
	$(if $(MEASURE),-$(MAKE) --no-print-directory bench)
	$(if $(MEASURE),$(BIN)/python benchmarks/bench_sizing.py --write docs/sizing.md)
	$(if $(STUDIES),,scripts/davies.sh; $(BIN)/gaussveil study peers --install-peers --tiny --out out/peers >/dev/null)
	$(BIN)/python scripts/write_numbers.py $(STUDIES)

images: $(USER_STAMP) ## Redraw the pictures of README and docs
	$(BIN)/gaussveil demo --repeatable --out out/images --picture docs/images/town.svg --curves docs/images/privacy-curves.svg
	$(BIN)/python docs/draw_pictures.py

components: ## Print each system component the suite needs and whether it is there
	@scripts/components.sh

constraints: $(DEV_STAMP) $(PEERS_STAMP) ## Pin what is installed now
	scripts/constraints.sh

clean: ## Remove environments, builds and reports
	rm -rf $(VENV) .venv-peers* build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(NATIVE)/kernel.so: hatch_build.py $(NATIVE)/kernel.c $(NATIVE)/formulas.h $(NATIVE)/proofs.h $(NATIVE)/steps.h
	-$(PYTHON) hatch_build.py

$(USER_STAMP): $(INPUTS)
	scripts/setup.sh $(VENV) standard
	touch $@

$(DEV_STAMP): $(INPUTS)
	scripts/setup.sh $(VENV) $(EXTRAS) ./studies
	touch $(USER_STAMP) $@

$(PEERS_STAMP): $(DEV_STAMP)
	$(PYTHON) -m venv .venv-peers
	$(call INSTALL,$(VENV)) $(PEERS_INSIDE)
	$(call INSTALL,.venv-peers) $(PEERS_OUTSIDE)
	$(PYTHON) -m venv .venv-peers-opendp
	.venv-peers-opendp/bin/python -m pip install --quiet "opendp[polars]==0.16.0" # its polars is older than ours
	$(PYTHON) -m venv .venv-peers-diffprivlib
	.venv-peers-diffprivlib/bin/python -m pip install --quiet diffprivlib==0.6.6 "scikit-learn<1.6" # fails with ours
	$(PYTHON) -m venv .venv-peers-synthetic
	.venv-peers-synthetic/bin/python -m pip install --quiet dpmm==0.1.9 || echo "no dpmm for this Python: MST and AIM are left out"
	touch $@

$(TRAIN_STAMP):
	$(PYTHON) -m venv .venv-peers-train
	.venv-peers-train/bin/python -m pip install --quiet . $(PEERS_TRAIN)
	touch $@
