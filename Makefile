# `make help` lists the targets.
ifndef PYTHON
PYTHON := $(firstword $(foreach python,python3.11 python3.12 python3.13 python3,\
            $(shell $(python) -c 'import sys; sys.version_info >= (3, 11) and print("$(python)")' 2>/dev/null)))
endif
BIN    := .venv/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
DEMOS  ?= data/dial-turn
RUN    ?= runs/dial-turn

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-processors lint bench clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed  ## Create .venv and install everything

.venv/.installed: pyproject.toml
	test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; name it with PYTHON=..."; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e '.[train,sim,robot,dev]'
	# Its dependencies ask for numpy 1, its code does not; without it a few tests are skipped.
	-$(PIP) --no-deps 'openpi-client>=0.1.2'
	# pip would compile on one core only, and the packages' tests too
	$(BIN)/python -W ignore -m compileall -qq -j 0 -x '/tests?/' .venv/lib || true
	touch $@

demo: $(RUN)/.trained  ## Record demonstrations, train, evaluate on unseen initial states, export, check the export
	$(BIN)/python scripts/evaluate.py checkpoint=$(RUN) episodes=100 seed=1000 execute_steps=4 out=$(RUN)
	$(BIN)/python scripts/export_policy.py checkpoint=$(RUN) format=[bundle,onnx] out=$(RUN)/export

# An interrupted recording or training continues where it stopped.
$(RUN)/.trained: | .venv/.installed
	$(BIN)/python scripts/record_demos.py task=metaworld/dial-turn episodes=200 out=$(DEMOS)
	$(BIN)/python scripts/train.py $$(test -e $(RUN)/checkpoints/best.ckpt && echo resume=$(RUN) \
		|| echo experiment=metaworld_dial_turn data.path=$(DEMOS) out=$(RUN))
	touch $@

lint: setup  ## ruff, mypy, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## Lint, types and the quick tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile --timeout=200 --max-worker-restart=1

test-all: lint  ## The quick tests and the slow ones
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile --max-worker-restart=1 -m 'not gpu' \
		--hypothesis-profile=thorough

# What computes in floating point, and opens no server, browser or other slow process.
NUMERIC := model parity export checkpoints \
           $(addprefix control/,chunks safety robots test_loop.py policies/test_onnx_policy.py)

# On a processor without AVX-512 `make test` has run with AVX2 already.
INSTRUCTIONS ?= $(if $(shell grep -m1 avx512f /proc/cpuinfo),avx2) default

test-processors: setup  ## The numeric tests as on processors with AVX2, and with less
	for instructions in $(INSTRUCTIONS); do \
		ATEN_CPU_CAPABILITY=$$instructions DNNL_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=1 \
			$(BIN)/pytest -n auto --dist loadfile --timeout=200 --max-worker-restart=1 \
			$(addprefix tests/,$(NUMERIC)) || exit 1; done

bench: setup  ## Measure training, inference, rollouts and serving (PEER=python: LeRobot's too)
	for suite in train infer rollout serve; do \
		$(BIN)/python scripts/benchmark.py measure=$$suite $(if $(PEER),peer=$(PEER)) || exit 1; done

clean:  ## Remove caches (never data or runs)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find act_policy scripts tests -name __pycache__ -type d -exec rm -rf {} +
