# `make demo` and `make test` do all the set-up they need.

# The newest Python that TensorFlow has wheels for, can be run and can make an environment;
# `make PYTHON=python3.12` takes another.
PYTHONS := python3.13 python3.12 python3.11
PYTHON ?= $(shell for python in $(PYTHONS); do \
  $$python -c 'import venv, ensurepip' > /dev/null 2>&1 && echo $$python && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUTPUT := demo/output
RECIPE := recipes/quickstart.flags
# Of the run that `make demo` trains and shows: hyperparameters that differ from the recipe's.
DEMO_FLAGS ?=
# Of the task that it is fine-tuned on.
DEMO_TASK_FLAGS ?=
RUN = --data-dir $(OUTPUT) --model-name quickstart --flagfile $(RECIPE) $(DEMO_FLAGS)
EVAL := --eval_tfrecords '$(OUTPUT)/eval_tfrecords/pretrain_data.tfrecord*'
WORKERS ?= 2
# In two runs, since TensorFlow keeps compiled kernels until a worker ends: half the memory.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Of `make soak`: how long faults are tried, and the seed of the first round.
SOAK_MINUTES ?= 20
SOAK_SEED ?= 1
# Of `make study`: text, tasks in the authors' layout, and whatever else it takes.
CORPUS ?= ../shared/data/corpus/novels
FINETUNING_DATA ?= ../shared/data/finetuning_data
STUDY ?=

.PHONY: demo test soak study docs lint clean

# An environment of another Python than the one that is named is made anew.
ifneq ($(wildcard $(READY)),)
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) -V 2>&1),$(shell $(BIN)/python -V 2>&1))
.PHONY: $(READY)
endif
endif
endif

$(READY): pyproject.toml setup.py
	$(if $(PYTHON),,$(error None of $(PYTHONS) runs here and has venv and ensurepip: \
	  install one, or name one with PYTHON=))
	@test "$$($(BIN)/python -V 2>&1)" = "$$($(PYTHON) -V 2>&1)" || \
	  $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check \
	  --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	mkdir -p $(OUTPUT)
	cp demo/vocab.txt $(OUTPUT)/vocab.txt
	$(BIN)/python build_pretraining_dataset.py --corpus-dir demo/corpus \
	  --vocab-file demo/vocab.txt --output-dir $(OUTPUT)/pretrain_tfrecords \
	  --max-seq-length 32 --seed 1 --overwrite
	$(BIN)/python build_pretraining_dataset.py --corpus-dir demo/corpus_heldout \
	  --vocab-file demo/vocab.txt --output-dir $(OUTPUT)/eval_tfrecords \
	  --max-seq-length 32 --seed 1 --overwrite
	rm -rf $(OUTPUT)/models/quickstart
	$(BIN)/python run_pretraining.py $(RUN) $(EVAL)
	$(BIN)/python run_pretraining.py $(RUN) $(EVAL) --do_train=false --do_eval
	$(BIN)/python show_replaced_tokens.py $(RUN) --text_file demo/sentences.txt --color
	$(BIN)/python run_finetuning.py --data-dir $(OUTPUT) --model-name quickstart \
	  --flagfile recipes/text_router.flags --overwrite $(DEMO_TASK_FLAGS)

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) tests/electra_tf; library=$$?; \
	  $(PYTEST) tests --ignore=tests/electra_tf && exit $$library

soak: $(READY)
	$(BIN)/python -m tests.faults.soak --minutes $(SOAK_MINUTES) --seed $(SOAK_SEED) --output soak

study: $(READY)
	$(BIN)/python -m benchmarks.study --corpus_dir $(CORPUS) \
	  --finetuning_data_dir $(FINETUNING_DATA) $(STUDY)

docs: $(READY)
	$(BIN)/python -m flags.reference docs/hyperparameters.md
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check \
	  --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'Documentation: site/index.html'

lint: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(OUTPUT) build site *.egg-info
