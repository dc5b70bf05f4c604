# `make demo` and `make test` do all the set-up they need. They install the versions that
# requirements/ locks, and check their hashes.

# The newest Python that TensorFlow has wheels for, can be run and can make an environment;
# `make PYTHON=python3.12` takes another.
PYTHONS := python3.13 python3.12 python3.11
PYTHON ?= $(shell for python in $(PYTHONS); do \
  $$python -c 'import venv, ensurepip' > /dev/null 2>&1 && echo $$python && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# `make LOCK=` installs the newest versions that pyproject.toml allows instead, for platforms
# without wheels of the locked ones.
LOCK ?= requirements/dev.txt
PIP_INSTALL := PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check
# A lock lists all dependencies. What has no wheel is built by the locked setuptools.
HASHED := --require-hashes --no-deps --no-build-isolation
# Of `make lock`: nothing keeps the locked versions that still fit; --upgrade takes newer ones,
# and --upgrade-package=NAME of one package.
UPGRADE ?=
# Programs of maintainers, which the tests do not need.
TOOLS ?= .venv-tools
OUTPUT := demo/output
RECIPE := recipes/quickstart.flags
# Of the run that `make demo` trains and shows: hyperparameters that differ from the recipe's.
DEMO_FLAGS ?=
# Of the task that it is fine-tuned on.
DEMO_TASK_FLAGS ?=
RUN = --data-dir $(OUTPUT) --model-name quickstart --flagfile $(RECIPE) $(DEMO_FLAGS)
MODEL := $(OUTPUT)/models/quickstart
TASK = --data-dir $(OUTPUT) --model-name quickstart --flagfile recipes/topics.flags --overwrite \
  $(DEMO_TASK_FLAGS)
EVAL := --eval_tfrecords '$(OUTPUT)/eval_tfrecords/pretrain_data.tfrecord*'
# One more than two cores: tests wait for programs that they start, and for the network's timeouts.
WORKERS ?= 3
# In two runs, since TensorFlow keeps compiled kernels until a worker ends: half the memory.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Of `make soak`: how long faults are tried, and the seed of the first round.
SOAK_MINUTES ?= 20
SOAK_SEED ?= 1
# `make soak FUZZ_LOCK=requirements/fuzz.txt` installs Atheris, whose inputs are guided by the
# branches that they reach; it has wheels for Linux (x86_64) only.
FUZZ_LOCK ?=
# Of `make mutants`: arguments of tests/mutation/run.py.
MUTANTS ?=
# Of `make coverage`: the tests that are run.
COVERED ?= tests
# Of `make sbom`: the folder that it writes to.
SBOM ?= build/sbom
# Of `make study`: text, tasks in the authors' layout, and whatever else it takes.
CORPUS ?= ../shared/data/corpus/novels
FINETUNING_DATA ?= ../shared/data/finetuning_data
STUDY ?=

.PHONY: demo test soak mutants coverage study docs lint lock audit sbom clean

# An environment of another Python than the one that is named is made anew.
ifneq ($(wildcard $(READY)),)
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) -V 2>&1),$(shell $(BIN)/python -V 2>&1))
.PHONY: $(READY)
endif
endif
endif

$(READY): pyproject.toml setup.py $(if $(LOCK),requirements/build.txt $(LOCK))
	$(if $(PYTHON),,$(error None of $(PYTHONS) runs here and has venv and ensurepip: \
	  install one, or name one with PYTHON=))
	@test "$$($(BIN)/python -V 2>&1)" = "$$($(PYTHON) -V 2>&1)" || \
	  $(PYTHON) -m venv --clear $(VENV)
ifeq ($(LOCK),)
	$(PIP_INSTALL) --upgrade pip
	$(PIP_INSTALL) --editable '.[dev]'
else
	$(PIP_INSTALL) --require-hashes -r requirements/build.txt
	@$(PIP_INSTALL) $(HASHED) -r $(LOCK) || { echo "$$LOCK_FAILED" >&2; exit 1; }
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
endif
	touch $(READY)

define LOCK_FAILED

$(LOCK) could not be installed. It is for Python 3.11 to 3.13 on Linux (x86_64 and
aarch64, glibc 2.28 or newer) and macOS 14 or newer (arm64). Elsewhere, if a package above has
"no matching distribution", try the newest versions that pyproject.toml allows, without hashes:

  make $(MAKECMDGOALS) LOCK=

If the hashes do not match, the file is not the one that was locked: do not install it.
endef
export LOCK_FAILED

demo: $(READY)
	mkdir -p $(OUTPUT)
	$(BIN)/python build_vocabulary.py --corpus-dir demo/factbook/corpus --vocab-size 4096 \
	  --output-file $(OUTPUT)/vocab.txt --overwrite
	$(BIN)/python build_pretraining_dataset.py --corpus-dir demo/factbook/corpus \
	  --vocab-file $(OUTPUT)/vocab.txt --output-dir $(OUTPUT)/pretrain_tfrecords \
	  --max-seq-length 32 --seed 1 --overwrite
	$(BIN)/python build_pretraining_dataset.py --corpus-dir demo/factbook/corpus_heldout \
	  --vocab-file $(OUTPUT)/vocab.txt --output-dir $(OUTPUT)/eval_tfrecords \
	  --max-seq-length 32 --seed 1 --overwrite
	rm -rf $(MODEL)
	$(BIN)/python run_pretraining.py $(RUN) $(EVAL)
	$(BIN)/python show_replaced_tokens.py $(RUN) --text_file demo/sentences.txt --color
	$(BIN)/python run_finetuning.py $(TASK) --results_dir $(MODEL)/results/pretrained
	$(BIN)/python run_finetuning.py $(TASK) --results_dir $(MODEL)/results/random \
	  --init_checkpoint random --model_dir $(MODEL)/finetuning_models/random
	$(BIN)/python report.py $(MODEL) $(MODEL)/results/pretrained $(MODEL)/results/random \
	  --output $(OUTPUT)/report.html > /dev/null
	@echo
	@$(BIN)/python compare_results.py --names 'pre-trained,random weights' \
	  --results $(MODEL)/results/pretrained,$(MODEL)/results/random
	@echo
	@echo 'Report: $(OUTPUT)/report.html'

# Where PYTHONDONTWRITEBYTECODE is set, every program that a test starts would compile our files.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) tests/electra_tf; library=$$?; \
	  $(PYTEST) tests --ignore=tests/electra_tf && exit $$library

soak: $(READY)
	$(if $(FUZZ_LOCK),$(PIP_INSTALL) $(HASHED) -r $(FUZZ_LOCK))
	$(BIN)/python -m tests.faults.soak --minutes $(SOAK_MINUTES) --seed $(SOAK_SEED) --output soak

mutants: $(READY) $(TOOLS)/.ready
	$(TOOLS)/bin/python -m tests.mutation.run --python $(BIN)/python $(MUTANTS)

# Branches, and lines that no test runs.
coverage: $(READY)
	$(PYTEST) --cov --cov-report term-missing:skip-covered $(COVERED)

study: $(READY)
	$(BIN)/python -m benchmarks.study --corpus_dir $(CORPUS) \
	  --finetuning_data_dir $(FINETUNING_DATA) $(STUDY)

docs: $(READY)
	$(BIN)/python -m flags.reference docs/hyperparameters.md
	$(PIP_INSTALL) $(if $(LOCK),$(HASHED) -r requirements/docs.txt,--editable '.[docs]')
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'Documentation: site/index.html'

lint: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(TOOLS)/.ready: requirements/build.txt requirements/tools.txt
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements/build.txt
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check \
	  $(HASHED) -r requirements/tools.txt
	touch $@

# From the lowest Python, with markers for newer ones; the images have versions of dev.txt.
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --custom-compile-command 'make lock' $(UPGRADE)
DOCKER_EXTRAS := --extra serving --extra scoring --extra demo --extra corpus
AND_DEV := --constraint requirements/dev.txt

lock: $(TOOLS)/.ready
	$(COMPILE) requirements/build.in --output-file requirements/build.txt
	$(COMPILE) pyproject.toml --extra dev --constraint requirements/constraints.in \
	  --constraint requirements/build.txt --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --extra docs $(AND_DEV) --output-file requirements/docs.txt
	$(COMPILE) pyproject.toml $(DOCKER_EXTRAS) $(AND_DEV) \
	  --output-file requirements/docker.txt
	$(COMPILE) pyproject.toml --extra gpu $(DOCKER_EXTRAS) $(AND_DEV) \
	  --output-file requirements/docker-gpu.txt
	$(COMPILE) requirements/tools.in --output-file requirements/tools.txt
	$(COMPILE) requirements/fuzz.in --output-file requirements/fuzz.txt

# Known vulnerabilities of the locked versions, from PyPI's advisories. It fails, too, where
# these cannot be read.
audit: $(TOOLS)/.ready
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off \
	  $(addprefix --requirement requirements/,build.txt dev.txt docs.txt docker-gpu.txt fuzz.txt)

# A bill of materials (CycloneDX, JSON) of each lock that users install.
sbom: $(TOOLS)/.ready
	mkdir -p $(SBOM)
	for lock in dev docker docker-gpu; do \
	  $(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml \
	    --mc-type application --output-reproducible --output-file $(SBOM)/$$lock.cdx.json \
	    requirements/$$lock.txt || exit 1; \
	done
	@echo 'Bills of materials: $(SBOM)'

clean:
	rm -rf $(VENV) $(TOOLS) $(OUTPUT) build site *.egg-info
