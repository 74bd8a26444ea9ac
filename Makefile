# Every target works from a fresh clone in an empty environment: it makes .venv first when that is missing or out of date.
# PYTHON=… chooses another interpreter for .venv (3.10 or newer).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SEEDS ?= 200
SECONDS ?= 60

PARTS := protocol packages/scaler-client packages/scaler-scheduler packages/scaler-worker packages/scaler-storage \
	packages/scaler-symphony conformance
DISTS := $(PARTS) .
INPUTS := VERSION constraints.txt requirements-dev.txt tools/hatch_metadata.py \
	$(foreach dist,$(DISTS),$(dist)/pyproject.toml $(dist)/hatch.toml)

# A pip of its own choosing must not ask questions, look for a newer pip, or see another project's packages.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help setup tools demo quick night test test-windows test-pythons test-macos-like release-check test-images check format docs conformance mutants ports simulate fuzz chaos bench bench-scale bench-micro soak build clean

help:  ## this list
	@echo "make TARGET, where TARGET is one of"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# As pip compiles what it installs, except editable: else, where Python is told to write none, each start compiles all of it.
BYTECODE = $(BIN)/python -m compileall -q $(addsuffix /src,$(PARTS))

setup: $(READY)  ## make .venv with every part of Scaler, editable, and the development tools
	@echo "$(VENV) is ready"

$(READY): $(INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
		echo "Scaler needs Python 3.10 or newer, and '$(PYTHON)' is not. Try: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.11" >&2; \
		exit 1; }
	@echo "setting up $(VENV) (once; a minute or so)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		rm -rf $(VENV); echo "cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		$(foreach part,$(PARTS),--editable $(part)) .
	@$(BYTECODE)
	@touch $@

# What some tests drive besides Python: a real Slurm and Prometheus, the libraries of the C++ port, a browser, hosts in
# network namespaces. Without them they are skipped.
TOOLS := slurm-wlm slurm-client munge g++ cmake pkg-config capnproto libcapnp-dev libzmq3-dev cppzmq-dev libsodium-dev \
	nlohmann-json3-dev chromium prometheus iproute2 wine wine64

tools:  ## install what some tests drive besides Python (Debian, as root); without it they are skipped, with the reason
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update --quiet --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes \
			--no-install-recommends $(TOOLS) >/dev/null && echo "installed: $(TOOLS)" \
			|| echo "could not be installed: tests that drive $(TOOLS) will be skipped"; \
	else echo "not on Debian, or not root: install yourself what you want of $(TOOLS)"; fi

# More than eight processes, each with its clusters, are in each other's way. tests/parallel.py says what they share out.
PARALLEL := -p tests.parallel --numprocesses auto --maxprocesses 8

demo: $(READY)  ## start a local cluster and index the Python standard library with it
	@$(BIN)/python -m demo

quick: $(READY)  ## while you work: tests of cores, protocol, specification and arrangement, which start no process
	@$(BIN)/python -m pytest -p tests.quick $(PARALLEL) $(ARGS)

night: $(READY)  ## all rounds that are too long for every change, one after another; hours
	@$(MAKE) --no-print-directory --keep-going test-windows test-pythons test-macos-like release-check chaos ports mutants
	@SCALER_CHAOS=1 $(BIN)/python -m pytest $(PARALLEL) tests/simulation
	@$(MAKE) --no-print-directory simulate SEEDS=2400
	@$(MAKE) --no-print-directory conformance FULL=1
	@$(MAKE) --no-print-directory fuzz ARGS=--hour

test: $(READY)  ## run all tests, in two processes for each processor
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-windows: $(READY)  ## the client's wheel in a Windows Python under Wine, against a cluster here; WHICH=ends: without protocol's own
	@SCALER_TEST_WINDOWS=$(or $(WHICH),all) $(BIN)/python -m pytest -o faulthandler_timeout=1800 tests/windows $(ARGS)

test-pythons: $(READY)  ## fast tests with every other Python that is here or can be had; WHICH=ends: the oldest and the newest
	@SCALER_TEST_PYTHONS=$(or $(WHICH),all) $(BIN)/python -m pytest -o faulthandler_timeout=4800 tests/pythons $(ARGS)

test-macos-like: $(READY)  ## tests of client and protocol without what macOS lacks: memory files, epoll, /proc, fork
	@$(BIN)/python -m pytest -p tests.macos.plugin $(PARALLEL) packages/scaler-client/tests protocol/tests $(ARGS)

release-check: $(READY)  ## every dist from its wheel, alone in an empty environment, with each Python; WHICH=each, ends, own
	@SCALER_RELEASE_CHECK=$(or $(WHICH),all) $(BIN)/python -m pytest tests/packages tests/release $(ARGS)

test-images: $(READY)  ## build the images of deploy/ with buildah and run a cluster of them (Debian, root; minutes)
	@SCALER_TEST_IMAGES=1 $(BIN)/python -m pytest -o faulthandler_timeout=1200 tests/deploy/test_images.py $(ARGS)

check: $(READY)  ## lint, formatting, strict types, and the specification's own rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python protocol/tools/spec.py check

format: $(READY)  ## rewrite the files as ruff likes them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## the documentation site, in build/docs/html
	@$(BIN)/python -m tools.site

conformance: $(READY)  ## our roles through the conformance suite, with a report; FULL=1: as long as it takes
	@$(BIN)/scaler-conformance run --manifest conformance/adapters/scaler.toml $(if $(FULL),--full) $(ARGS)

mutants: $(READY)  ## does the suite notice our roles with a wrong line? Hours; ARGS="--sequences", or "worker/CAN-*"
	@$(BIN)/python -m conformance.mutants --table $(ARGS)

ports: $(READY)  ## build the C++ and TypeScript ports, test them with ours, and run the conformance suite on them
	@$(MAKE) --no-print-directory -C conformance/ports PYTHON=$(abspath $(BIN)/python)

simulate: $(READY)  ## whole clusters under loss, partitions and crashes in virtual time; SEEDS=200
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

fuzz: $(READY)  ## hostile peers against every role and port of a real cluster; SECONDS=60, ARGS="--seed 1 FAMILY", ARGS=--hour
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

chaos: $(READY)  ## faults against every role under every kind of work; a table in docs; ARGS="--seconds 300 --seed 1"
	@$(BIN)/python -m tests.chaos $(ARGS)
	@SCALER_CHAOS=1 $(BIN)/python -m pytest -q tests/hosts

bench: $(READY)  ## every workload side by side with ProcessPoolExecutor; ARGS="--quick --peer NAME=PYTHON"
	@$(BYTECODE)
	@$(BIN)/python -m benchmarks.run $(ARGS)

bench-scale: $(READY)  ## what a task costs the scheduler with 10 to 10,000 workers; plots in build/scale; ARGS=--quick
	@$(BIN)/python -m benchmarks.scale $(ARGS)

soak: $(READY)  ## two million tasks through one cluster: nothing may stay of them; ARGS="--tasks 100000"
	@$(BIN)/python -m benchmarks.soak $(ARGS)

bench-micro: $(READY)  ## the codec and the cores, call by call
	@$(BIN)/python -m pytest --benchmark-enable --benchmark-only --benchmark-columns=median,iqr,ops,rounds

build: $(READY)  ## an sdist and a wheel of every dist, in dist/
	@rm -rf dist
	@for dist in $(DISTS); do $(BIN)/python -m build --no-isolation --outdir dist $$dist >dist.log 2>&1 \
		|| { cat dist.log >&2; rm -f dist.log; exit 1; }; rm -f dist.log; done
	@ls dist

clean:  ## remove .venv and everything that can be made again
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
