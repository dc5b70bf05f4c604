"""Every hyperparameter of fine-tuning, under the authors' names, with its help text.

No TensorFlow is imported here: flags are checked before anything slow happens. `flags/`
makes one command-line flag of each field.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.encoder import MODEL_SIZES, EncoderConfig, encoder_config
from electra_tf.config.hyperparameters import OPTIMIZERS, PRECISIONS, hyperparameter
from finetune.config.task_kinds import FILE_FORMATS, KINDS, LEVELS


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningFields(DistributionConfig):
    """Hyperparameters of fine-tuning and their independent defaults."""

    model_name: str = hyperparameter("", "Name of the pre-trained model, in DATA_DIR/models.")
    data_dir: str = hyperparameter(
        "", "Directory of models/, finetuning_data/ and the vocabulary."
    )
    debug: bool = hyperparameter(False, "Smoke test: a few steps on a few examples.")
    log_examples: bool = hyperparameter(False, "Print the features of the first examples.")
    num_trials: int = hyperparameter(1, "Random restarts; metrics are aggregated.")
    do_train: bool = hyperparameter(True, "Fine-tune.")
    do_eval: bool = hyperparameter(True, "Evaluate on the dev set.")
    do_predict: bool = hyperparameter(False, "Predict --predict_file, which needs no labels.")
    keep_all_models: bool = hyperparameter(
        True, "Keep the models of all trials, not only the last."
    )

    task_names: Sequence[str] = hyperparameter(
        ("chunk",), "Tasks to train jointly: comma-separated, or a JSON list."
    )
    task_spec: str | None = hyperparameter(
        None, "Description of custom tasks: a JSON file, or inline JSON; see README."
    )
    own_task_kind: str | None = hyperparameter(
        None,
        "Custom task without --task_spec: its kind.",
        tuple(kind.name for kind in KINDS),
    )
    own_task_files: str | None = hyperparameter(
        None, "Custom task: files by split, such as train=a.tsv,dev=b.tsv."
    )
    own_task_columns: str | None = hyperparameter(
        None, "Custom task: columns by name or index, such as text=review,label=1."
    )
    own_task_group_column: str | None = hyperparameter(
        None,
        "Custom task: column whose value groups examples, by name or index; folds and held-out "
        "examples keep groups whole.",
    )
    own_task_labels: str | None = hyperparameter(
        None, "Custom task: labels, such as a,b; those of the train split if unset."
    )
    own_task_label_separator: str | None = hyperparameter(
        None, "Custom multilabel task: separator of the labels of a cell; a comma if unset."
    )
    own_task_metric: str | None = hyperparameter(
        None, "Custom task: main metric; the default of its kind if unset."
    )
    own_task_format: str | None = hyperparameter(
        None,
        "Custom task: file format; chosen by extension if unset.",
        FILE_FORMATS,
    )
    own_task_header: bool | None = hyperparameter(
        None, "Custom task: whether tsv and csv files have a header line; true if unset."
    )
    own_task_min_label: float | None = hyperparameter(
        None, "Custom regression task: smallest label; that of the train split if unset."
    )
    own_task_max_label: float | None = hyperparameter(
        None, "Custom regression task: largest label; that of the train split if unset."
    )
    own_task_dev_fraction: float | None = hyperparameter(
        None, "Custom task without a dev file: fraction of train to hold out; 0.1 if unset."
    )
    own_task_level: str | None = hyperparameter(
        None, "Custom tagging task: unit of the metrics; span if unset.", LEVELS
    )
    own_task_unanswerable: bool | None = hyperparameter(
        None,
        "Custom QA task: whether questions may be unanswerable; detected in the train split if "
        "unset.",
    )

    model_size: str | None = hyperparameter(
        None, "Model size of the encoder; that of the checkpoint if unset.", tuple(MODEL_SIZES)
    )
    model_hparam_overrides: Mapping[str, Any] = hyperparameter(
        None,
        "Overrides of the model size, as a JSON object; those of the checkpoint if unset.",
    )
    embedding_size: int | None = hyperparameter(
        None, "Embedding size; that of the model size if unset."
    )
    vocab_size: int | None = hyperparameter(
        None, "Vocabulary size; that of the vocabulary file if unset."
    )
    do_lower_case: bool | None = hyperparameter(
        None, "Lowercase the text; as in pre-training if unset."
    )
    strip_accents: bool | None = hyperparameter(
        None, "Strip accents; as in pre-training if unset."
    )

    learning_rate: float = hyperparameter(
        1e-4,
        "Peak learning rate of the heads; 5e-5 for large models, also if the checkpoint tells "
        "the size.",
    )
    weight_decay_rate: float = hyperparameter(
        0.01, "Decoupled weight decay, excluding LayerNorm and biases."
    )
    layerwise_lr_decay: float = hyperparameter(
        0.8, "Layer-wise learning-rate decay factor; 0.9 for large models, 0 disables it."
    )
    authors_layerwise_lr_decay: bool = hyperparameter(
        False, "Apply one more decay factor to every encoder layer, as the authors' code does."
    )
    optimizer: str = hyperparameter(
        "adam", "Optimizer: the authors' Adam, or LAMB for large batches.", OPTIMIZERS
    )
    lr_decay_power: float = hyperparameter(
        1.0, "Power of the polynomial learning-rate decay; 1 is linear."
    )
    num_train_epochs: float = hyperparameter(
        3.0, "Number of training epochs; 10 for rte and sts, 2 for QA."
    )
    warmup_proportion: float = hyperparameter(0.1, "Linear warm-up, as a fraction of training.")
    clip_norm: float = hyperparameter(1.0, "Gradient clipping by global norm.")
    save_checkpoints_steps: int = hyperparameter(1_000_000, "Checkpoint interval, in steps.")
    iterations_per_loop: int = hyperparameter(
        1000, "Host loop: training steps per call of the compiled function."
    )
    log_steps: int | None = hyperparameter(
        None, "Logging interval, in steps; a twentieth of the run, at most 100, if unset."
    )
    eval_steps: int | None = hyperparameter(
        None, "Evaluation interval on dev during training, in steps; an epoch if unset."
    )
    keep_best: bool = hyperparameter(
        False,
        "Keep the weights with the best score on dev, or on --selection_fraction of the "
        "training part of a fold, instead of the last ones.",
    )
    early_stopping_patience: int | None = hyperparameter(
        None, "Evaluations without improvement before stopping; implies keep_best."
    )
    use_tfrecords_if_existing: bool = hyperparameter(
        True, "Reuse cached features if vocabulary, length and data match."
    )
    num_folds: int | None = hyperparameter(
        None,
        "Folds of cross-validation on the train split, instead of dev; disables "
        "--double_unordered.",
    )
    selection_fraction: float | None = hyperparameter(
        None,
        "Folds with --keep_best or --early_stopping_patience: fraction of the training part "
        "that chooses the weights; 0.1 if unset.",
    )
    overwrite: bool = hyperparameter(False, "Train from scratch, replacing existing models.")

    write_test_outputs: bool = hyperparameter(
        False, "Predict the test splits and write submission files."
    )
    n_writes_test: int = hyperparameter(
        5, "Number of trials whose test predictions are written."
    )
    predict_file: str | None = hyperparameter(
        None, "File to predict, in the format of the task's files."
    )
    predict_output: str | None = hyperparameter(
        None,
        "Predictions of --predict_file, .jsonl or .tsv; RESULTS/<task>_predictions.jsonl "
        "if unset.",
    )

    max_seq_length: int = hyperparameter(
        128, "Maximum sequence length, in tokens; 512 for QA and 256 for chunk."
    )
    bucket_by_length: bool = hyperparameter(True, "Dynamic padding to length buckets.")
    length_buckets: Sequence[int] = hyperparameter(
        None, "Lengths of the buckets, in tokens; up to --max_seq_length."
    )
    train_batch_size: int = hyperparameter(
        32, "Global batch size: sequences per update, over all replicas."
    )
    eval_batch_size: int = hyperparameter(32, "Global batch size of evaluation.")
    predict_batch_size: int = hyperparameter(32, "Global batch size of prediction.")
    double_unordered: bool = hyperparameter(
        True, "Train on both orders of each pair, for mrpc and sts."
    )

    max_query_length: int = hyperparameter(64, "Maximum question length, in tokens.")
    doc_stride: int = hyperparameter(128, "Sliding-window stride, in tokens.")
    n_best_size: int = hyperparameter(20, "Size of the n-best list of answers per question.")
    max_answer_length: int = hyperparameter(30, "Maximum answer length, in tokens.")
    answerable_classifier: bool = hyperparameter(
        True, "Predict whether a question has an answer."
    )
    answerable_uses_start_logits: bool = hyperparameter(
        True, "Feed the predicted answer start to the answerability classifier."
    )
    answerable_weight: float = hyperparameter(
        0.5, "Loss weight of the answerability classifier."
    )
    joint_prediction: bool = hyperparameter(
        True, "Predict the end of an answer given its start."
    )
    beam_size: int = hyperparameter(
        20, "Beam size of joint prediction: starts, and ends for each start."
    )
    qa_na_threshold: float = hyperparameter(
        -2.75, "Threshold of the null odds above which a question has no answer."
    )

    authors_tagging_truncation: bool = hyperparameter(
        False, "Truncate sentences as the authors' tagging code does (far too early)."
    )

    authors_qa_answer_check: bool = hyperparameter(
        False,
        "Drop answers that differ from the context only in the kind of whitespace, as the "
        "authors' code does.",
    )

    raw_data_dir: str | None = hyperparameter(
        None, "Directory with one folder per task; DATA_DIR/finetuning_data if unset."
    )
    vocab_file: str | None = hyperparameter(
        None, "WordPiece vocabulary; that of the checkpoint, or DATA_DIR/vocab.txt, if unset."
    )
    init_checkpoint: str | None = hyperparameter(
        None,
        "Weights to initialize from: a checkpoint of this project (directory, prefix or name "
        "in DATA_DIR/models) or of the authors' code, or a Hugging Face or KerasHub folder; "
        "DATA_DIR/models/NAME if unset. 'random' starts from random weights. With "
        "--do_train=false, the fine-tuned model to evaluate; those in MODEL_DIR if unset.",
    )
    model_dir: str | None = hyperparameter(
        None,
        "Directory of the fine-tuned models; MODEL/finetuning_models/<tasks>_model if unset.",
    )
    results_dir: str | None = hyperparameter(
        None, "Directory of the results; MODEL/results if unset."
    )
    results_txt: str | None = hyperparameter(
        None, "Results as text; RESULTS/<tasks>_results.txt if unset."
    )
    results_pkl: str | None = hyperparameter(
        None, "Results as the authors' pickle; RESULTS/<tasks>_results.pkl if unset."
    )
    preprocessed_data_dir: str | None = hyperparameter(
        None,
        "Directory of cached features; MODEL/finetuning_tfrecords/<tasks>_tfrecords if unset.",
    )

    seed: int = hyperparameter(42, "Random seed of the first trial; each trial adds 1.")
    precision: str = hyperparameter(
        "float32", "Mixed precision (Keras dtype policy).", PRECISIONS
    )
    jit_compile: bool = hyperparameter(
        False, "Compile the training step with XLA; recommended on GPUs."
    )
    rematerialize: bool = hyperparameter(
        False,
        "Gradient checkpointing: recompute encoder layers in the backward pass; slower, "
        "less memory.",
    )

    @property
    def encoder(self) -> EncoderConfig:
        """Shape of the encoder."""
        return encoder_config(
            self.model_size,
            self.model_hparam_overrides,
            embedding_size=self.embedding_size,
            vocab_size=self.vocab_size,
        )
