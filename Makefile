# Each target sets up .venv by itself from a bare Python. `make` alone is `make check test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_HOME := $(CURDIR)/.demo
TORCH := torch==2.13.0
unexport PYTHONDONTWRITEBYTECODE # an installed program has its bytecode: without it every process compiles us anew
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
SETUP := pyproject.toml constraints.txt
OF_MATHS_WORKER := antlr4 latex2sympy2_extended math_verify mpmath sympy

.PHONY: all check lint types types-of-tests floors collected test test-all stress chaos fuzz bench demo demo-stop demo-fresh demo-checkpoint docs size clean
.DEFAULT_GOAL := all

all: check test

# Torch is pinned: where pip's configuration knows a CPU build of that version it is taken. Bytecode is written when a
# library is first imported, which is a quarter of them; only the maths worker may not write any. $(1): the extras
define install
	@echo "setting up $(VENV) for $(1) (once; half a minute, and what the downloads take)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python scripts/install.py $(TORCH) --editable '.[$(1)]'
	@$(BIN)/python -m compileall -qq -j 0 $(addprefix $(VENV)/lib/python*/site-packages/,$(OF_MATHS_WORKER)) || true # it only saves time
endef
comma := ,

$(VENV)/.run: $(SETUP)
	$(call install,daemon$(comma)engine)
	@touch $@

$(VENV)/.dev: $(SETUP)
	$(call install,daemon$(comma)engine$(comma)dev)
	@touch $(VENV)/.run $@

# the longest first, because .ci/run runs two at a time
check: types types-of-tests collected lint floors

lint: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(VENV)/.dev
	$(BIN)/mypy

types-of-tests: $(VENV)/.dev
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests tests bench kernels/bench scripts

floors: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

# every test can be imported; the bytecode stays for the processes of `make test`
collected: $(VENV)/.dev
	@said=$$($(PYTEST) -p no:syrupy --collect-only -qq 2>&1) || { echo "$$said"; false; }

# Slow parts run when their files have changed since they passed; test-all runs them all. What fails beside others runs
# once more by itself, to tell a race from a plain fault; it is red all the same.
test test-all: $(VENV)/.dev
	@$(PYTEST) -n 7 --dist worksteal $(if $(filter test-all,$@),--slow=all) || { echo "once more, by themselves, those that failed:"; \
	$(PYTEST) -v --slow=all --last-failed --last-failed-no-failures none && echo "RACES: these failed beside others and passed alone"; false; }

# the integration and console tests again and again under load: make stress ROUNDS=3 SEED=7
stress: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/stress.py --rounds $(or $(ROUNDS),10) $(if $(SEED),--seed $(SEED))

# minutes of kill -9, full disks and worse on a real node; the seed is printed: make chaos SEED=7 MINUTES=5 POSTGRES=1
chaos: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/chaos $(if $(SEED),--seed $(SEED)) $(if $(POSTGRES),--postgres) $(if $(MINUTES),--seconds $$(($(MINUTES) * 60)))

# what strangers send, nearly right, to everything that reads it; the seed is printed: make fuzz SEED=7 ROUNDS=20000
fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS))

bench: $(VENV)/.dev
	@for script in $(filter-out bench/console_%.py bench/figures.py,$(wildcard bench/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

demo: $(VENV)/.run
	@PATH="$(CURDIR)/$(BIN):$$PATH" RWKVCTL_HOME="$(DEMO_HOME)" sh scripts/demo

demo-stop:
	@RWKVCTL_HOME="$(DEMO_HOME)" sh scripts/demo-stop

demo-fresh: demo-stop
	@rm -rf "$(DEMO_HOME)"
	@$(MAKE) --no-print-directory demo

# seeded, one thread, about ten minutes; see docs/demo-checkpoint.md
demo-checkpoint: $(VENV)/.run
	OMP_NUM_THREADS=1 $(BIN)/python weights/train_builtin.py demo-checkpoint.pth --curve docs/demo-checkpoint.csv

docs: $(VENV)/.dev
	$(BIN)/rwkvctl help --markdown > docs/verbs.md
	$(BIN)/python -m rwkvctl.cli.reference.json_page > docs/json.md
	$(BIN)/python -m rwkv_data.reference.catalogue_page > docs/benchmarks.md
	$(BIN)/python -m rwkvctl.tui.keys_page > docs/keys.md

# the console's pictures in README and docs, anew from a real run; PNGs need chromium
pictures: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/pictures.py docs/pictures overview scores sample queue job

clean: demo-stop
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .stress
