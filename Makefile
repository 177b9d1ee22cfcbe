# Every target installs what it needs by itself: python3 (3.11 or newer) and make are enough, and java
# and mvn where a real broker takes part. Each target exits non-zero when it fails and leaves a
# machine-readable summary in build/<target>.json; there is none when what the target needs is missing.

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=
MUTANTS ?=
IMAGE ?= cursor-sidecar:dev
PYTHON_IMAGE ?= docker.io/library/python:3.13-slim-bookworm
BUILDAH ?= buildah
BUILD_OPTIONS ?=

BIN := .venv/bin
UV := build/tools/bin/uv
HELM := build/tools/bin/helm
VENV := .venv/.installed
KAFKA := build/kafka/.stamp
CHART := helm/cursor-sidecar
# Directories with typed code; one that is still to come is left out.
TYPED := $(wildcard sidecar tests tools bench examples)

# The interpreter is the one given above, never one that uv downloads.
export UV_PYTHON_DOWNLOADS := never

# A command that failed before it could write its summary leaves one all the same.
define or_say_failed
|| { code=$$?; [ -s build/$@.json ] || printf '{"ok": false, "exit": %d}\n' $$code > build/$@.json; exit $$code; }
endef

.PHONY: fresh help install demo test faults sim exhaustive mutants bench soak chart check lock fmt image clean

help: ## Print what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV) ## Make .venv with the project and everything its tests and gates need

demo: fresh $(VENV) ## Tell the story of a broken cursor, with nothing to start (DEMO=kafka: on a real broker)
ifeq ($(DEMO),kafka)
demo: $(KAFKA)
	@$(BIN)/python -m tests.benches.with_kafka -- $(BIN)/cursor-sidecar demo --bootstrap-servers {bootstrap} --summary build/demo.json $(or_say_failed)
else
	@$(BIN)/cursor-sidecar demo --summary build/demo.json $(or_say_failed)
endif

test: fresh $(VENV) $(KAFKA) ## Run every test, the ones on a real broker included (PYTEST_ARGS adds options)
	@rm -f build/test.xml
	@$(BIN)/pytest -n 2 --dist loadscope -m 'not chart and not faults_only' --junitxml=build/test.xml $(PYTEST_ARGS); code=$$?; \
	$(BIN)/python tools/junit_summary.py build/test.xml build/test.json --exit-code $$code

bench: fresh $(VENV) $(KAFKA) ## Measure speed, latency and memory on a real broker (BENCH_ARGS=--docs: fill docs/performance.md, --quick: everything once)
	@$(BIN)/python -m bench --summary build/bench.json $(BENCH_ARGS) $(or_say_failed)

chart: fresh $(VENV) $(HELM) ## Lint, render and test the Helm chart
	@$(BIN)/python tools/steps.py build/chart.json \
	  $(foreach file,$(wildcard $(CHART)/ci/*-values.yaml),'lint $(notdir $(file)): $(HELM) lint --strict $(CHART) --values $(file)') \
	  'tests: pytest -m chart --junitxml=build/chart.xml tests/chart'

check: fresh $(VENV) ## Check format, lint, types, import layers and lock files
	@$(BIN)/python tools/steps.py build/check.json \
	  'format: ruff format --check .' \
	  'lint: ruff check .' \
	  'types: mypy $(TYPED)' \
	  'imports: lint-imports --cache-dir build/import-linter' \
	  'dockerfile: hadolint Dockerfile' \
	  'locks: build/tools/bin/python tools/lock.py --check'

SEEDS ?= 5000
sim: fresh $(VENV) ## Run the seeded simulation (SEEDS=5000; one told: .venv/bin/python -m tests.simulation --seed N)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --summary build/sim.json $(or_say_failed)

exhaustive: MINUTES ?= 10
exhaustive: fresh $(VENV) ## Walk every order of a small world (MINUTES=10)
	@$(BIN)/python -m tests.simulation.exhaustive --minutes $(MINUTES) --summary build/exhaustive.json $(or_say_failed)

faults: fresh $(VENV) $(KAFKA) ## Inflict every fault of the matrix on real Kafka and Redis (ROWS='retention*': some of them)
	@$(BIN)/pytest -n 3 --dist worksteal -q -r fE --timeout 180 --faults build/faults.json --rows '$(ROWS)' $(PYTEST_ARGS) $(or_say_failed)

mutants: fresh $(VENV) $(KAFKA) ## Put deliberate faults into copies of the code: the tests must notice each (MUTANTS=pattern: some)
	@$(BIN)/python -m tests.mutants --summary build/mutants.json '$(MUTANTS)' $(or_say_failed)

soak: MINUTES ?= 30
soak: fresh $(VENV) $(KAFKA) ## Run for MINUTES=30 under load and faults, and see whether anything grows (SOAK_ARGS='--seed N')
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --summary build/soak.json $(SOAK_ARGS) $(or_say_failed)

lock: fresh build/tools/.stamp ## Compile requirements/*.txt from pyproject.toml, keeping pins (UPGRADE=1: newest)
	build/tools/bin/python tools/lock.py $(if $(UPGRADE),--upgrade)
	@printf '{"ok": true}\n' > build/lock.json

fmt: $(VENV) ## Format the code and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

image: fresh ## Build the container image with buildah (IMAGE names it, PYTHON_IMAGE is its base)
	@command -v $(firstword $(BUILDAH)) >/dev/null || { echo "make image: needs buildah (Debian: apt-get install buildah); any other builder takes the Dockerfile as it is" >&2; exit 2; }
	$(BUILDAH) bud --format docker --layers $(BUILD_OPTIONS) --build-arg PYTHON_IMAGE=$(PYTHON_IMAGE) \
	  --build-arg REVISION=$$(git rev-parse --verify --quiet HEAD || echo unknown) -t $(IMAGE) .
	@printf '{"ok": true, "image": "%s"}\n' '$(IMAGE)' > build/image.json

clean: ## Remove everything that these targets made
	rm -rf .venv build dist

# --- what the targets stand on --------------------------------------------------------------------

# First of all, so that an old summary never speaks for a run that came to nothing.
fresh:
	@mkdir -p build && rm -f $(MAKECMDGOALS:%=build/%.json)

build/tools/.stamp: requirements/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "needs Python 3.11 or newer as $(PYTHON) (make PYTHON=... names another)" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "needs Python's venv module (Debian: apt-get install python3-venv)" >&2; exit 2; }
	@$(PYTHON) -m venv build/tools
	@build/tools/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

# Two stamps, so that an edit of pyproject.toml alone reinstalls the project and nothing else.
.venv/.synced: requirements/dev.txt build/tools/.stamp
	@$(UV) venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	@touch $@

.venv/.installed: pyproject.toml sidecar/__init__.py .venv/.synced
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(KAFKA): tests/benches/pom.xml
	@command -v java >/dev/null || { echo "needs Java 17 or newer for a real broker (Debian: apt-get install openjdk-17-jre-headless)" >&2; exit 2; }
	@command -v mvn >/dev/null || { echo "needs Maven for the jars of a real broker (Debian: apt-get install maven)" >&2; exit 2; }
	@mkdir -p build/kafka && rm -rf build/kafka/libs
	mvn --batch-mode -q -f tests/benches/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/kafka/libs
	@touch $@

$(HELM): tools/helm.py build/tools/.stamp
	@build/tools/bin/python tools/helm.py build/tools/bin
	@touch $@
