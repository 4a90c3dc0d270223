# `make demo` and `make test` are all that a user needs; both make the environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RECORDED := experiments/recorded-allreduce
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
# Threads of linear algebra only get in each other's way on the small matrices here.
export OPENBLAS_NUM_THREADS ?= 1
export PIP_QUIET ?= 1

.PHONY: demo test lint rust-test python-test fmt bench reproduce validate live-packages toolchain clean

demo: $(BIN)/.built
	$(BIN)/hocket compat examples/two_jobs.toml
	@echo
	$(BIN)/hocket run examples/two_jobs.toml
	@echo
	$(BIN)/hocket profile $(RECORDED)/one-phase.csv $(RECORDED)/two-phases.csv --link "1 Gbps" --out hocket-runs/recorded.toml
	$(BIN)/hocket compat hocket-runs/recorded.toml

test: lint rust-test python-test

lint: $(BIN)/.dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest hocket._hocket

rust-test: toolchain
	cargo test --workspace

# Whatever was skipped is named at the end, with its reason.
python-test: $(BIN)/.dev
	$(BIN)/python -m pytest -rs

fmt: $(BIN)/.dev
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Speeds: numbers of a shared machine are noisy, compare runs made one after the other.
bench: $(BIN)/.built
	cargo bench --workspace
	$(BIN)/python benches/schedulers.py
	$(BIN)/python benches/profile.py
	$(BIN)/python benches/agent.py
	$(BIN)/python benches/service.py

# Every target of the papers; renews the table in docs/validation.md and draws the figures.
reproduce: $(BIN)/.built
	$(BIN)/hocket reproduce --all --out hocket-runs/reproduce --write docs/validation.md

# Every recorded run of the ns-3 based simulator; renews its section in docs/validation.md.
REFERENCE ?= ../shared/reference/ns3
validate: $(BIN)/.built
	$(BIN)/hocket validate --reference $(REFERENCE) --write docs/validation.md

# What `hocket testbed` and `hocket tcp` need besides, by Debian's names; `hocket doctor` says what is missing.
LIVE_PACKAGES := clang iproute2 libbpf-dev procps python3-torch util-linux
live-packages:
	@if dpkg --status $(LIVE_PACKAGES) >/dev/null 2>&1; then \
		echo "the live parts have all their packages"; \
	elif [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then \
		apt-get update --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $(LIVE_PACKAGES); \
	else \
		echo "the live parts need these packages, which root can install where apt-get is: $(LIVE_PACKAGES)" >&2; exit 1; \
	fi

toolchain:
	@command -v cargo >/dev/null || { echo "hocket needs Rust 1.88 or newer: cargo was not found; install it with rustup or your distribution." >&2; exit 1; }
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "hocket needs Python 3.11 or newer with its venv module: '$(PYTHON)' is not; name another with 'make PYTHON=...'." >&2; exit 1; }

$(BIN)/maturin: | toolchain
	@echo "Making the environment in $(VENV) and building: about a minute."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'

$(BIN)/.built: $(BIN)/maturin pyproject.toml $(RUST_SOURCES)
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release --quiet
	@touch $@

$(BIN)/.dev: $(BIN)/.built
	@VIRTUAL_ENV=$(VENV) $(BIN)/maturin develop --release --quiet --extras dev
	@touch $@

clean:
	rm -rf $(VENV) target hocket-runs
