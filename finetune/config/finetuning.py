"""Every hyperparameter of fine-tuning, as one frozen dataclass under the authors' names.

No TensorFlow is imported here. Each field carries its help text, and `flags/` makes one
command-line flag of each.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import TPU, DistributionConfig, distribution_defaults
from electra_tf.config.encoder import MODEL_SIZES, EncoderConfig, encoder_config
from electra_tf.config.hyperparameters import OPTIMIZERS, PRECISIONS, hyperparameter
from electra_tf.util.errors import UserError
from finetune.config import defaults
from finetune.config.checks import check_finetuning


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningConfig(DistributionConfig):
    """Every hyperparameter of a fine-tuning run.

    Build instances with `FinetuningConfig.create`: it fills in paths and the defaults that
    depend on task and model size, and checks all values.
    """

    model_name: str = hyperparameter("", "Name of the pre-trained model, in DATA_DIR/models.")
    data_dir: str = hyperparameter(
        "", "Folder of models/, finetuning_data/ and the vocabulary."
    )
    debug: bool = hyperparameter(
        False, "A few steps on few examples, to see whether a command works."
    )
    log_examples: bool = hyperparameter(False, "Print the features of the first examples.")
    num_trials: int = hyperparameter(
        1, "Runs with different seeds; metrics are also summed up."
    )
    do_train: bool = hyperparameter(True, "Fine-tune.")
    do_eval: bool = hyperparameter(True, "Evaluate on the dev set.")
    do_predict: bool = hyperparameter(
        False, "Predict the file --predict_file, which has no labels."
    )
    keep_all_models: bool = hyperparameter(
        True, "Keep the models of all trials, not only the last."
    )

    task_names: Sequence[str] = hyperparameter(
        ("chunk",), "Tasks to train together, separated by commas, or a JSON list."
    )
    task_spec: str | None = hyperparameter(
        None, "JSON file (or inline JSON) that describes tasks of your own; see README."
    )
    own_task_kind: str | None = hyperparameter(
        None,
        "A task of your own without a spec file: its kind.",
        ("classification", "multilabel", "regression", "tagging", "qa"),
    )
    own_task_files: str | None = hyperparameter(
        None, "Its files, such as train=a.tsv,dev=b.tsv."
    )
    own_task_columns: str | None = hyperparameter(
        None, "Its columns by name or index, such as text=review,label=1."
    )
    own_task_labels: str | None = hyperparameter(
        None, "Its labels, a,b; those of train if unset."
    )
    own_task_label_separator: str | None = hyperparameter(
        None, "Between the labels of a cell; ','."
    )
    own_task_metric: str | None = hyperparameter(None, "Its main metric; the kind's if unset.")
    own_task_format: str | None = hyperparameter(
        None,
        "Format of its files; that of their extension if unset.",
        ("tsv", "csv", "jsonl", "conll", "squad", "mrqa"),
    )
    own_task_header: bool | None = hyperparameter(
        None, "Whether tsv and csv have a header; true."
    )
    own_task_min_label: float | None = hyperparameter(None, "Least label of a regression.")
    own_task_max_label: float | None = hyperparameter(None, "Greatest label of a regression.")
    own_task_dev_fraction: float | None = hyperparameter(
        None, "Share of train held out as dev where there is no dev file; 0.1."
    )
    own_task_level: str | None = hyperparameter(
        None, "What tagging counts; span.", ("span", "token")
    )
    own_task_unanswerable: bool | None = hyperparameter(
        None, "Whether questions may have no answer; found in train if unset."
    )

    model_size: str | None = hyperparameter(
        None, "Size of the encoder; that of the checkpoint if unset.", tuple(MODEL_SIZES)
    )
    model_hparam_overrides: Mapping[str, Any] = hyperparameter(
        None, "JSON object that overrides the size; that of the checkpoint if unset."
    )
    embedding_size: int | None = hyperparameter(
        None, "Width of the embeddings, if not the size's."
    )
    vocab_size: int | None = hyperparameter(
        None, "Entries of the vocabulary; counted if unset."
    )
    do_lower_case: bool | None = hyperparameter(
        None, "Lower-case; as in pre-training if unset."
    )
    strip_accents: bool | None = hyperparameter(
        None, "Strip accents; as in pre-training if unset."
    )

    learning_rate: float = hyperparameter(
        1e-4, "Peak learning rate of the heads; 5e-5 for large."
    )
    weight_decay_rate: float = hyperparameter(
        0.01, "Decoupled decay of all but LayerNorm and biases."
    )
    layerwise_lr_decay: float = hyperparameter(
        0.8, "Factor of the rate from one layer to the next below; 0.9 for large, 0 for none."
    )
    authors_layerwise_lr_decay: bool = hyperparameter(
        False, "Give every encoder layer one factor more, as the authors' code does."
    )
    optimizer: str = hyperparameter(
        "adam", "The authors' Adam, or LAMB for large batches.", OPTIMIZERS
    )
    lr_decay_power: float = hyperparameter(1.0, "Power of the polynomial decay; 1 is linear.")
    num_train_epochs: float = hyperparameter(
        3.0, "Passes over the data; 10 for rte and sts, 2 for QA."
    )
    warmup_proportion: float = hyperparameter(
        0.1, "Share of the steps over which the rate rises."
    )
    clip_norm: float = hyperparameter(1.0, "Gradients are scaled down to this global norm.")
    save_checkpoints_steps: int = hyperparameter(1_000_000, "Steps between two checkpoints.")
    iterations_per_loop: int = hyperparameter(
        1000, "Steps run on the device between two looks."
    )
    log_steps: int | None = hyperparameter(
        None,
        "Steps between two lines of the log; a twentieth of the run, 100 at most, if unset.",
    )
    eval_steps: int | None = hyperparameter(
        None, "Steps between two evaluations on dev while training; an epoch if unset."
    )
    keep_best: bool = hyperparameter(False, "End with the weights of the best dev evaluation.")
    early_stopping_patience: int | None = hyperparameter(
        None, "Stop after this many dev evaluations without a new best; implies keep_best."
    )
    use_tfrecords_if_existing: bool = hyperparameter(
        True, "Reuse cached features; vocabulary, length and data must be the same."
    )
    num_folds: int | None = hyperparameter(
        None,
        "Cross-validate on the train split with this many folds instead of dev; "
        "without double_unordered.",
    )
    overwrite: bool = hyperparameter(False, "Train anew, replacing the models that are there.")

    write_test_outputs: bool = hyperparameter(
        False, "Predict the test splits and write submissions."
    )
    n_writes_test: int = hyperparameter(5, "Trials whose test predictions are written.")
    predict_file: str | None = hyperparameter(
        None, "File to predict, laid out as the task's files."
    )
    predict_output: str | None = hyperparameter(
        None, "Where predictions go, .jsonl or .tsv; RESULTS/<task>_predictions.jsonl if unset."
    )

    max_seq_length: int = hyperparameter(128, "Tokens at most; 512 for QA and 256 for chunk.")
    bucket_by_length: bool = hyperparameter(
        True, "Pad batches to their bucket, not to the maximum."
    )
    length_buckets: Sequence[int] = hyperparameter(
        None, "Lengths that batches are padded to; up to max_seq_length."
    )
    train_batch_size: int = hyperparameter(32, "Examples a step, over all devices.")
    eval_batch_size: int = hyperparameter(32, "Examples a step of evaluation.")
    predict_batch_size: int = hyperparameter(32, "Examples a step of prediction.")
    double_unordered: bool = hyperparameter(
        True, "mrpc and sts: train on both orders of a pair."
    )

    max_query_length: int = hyperparameter(64, "Tokens of a question, at most.")
    doc_stride: int = hyperparameter(
        128, "Tokens between the starts of two windows of a context."
    )
    n_best_size: int = hyperparameter(20, "Answers kept for each question.")
    max_answer_length: int = hyperparameter(30, "Tokens of an answer, at most.")
    answerable_classifier: bool = hyperparameter(
        True, "Predict whether a question has an answer."
    )
    answerable_uses_start_logits: bool = hyperparameter(True, "Show it the predicted start.")
    answerable_weight: float = hyperparameter(0.5, "Weight of its loss.")
    joint_prediction: bool = hyperparameter(
        True, "Predict the end of an answer given its start."
    )
    beam_size: int = hyperparameter(
        20, "Starts, and ends for each, that joint prediction keeps."
    )
    qa_na_threshold: float = hyperparameter(-2.75, "Null odds above which an answer is empty.")

    authors_tagging_truncation: bool = hyperparameter(
        False, "Cut sentences where the authors' tagging code does (far too early)."
    )

    authors_qa_answer_check: bool = hyperparameter(
        False,
        "Drop answers that differ from the context in kinds of white space, as the authors do.",
    )

    raw_data_dir: str | None = hyperparameter(
        None, "Folder of the tasks' folders; DATA_DIR/finetuning_data if unset."
    )
    vocab_file: str | None = hyperparameter(
        None, "Vocabulary; that of the checkpoint, or DATA_DIR/vocab.txt, if unset."
    )
    init_checkpoint: str | None = hyperparameter(
        None,
        "Checkpoint to start from: of this project (folder, prefix or name in "
        "DATA_DIR/models) or of the authors' code, a Hugging Face or KerasHub folder. "
        "DATA_DIR/models/NAME if unset; 'random' for none.",
    )
    model_dir: str | None = hyperparameter(
        None, "Fine-tuned models; MODEL/finetuning_models/<tasks>_model if unset."
    )
    results_dir: str | None = hyperparameter(None, "Results; MODEL/results if unset.")
    results_txt: str | None = hyperparameter(None, "RESULTS/<tasks>_results.txt if unset.")
    results_pkl: str | None = hyperparameter(None, "RESULTS/<tasks>_results.pkl if unset.")
    preprocessed_data_dir: str | None = hyperparameter(
        None, "Cached features; MODEL/finetuning_tfrecords/<tasks>_tfrecords if unset."
    )

    seed: int = hyperparameter(42, "Seed of the first trial; each further trial adds 1.")
    precision: str = hyperparameter("float32", "Arithmetic of the matrix products.", PRECISIONS)
    jit_compile: bool = hyperparameter(False, "Compile the whole step with XLA; pays on a GPU.")
    rematerialize: bool = hyperparameter(
        False, "Compute encoder layers anew in the backward pass: slower, in less memory."
    )

    @classmethod
    def create(cls, **given: Any) -> "FinetuningConfig":
        """Fills in what follows from `given` (None means not given) and checks the whole.

        Raises:
            UserError: for a value that cannot be, naming the flag.
        """
        given = {name: value for name, value in given.items() if value is not None}
        for name in ("data_dir", "model_name"):
            if not given.get(name):
                raise UserError(f"--{name} is required")
        tasks = tuple(given.get("task_names", ("chunk",)))
        merged = {
            **defaults.paths(given, tasks),
            **defaults.task_defaults(tasks, defaults.own_kinds(given, tasks)),
            **(defaults.LARGE_DEFAULTS if given.get("model_size") == "large" else {}),
            **(defaults.debug_defaults() if given.get("debug") else {}),
            **distribution_defaults(given),
            **given,
            "task_names": tasks,
        }
        if given.get("num_folds"):
            # A pair and its swapped copy must not be on both sides of a fold.
            merged["double_unordered"] = False
        merged.update(defaults.model_settings(merged, given))
        longest = merged["max_seq_length"]
        buckets = merged.get("length_buckets") or defaults.LENGTH_BUCKETS
        merged["length_buckets"] = (*sorted(b for b in buckets if b < longest), longest)
        merged["keep_best"] = merged.get("keep_best", False) or (
            merged.get("early_stopping_patience") is not None
        )
        if merged.get("strategy") == TPU:
            merged.setdefault("bucket_by_length", False)
        config = cls(**merged)
        check_finetuning(config)
        return config

    @property
    def encoder(self) -> EncoderConfig:
        """Shape of the encoder."""
        return encoder_config(
            self.model_size,
            self.model_hparam_overrides,
            embedding_size=self.embedding_size,
            vocab_size=self.vocab_size,
        )

    @property
    def tasks_label(self) -> str:
        """The task names as they stand in file names."""
        return ",".join(self.task_names)

    @property
    def pretrained_model_dir(self) -> str:
        """DATA_DIR/models/NAME."""
        return os.path.join(self.data_dir, "models", self.model_name)

    def to_json(self) -> str:
        """Returns all hyperparameters as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"
