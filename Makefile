# The commands of schedlab. Each target can be run again at any time and does only what is needed.
#
#   make demo    set up .venv, build, run the main job          (results in out/demo; DEMO=--quick: its quick size)
#   make test    set up .venv, build, run every check and test  (each part's time and what was skipped at the end)
#   make wheel   a wheel for other machines and an sdist        (in dist)
#   make check   the quick ones: formats, lints, types
#   make mutations  breaks rules one by one in a copy and sees their tests fail
#   make bench   the speed of the core, one thread
#   make docs    generated pages and pictures made anew, and the documentation as a site (out/site/index.html)
#   make fidelity-decisions   our rules against real kernels' decisions, in guests (results in docs/results/fidelity.md)
#   make fidelity-behaviour   simulated runs against real ones, in guests (results in docs/results/fidelity-behaviour.md)
#   make fidelity-prediction  simulated rankings of settings against real ones (docs/results/fidelity-prediction.md)
#   make check-prediction     the part of both that takes five minutes
#   make fidelity-held-out    workloads drawn at random, simulated and run (docs/results/prediction.md)
#   make tuning-benchmark     searches for a setting, compared by the real runs that they need (docs/results/tuning.md)
#   make fidelity-what-if     what-if predictions from recordings against what was really done (docs/results/fidelity-what-if.md)
#   make live    the live page: the simulator in a browser       (opened by schedlab live)
#   make build   .venv with the package, its extension module, its native runner and, where libelf and zlib are
#                installed, the loader of its sched_ext scheduler

SHELL := /bin/bash
.DEFAULT_GOAL := build

VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make
CARGO ?= cargo
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
NATIVE := python/schedlab/bin/schedlab-native
EXT := python/schedlab/bin/schedlab-ext

# A fresh machine builds once: what serves the next build of a changed crate only fills its disk.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

# One interpreter for every part, so that PyO3 is not rebuilt from one to the next.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export VIRTUAL_ENV := $(abspath $(VENV))

RUST_SOURCES := $(shell find crates -name target -prune -o -type f -print 2>/dev/null) \
	$(wildcard Cargo.toml Cargo.lock rust-toolchain.toml .cargo/config.toml)

# The loader of the sched_ext scheduler links libelf and zlib in: where their archives and headers are not installed, it
# is left out, with a message.
EXT_NEEDS := $(strip \
	$(foreach archive,libelf.a libz.a,$(if $(filter /%,$(shell $(CC) -print-file-name=$(archive))),,$(archive))) \
	$(foreach program,$(CC) make pkg-config,$(if $(shell command -v $(program)),,$(program))))
ifneq ($(EXT_NEEDS),)
CARGO_BUILT := --exclude schedlab-ext
endif
# Where cargo finds the archives to link in.
export LIBBPF_SYS_LIBRARY_PATH := $(patsubst %/,%,$(dir $(shell $(CC) -print-file-name=libelf.a)))

# The bindings link against no libpython (they are loaded by an interpreter), so they have no Rust
# tests of their own: tests/ exercises them from Python.
CARGO_TESTED := --workspace --exclude schedlab-python $(CARGO_BUILT)

.PHONY: docs site style check-prediction check-rankings check-drawn fidelity-held-out fidelity-what-if tuning-benchmark tuning-page guest-kernels build build-packages test-packages wheel live venv builds native ext ext-object extension demo test check mutations bench clean \
	fmt clippy test-programs cargo-test ruff mypy stubtest pytest pytest-simulated pytest-real

build: venv native ext extension

# --- what the system has to have -----------------------------------------------------------------

# What is missing is installed with CI=true, asked for on a terminal, and named otherwise. Each command that starts with it goes
# on in a make of its own, which finds what was installed.
build-packages:
	@scripts/rust-toolchain
	@scripts/debian-packages build

# The tests record this machine's kernel through tracefs, which a new machine may have to mount.
test-packages:
	@scripts/rust-toolchain clippy rustfmt
	@scripts/debian-packages build test
	@[ "$$CI" != true ] || scripts/unpack-packages
	@[ "$$CI" != true ] || [ -d /sys/kernel/tracing/instances ] || [ "$$(id -u)" != 0 ] || \
		mount -t tracefs tracefs /sys/kernel/tracing || true

# --- the environment ---------------------------------------------------------------------------

venv: $(STAMPS)/venv

$(STAMPS)/venv: requirements.lock
	@mkdir -p $(STAMPS)
	scripts/make-venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		-r requirements.lock
	$(BIN)/python -m pip check
	@touch $@

# What scripts/backend.py asks for comes first.
STATIC := $(strip $(RUSTFLAGS) -C target-feature=+crt-static -C strip=symbols)

# --- the native runner: static, so that the same file runs here and in any VM -------------------

native: $(NATIVE)

$(NATIVE): $(RUST_SOURCES)
	RUSTFLAGS='$(STATIC)' $(CARGO) build --locked --release \
		--target $(HOST) -p schedlab-native --bin schedlab-native
	@mkdir -p $(@D)
	install -m 0755 $(TARGET_DIR)/$(HOST)/release/schedlab-native $@

# --- the loader of the sched_ext scheduler, static for the same reason ---------------------------

ifeq ($(EXT_NEEDS),)
ext: $(EXT)
else
ext:
	@echo "the sched_ext scheduler's loader is not built without $(EXT_NEEDS); everything else works." \
		"apt-get install libelf-dev zlib1g-dev pkg-config" >&2
endif

$(EXT): $(RUST_SOURCES)
	RUSTFLAGS='$(STATIC)' $(CARGO) build --locked --release \
		--target $(HOST) -p schedlab-ext --features static --bin schedlab-ext
	@mkdir -p $(@D)
	install -m 0755 $(TARGET_DIR)/$(HOST)/release/schedlab-ext $@

# What runs in the kernel is committed as an object, so that no compiler is needed for it. With clang 19 this makes it
# anew from crates/ext/bpf.
ext-object:
	scripts/build-ext-object crates/ext/bpf/thread_fair.bpf.o

# --- the extension module, installed with the package in editable form --------------------------

extension: $(STAMPS)/extension

$(STAMPS)/extension: $(STAMPS)/venv $(RUST_SOURCES) pyproject.toml
	$(BIN)/maturin develop --release --locked --quiet
	@touch $@

# --- the live page: the simulator as WebAssembly, in one HTML file ----------------------------------

# Where neither the target nor Debian's compiler is available, build-web says so in a line and ends with 3; everything else works.
PAGE := python/schedlab/live/page.html
WEB := $(STAMPS)/web.wasm

live:
	@mkdir -p $(STAMPS)
	@scripts/build-web $(WEB) || [ $$? = 3 ]
	@[ ! -s $(WEB) ] || $(firstword $(wildcard $(BIN)/python) python3) scripts/bundle-page $(WEB) $(PAGE)

# --- what a user runs ---------------------------------------------------------------------------

demo: build-packages
	@$(MAKE) --no-print-directory build
	$(BIN)/schedlab demo $(DEMO)

# --- what is handed on ---------------------------------------------------------------------------

wheel: build-packages venv
	@scripts/make-wheel

# --- what a developer runs ----------------------------------------------------------------------

test:
	@scripts/run-parts test-packages venv builds -- fmt ruff "pytest-simulated|clippy,test-programs,mypy,stubtest,style,site" \
		cargo-test pytest-real

# One at a time they leave a CPU idle: linking for release goes on in one thread.
builds: venv
	@$(MAKE) --no-print-directory -j2 --output-sync=target native ext extension live

check: venv
	@scripts/run-parts fmt clippy ruff mypy style

fmt:
	$(CARGO) fmt --all --check

clippy: venv
	$(CARGO) clippy --locked --workspace $(CARGO_BUILT) --all-targets -- -D warnings

# Built with debug assertions, by which the fast path's look-ups without bounds (`known!`) are checked. A fixed seed, as
# Hypothesis has here too: the same commit passes or fails the same way everywhere. To search
# further, run `PROPTEST_CASES=100000 cargo test` without it.
cargo-test:
	PROPTEST_RNG_SEED=1 $(CARGO) test --locked --no-fail-fast $(CARGO_TESTED)

# Compiled beside tests that this does not disturb.
test-programs:
	$(CARGO) test --locked --no-run $(CARGO_TESTED)

ruff: venv
	$(BIN)/ruff check python tools tests examples
	$(BIN)/ruff format --check python tools tests examples

mypy: venv
	$(BIN)/mypy

# The stub of the extension module says what the module really offers.
stubtest: extension
	$(BIN)/stubtest schedlab._core

pytest: build
	rm -f $(STAMPS)/skipped
	$(BIN)/pytest

# What simulates, or asks a guest for what no other work changes; and all else, which measures this machine and runs alone.
SIMULATED := $(addprefix tests/,corpus design experiment regression search store studies tuning tuning_benchmark test_corpus.py \
	test_mutations.py)

pytest-simulated: build
	$(BIN)/pytest $(SIMULATED)

pytest-real: build
	$(BIN)/pytest $(addprefix --ignore=,$(SIMULATED))

# Private words and over-long pages in what people read.
style:
	scripts/style

# The documentation as a site; any broken link or reference fails.
site: venv
	$(BIN)/sphinx-build -W --keep-going -q -j auto -d out/site-cache docs out/site

docs: build
	scripts/reference
	scripts/papers
	scripts/pictures
	@$(MAKE) --no-print-directory site
	@echo "out/site/index.html"

# An hour on two CPUs: every row of scripts/mutations.toml. Interrupted, it goes on with what is left.
mutations:
	scripts/mutations

# The kernels that guests run, fetched once into the cache.
KERNELS := 5.10 6.1 6.12 6.18 7.2 7.3
guest-kernels: build
	@for kernel in $(KERNELS); do $(BIN)/schedlab kernels get $$kernel || exit 1; done

# Records every scenario of the file on real kernels in guests, replays, judges, and writes the page.
fidelity-decisions: guest-kernels
	PYTHONPATH=tools $(BIN)/python -m fidelity validation/decisions.toml --directory out/fidelity --page docs/results/fidelity.md
	scripts/pictures fidelity

# Simulated runs against real ones, and simulated rankings of settings against real ones, in guests whose clock counts
# instructions and on this machine. Hours; what ran is kept in out/fidelity, so that an interrupted run goes on where it stopped.
BEHAVIOUR := -m fidelity.behaviour validation/behaviour.toml --noise validation/behaviour-noise.toml
PREDICTION := -m fidelity.prediction validation/prediction.toml
SEVERAL_CPUS := --place vm:6.12:cpus=2 --place vm:6.12:cpus=4 --place vm:6.12:cpus=8

fidelity-behaviour: guest-kernels
	PYTHONPATH=tools $(BIN)/python $(BEHAVIOUR) --directory out/fidelity/behaviour --fix
	PYTHONPATH=tools $(BIN)/python $(BEHAVIOUR) --directory out/fidelity/behaviour --page docs/results/fidelity-behaviour.md

fidelity-prediction: guest-kernels
	PYTHONPATH=tools $(BIN)/python $(PREDICTION) --directory out/fidelity/prediction --place vm:6.1 --place vm:6.12 --place host \
		--page docs/results/fidelity-prediction.md
	PYTHONPATH=tools $(BIN)/python $(PREDICTION) --directory out/fidelity/prediction $(SEVERAL_CPUS) \
		--page docs/results/fidelity-prediction-several-cpus.md

# Searches compared by real runs: tables of all settings in guests and on this machine, hours and resumable, then every search on each.
# The tables that there are stand in validation/tuning; `make tuning-page` runs the searches on these alone, for an hour.
TUNING := PYTHONPATH=tools $(BIN)/python -m tuning_benchmark validation/tuning.toml --trials out/tuning --page docs/results/tuning.md

tuning-benchmark: guest-kernels
	$(TUNING) --directory validation/tuning

tuning-page: build
	$(TUNING) --directory validation/tuning --kept

# Workloads whose seeds follow from the commit, and real programs. Hours; what ran is kept in out/fidelity.
fidelity-held-out: guest-kernels
	@scripts/debian-packages test programs
	PYTHONPATH=tools $(BIN)/python -m fidelity.programs validation/programs.toml --directory out/fidelity/programs
	PYTHONPATH=tools $(BIN)/python -m fidelity.held_out validation/held-out.toml --directory out/fidelity/held-out \
		--judge HEAD --programs out/fidelity/programs --page docs/results/prediction.md

# The part of both that takes five minutes, always anew, and workloads drawn for this commit.
check-prediction: KERNELS := 6.1
check-prediction: guest-kernels
	rm -rf out/fidelity/check out/fidelity/check-drawn
	PYTHONPATH=tools $(BIN)/python $(BEHAVIOUR) --directory out/fidelity/check --calibrations 1 --quick --place vm:6.1 --workload pi --workload schbench
	cp -R out/fidelity/check out/fidelity/check-drawn
	@# Side by side, with the same costs: what counts instructions is not disturbed.
	@$(MAKE) --no-print-directory -j2 check-rankings check-drawn

check-rankings:
	PYTHONPATH=tools $(BIN)/python $(PREDICTION) --directory out/fidelity/check --calibrations 1 --quick --place vm:6.1 --workload interactive --repeats 2 --every 2

check-drawn:
	PYTHONPATH=tools $(BIN)/python -m fidelity.held_out validation/held-out.toml --directory out/fidelity/check-drawn --calibrations 1 --quick \
		--place vm:6.1 --count 2 --runs 2 --without hackbench --judge HEAD --refuted 0.01

WHAT_IF := -m fidelity.whatif validation/what-if.toml --noise validation/what-if-noise.toml --directory out/fidelity-what-if

# Records workloads on real kernels in guests, predicts what other settings would make of them, really sets those, and judges. What was
# recorded is kept, so that it goes on where it was interrupted.
fidelity-what-if: guest-kernels
	PYTHONPATH=tools $(BIN)/python $(WHAT_IF) --place vm:6.1 --place vm:6.12 --page docs/results/fidelity-what-if.md
	PYTHONPATH=tools $(BIN)/python $(WHAT_IF) $(SEVERAL_CPUS) --page docs/results/fidelity-what-if-several-cpus.md

bench:
	$(CARGO) bench --locked $(CARGO_TESTED)

clean:
	$(CARGO) clean
	rm -rf $(VENV) $(STAMPS) $(NATIVE) $(EXT) python/schedlab/_core*.so \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
