# `make demo` and `make test` are all that a user needs; both make the environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECORDED := experiments/recorded-allreduce
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
# Threads of linear algebra only get in each other's way on the small matrices here.
export OPENBLAS_NUM_THREADS ?= 1
export PIP_QUIET ?= 1

.PHONY: demo test lint rust-test python-test fmt docs bench reproduce validate dist test-dist audit audit-crates audit-python live-packages toolchain clean

demo: $(BIN)/.built
	$(BIN)/hocket compat examples/two_jobs.toml
	@echo
	$(BIN)/hocket run examples/two_jobs.toml
	@echo
	$(BIN)/hocket profile $(RECORDED)/one-phase.csv $(RECORDED)/two-phases.csv --capacity "1 Gbps" --out hocket-runs/recorded.toml
	$(BIN)/hocket compat hocket-runs/recorded.toml
	@echo
	@echo "Try next:"
	@echo "  $(BIN)/hocket init"
	@echo "  $(BIN)/hocket compat examples/two_racks.toml --figure hocket-runs/circles.png"
	@echo "  $(BIN)/hocket cluster examples/cluster/snapshot.toml --scheduler themis --scheduler themis+cassini"

test: lint rust-test python-test

lint: $(BIN)/.dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/vermin --target=3.9- --quiet --violations --no-tips agent/hocket_agent
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest hocket._hocket

rust-test: toolchain
	cargo test --workspace

# Whatever failed or was skipped is named at the end, with its reason.
python-test: $(BIN)/.dev
	$(BIN)/python -m pytest -rsfE

fmt: $(BIN)/.dev
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Renews the tables of keys on the pages, and builds the pages as a site, site/html/index.html, which opens without
# a server. A broken link is an error.
docs: $(BIN)/.docs
	$(BIN)/python -m doctest docs/site/doctests.py
	$(BIN)/python docs/site/keys.py
	$(BIN)/python docs/site/build.py

# Speeds: numbers of a shared machine are noisy, compare runs made one after the other.
bench: $(BIN)/.built
	cargo bench --workspace
	$(BIN)/python benches/schedulers.py
	$(BIN)/python benches/language_model.py
	$(BIN)/python benches/profile.py
	$(BIN)/python benches/agent.py
	$(BIN)/python benches/service.py

# Every target of the papers; draws the figures, and renews docs/validation.md and the pages behind it.
reproduce: $(BIN)/.built
	$(BIN)/hocket reproduce --all --out hocket-runs/reproduce --write docs/validation.md

# Every recorded run of the ns-3 based simulator; renews its section in docs/validation/engines.md.
REFERENCE ?= ../shared/reference/ns3
validate: $(BIN)/.built
	$(BIN)/hocket validate --reference $(REFERENCE) --write docs/validation.md

# Wheels and source distributions of all three, into dist/. Linked with zig, a wheel for Linux runs on glibc 2.17, the
# oldest that Rust supports, and newer.
ifeq ($(shell uname -s),Linux)
WHEEL_PLATFORM := --zig --compatibility manylinux2014
endif
COMMIT = $(shell git describe --always --dirty --exclude='*' --abbrev=7 2>/dev/null)
dist: $(BIN)/.dist
	rm -rf dist
	$(if $(COMMIT),HOCKET_COMMIT=$(COMMIT)) PATH="$(CURDIR)/$(BIN):$$PATH" \
		$(BIN)/maturin build --release --quiet $(WHEEL_PLATFORM) --out dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/python -m build --outdir dist agent >/dev/null
	$(BIN)/python -m build --outdir dist reproduce >/dev/null
	@ls dist

# The files of `make dist` in environments that have neither Rust nor the checkout.
test-dist: $(BIN)/.dev dist
	$(BIN)/python -m pytest -vv -rsfE tests/dist

# Licences and sources of all dependencies; with ADVISORIES=1 also known vulnerabilities, which needs a network.
# deny.toml and pyproject.toml name what is allowed.
audit: audit-crates audit-python

audit-crates: toolchain
	@command -v cargo-deny >/dev/null || { echo "cargo-deny was not found: 'cargo install --locked cargo-deny' installs it." >&2; exit 1; }
	cargo deny check $(if $(ADVISORIES),advisories )bans licenses sources

audit-python: $(BIN)/.audit
	$(BIN)/pip-licenses >/dev/null
ifdef ADVISORIES
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'
	$(BIN)/pip-audit --skip-editable
endif

# What `hocket testbed` and `hocket tcp` need besides, by Debian's names; `hocket doctor` says what is missing.
LIVE_PACKAGES := clang iproute2 libbpf-dev procps python3-torch util-linux
# Another Python under which the tests of the agent run: in Debian 12 it is the oldest, 3.9.
OTHER_PYTHONS := pypy3
live-packages: PACKAGES := $(LIVE_PACKAGES) $(OTHER_PYTHONS)
live-packages:
	@if dpkg --status $(PACKAGES) >/dev/null 2>&1; then \
		echo "the live parts and the tests of the agent have all their packages"; \
	elif [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then \
		apt-get update --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $(PACKAGES); \
	else \
		echo "the live parts and the tests of the agent need these packages, which root can install where apt-get is: $(PACKAGES)" >&2; exit 1; \
	fi

toolchain:
	@command -v cargo >/dev/null || { echo "hocket needs Rust 1.88 or newer: cargo was not found; install it with rustup or your distribution." >&2; exit 1; }
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "hocket needs Python 3.11 or newer with its venv module: '$(PYTHON)' is not; name another with 'make PYTHON=...'." >&2; exit 1; }

$(BIN)/maturin: | toolchain
	@echo "1/4  making the environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'

$(BIN)/.built: $(BIN)/maturin pyproject.toml agent/pyproject.toml reproduce/pyproject.toml $(RUST_SOURCES)
	@echo "2/4  installing the agent"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable agent
	@echo "3/4  compiling the engines and installing what Python needs; the first time takes minutes, and cargo counts the crates"
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release
	@echo "4/4  installing the reproductions"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable reproduce
	@touch $@

$(BIN)/.dev: $(BIN)/.built
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release --quiet --extras dev
	@touch $@

$(BIN)/.docs: $(BIN)/.built
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release --quiet --extras docs
	@touch $@

$(BIN)/.dist: $(BIN)/maturin
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2' 'maturin[zig]>=1.9,<2'
	@touch $@

$(BIN)/.audit: $(BIN)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip-licenses>=5'
	@touch $@

clean:
	rm -rf $(VENV) dist site target hocket-runs
