# The commands of schedlab. Each target can be run again at any time and does only what is needed.
#
#   make demo    set up .venv, build, run the main job          (results in out/demo)
#   make test    set up .venv, build, run every check and test  (each part's time at the end)
#   make check   the quick ones: formats, lints, types
#   make mutations  breaks rules one by one in a copy and sees their tests fail
#   make bench   the speed of the core, one thread
#   make build   .venv with the package, its extension module and its native runner

SHELL := /bin/bash
.DEFAULT_GOAL := build

VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make
CARGO ?= cargo
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
NATIVE := python/schedlab/bin/schedlab-native

# One interpreter for every part, so that PyO3 is not rebuilt from one to the next.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export VIRTUAL_ENV := $(abspath $(VENV))

RUST_SOURCES := $(shell find crates -name target -prune -o -type f -print 2>/dev/null) \
	$(wildcard Cargo.toml Cargo.lock rust-toolchain.toml .cargo/config.toml)

# The bindings link against no libpython (they are loaded by an interpreter), so they have no Rust
# tests of their own: tests/ exercises them from Python.
CARGO_TESTED := --workspace --exclude schedlab-python

.PHONY: build venv native extension demo test check mutations bench clean \
	fmt clippy cargo-test ruff mypy stubtest pytest

build: venv native extension

# --- the environment ---------------------------------------------------------------------------

venv: $(STAMPS)/venv

$(STAMPS)/venv: requirements.lock
	@mkdir -p $(STAMPS)
	scripts/make-venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/python -m pip check
	@touch $@

# --- the native runner: static, so that the same file runs here and in any VM -------------------

native: $(NATIVE)

$(NATIVE): $(RUST_SOURCES)
	RUSTFLAGS='-C target-feature=+crt-static' $(CARGO) build --locked --release \
		--target $(HOST) -p schedlab-native --bin schedlab-native
	@mkdir -p $(@D)
	install -m 0755 $(TARGET_DIR)/$(HOST)/release/schedlab-native $@

# --- the extension module, installed with the package in editable form --------------------------

extension: $(STAMPS)/extension

$(STAMPS)/extension: $(STAMPS)/venv $(RUST_SOURCES) pyproject.toml
	$(BIN)/maturin develop --release --locked --quiet
	@touch $@

# --- what a user runs ---------------------------------------------------------------------------

demo: build
	$(BIN)/schedlab demo

# --- what a developer runs ----------------------------------------------------------------------

test:
	@scripts/run-parts venv native extension -- fmt clippy cargo-test ruff mypy stubtest pytest

check: venv
	@scripts/run-parts fmt clippy ruff mypy

fmt:
	$(CARGO) fmt --all --check

clippy: venv
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# A fixed seed, as Hypothesis has here too: the same commit passes or fails the same way everywhere. To search
# further, run `PROPTEST_CASES=100000 cargo test` without it.
cargo-test:
	PROPTEST_RNG_SEED=1 $(CARGO) test --locked $(CARGO_TESTED)

ruff: venv
	$(BIN)/ruff check python tests
	$(BIN)/ruff format --check python tests

mypy: venv
	$(BIN)/mypy

# The stub of the extension module says what the module really offers.
stubtest: extension
	$(BIN)/stubtest schedlab._core

pytest: build
	$(BIN)/pytest

# Some minutes: every row of scripts/mutations.toml.
mutations:
	scripts/mutations

bench:
	$(CARGO) bench --locked $(CARGO_TESTED)

clean:
	$(CARGO) clean
	rm -rf $(VENV) $(STAMPS) $(NATIVE) python/schedlab/_core*.so \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
