# Two commands on a fresh machine:
#   make demo   replay a sample log and write a report
#   make test   everything that CI checks
PYTHON ?= python3
TORCH_VERSION := 2.13.0
VENV := .venv
BIN := $(VENV)/bin
WORKERS := 9
# Tests start thousands of Pythons, which would all compile what they import.
unexport PYTHONDONTWRITEBYTECODE
REPLAYS := $(VENV)/.replays
STAMP := $(VENV)/.installed

.PHONY: demo test lint unit docs test-slurm programs frameworks soak chaos sbom gpu-check bench bench-elastic bench-live clean

demo: $(REPLAYS)
	@mkdir -p demo
	$(BIN)/freetrain replay sample_logs/small-cluster.sacct.gz --trainers preset:mix \
		--report demo/report.html --store demo/freetrain.db

# Most tests wait for a real Slurm, so the other checks run beside them.
test:
	@$(MAKE) --no-print-directory -j2 lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Most tests of a real Slurm wait for it, so there are more workers than cores; each has one lab, and some tests another.
# WORKERS=0 runs all tests one after the other. Some tests call make, which is not to hear of this one's -j2.
unit: $(STAMP) programs
	@# What tests import is not compiled yet: each worker would do it for itself.
	@$(BIN)/pytest --collect-only -qq -m "not soak" > /dev/null || true
	MAKEFLAGS= $(BIN)/pytest -m "not soak" -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Those alone that need a real Slurm. PATH=/path/to/slurm/sbin:/path/to/slurm/bin:$$PATH tests another than the installed.
test-slurm: $(STAMP) programs
	$(BIN)/pytest -m slurm -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# The documentation as a site, into build/site; index.html opens without a server.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

programs:
	@tests/install_programs.sh

# Lightning, Hugging Face's Trainer and accelerate in restart mode. Not in 'make test': they add 140 MB, and each of their
# processes takes six seconds of a core to import. Once they are installed 'make test' runs these tests, too.
frameworks: $(STAMP)
	$(BIN)/pip install --quiet --no-compile --editable '.[frameworks]'
	$(BIN)/pytest tests/elastic/test_frameworks.py

# A quarter of an hour: an elastic training through 200 random changes (SOAK_SEED=7 draws others), and thousands of
# decision problems more against the oracles.
soak: $(STAMP) programs
	$(BIN)/pytest -m soak -s

# An hour, as root: whatever can fail at a site fails every few seconds, with each way to start fragments; then the
# same without freetrain, to see what the site's jobs wait. CHAOS_SEED=7 draws other faults.
CHAOS_SEED := 1
chaos: $(STAMP) programs
	$(BIN)/python -m tests.chaos --seconds 1200 --seed $(CHAOS_SEED) --launcher steer
	$(BIN)/python -m tests.chaos --seconds 1200 --seed $(CHAOS_SEED) --launcher submit
	$(BIN)/python -m tests.chaos --seconds 1200 --seed $(CHAOS_SEED) --without

# What an installation consists of, as CycloneDX, in build/sbom.json. Needs a package index.
sbom: $(STAMP)
	@mkdir -p build
	$(PYTHON) -m venv build/sbom-tools
	build/sbom-tools/bin/pip install --quiet cyclonedx-bom
	build/sbom-tools/bin/cyclonedx-py environment $(BIN)/python --output-file build/sbom.json

# Ten minutes on a machine with a GPU or more: what of the elastic runtime can be tried there, in a table. Without one
# it says so and ends with 2.
gpu-check: $(STAMP)
	$(BIN)/python -m freetrain.elastic.gpu_check

bench: $(STAMP)
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.solve --json benchmarks/results/solve.json
	$(BIN)/python -m benchmarks.ends --json benchmarks/results/ends.json
	$(BIN)/python -m benchmarks.replay --json benchmarks/results/replay.json
	$(BIN)/python -m benchmarks.reading --json benchmarks/results/reading.json
	$(BIN)/python -m benchmarks.cycle --no-lab --json benchmarks/results/cycle.json
	$(BIN)/python -m benchmarks.queue

# 20 to 25 minutes, of a machine that does nothing else; BENCH_ELASTIC='--only pauses' runs a part.
bench-elastic: $(STAMP)
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.elastic --json benchmarks/results/elastic.json $(BENCH_ELASTIC)

# An hour and a half, as root: two virtual sites side by side, with freetrain and without.
bench-live: $(STAMP)
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.live --json benchmarks/results/live-5.json
	$(BIN)/python -m benchmarks.live --behind --bf-interval 30 --json benchmarks/results/live-30.json
	$(BIN)/python -m benchmarks.live.reaction
	$(BIN)/python -m benchmarks.live.shadow

clean:
	rm -rf $(VENV) .venv-python demo benchmarks/results build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "freetrain needs Python 3.11 or newer: say which with 'make PYTHON=/path/to/python3.11'"; exit 1; }
	$$(tests/find_python.sh $(PYTHON)) -m venv $(VENV)

# All that a replay and its report need; PyTorch alone is larger.
$(REPLAYS): setup.cfg pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --editable '.[report]'
	@touch $@

# Compiled is what tests import, when they first do: a fifth of the files.
$(STAMP): setup.cfg pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --no-compile torch==$(TORCH_VERSION) --editable '.[dev]'
	@touch $(REPLAYS) $@
