"""Every hyperparameter of fine-tuning, under the authors' names, with its help text.

Base classes have the hyperparameters of the encoder, of classification and of users' tasks,
and those shared with pre-training: devices and processes, trackers, and non-finite updates.

No TensorFlow is imported here: flags are checked before anything slow happens. `flags/`
turns each field into a command-line flag.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.encoder import MODEL_SIZES, EncoderConfig, encoder_config
from electra_tf.config.hyperparameters import (
    EVALUATION,
    NOTHING,
    OPTIMIZERS,
    PRECISIONS,
    hyperparameter,
)
from electra_tf.config.nonfinite_fields import NonfiniteFields
from electra_tf.config.tracker_fields import TrackerFields
from finetune.config.classification_fields import ClassificationFields
from finetune.config.custom_task_fields import CustomTaskFields
from finetune.config.encoder_fields import EncoderFields


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningFields(
    CustomTaskFields,
    ClassificationFields,
    EncoderFields,
    TrackerFields,
    NonfiniteFields,
    DistributionConfig,
):
    """Hyperparameters of fine-tuning and their independent defaults."""

    model_name: str = hyperparameter(
        "", "Name of the pre-trained model, in DATA_DIR/models.", influence=NOTHING
    )
    data_dir: str = hyperparameter(
        "", "Folder with models/, finetuning_data/ and the vocabulary.", influence=NOTHING
    )
    debug: bool = hyperparameter(
        False, "Smoke test: a tiny model, a few steps on a few examples.", influence=NOTHING
    )
    log_examples: bool = hyperparameter(
        False, "Print the features of the first examples.", influence=NOTHING
    )
    num_trials: int = hyperparameter(
        1,
        "Number of trials (random restarts) to aggregate; a negative number never stops.",
        influence=NOTHING,
    )
    do_train: bool = hyperparameter(True, "Fine-tune.", influence=NOTHING, null=False)
    do_eval: bool = hyperparameter(
        True, "Evaluate on the dev set.", influence=NOTHING, null=False
    )
    do_predict: bool = hyperparameter(
        False, "Predict --predict_file, which needs no labels.", influence=NOTHING
    )
    keep_all_models: bool = hyperparameter(
        True, "Keep the models of all trials, not only the last.", influence=NOTHING, null=False
    )

    task_names: Sequence[str] = hyperparameter(
        ("chunk",), "Tasks to train jointly: comma-separated, or a JSON list."
    )

    model_size: str | None = hyperparameter(
        None, "Model size of the encoder; that of the checkpoint if unset.", MODEL_SIZES
    )
    model_hparam_overrides: Mapping[str, Any] = hyperparameter(
        None,
        "Overrides of the model size, as a JSON object; those of the checkpoint if unset.",
    )
    embedding_size: int | None = hyperparameter(
        None,
        "Embedding size; that of the checkpoint or of the model size if unset, the hidden size "
        "if 0 (or null in --hparams).",
        null=0,
    )
    vocab_size: int | None = hyperparameter(
        None, "Vocabulary size; that of the checkpoint or of the vocabulary file if unset."
    )
    do_lower_case: bool | None = hyperparameter(
        None, "Lowercase the text; as in pre-training if unset.", null=False
    )
    strip_accents: bool | None = hyperparameter(
        None, "Strip accents; as in pre-training if unset."
    )

    learning_rate: float = hyperparameter(
        1e-4,
        "Peak learning rate of the heads; 5e-5 for large models, whether their size is given "
        "or read from the checkpoint.",
    )
    weight_decay_rate: float = hyperparameter(
        0.01, "Decoupled weight decay, excluding LayerNorm and biases."
    )
    layerwise_lr_decay: float = hyperparameter(
        0.8,
        "Layer-wise learning-rate decay factor; 0.9 for large models. 0 and negative numbers "
        "disable it, as in the authors' code.",
    )
    authors_layerwise_lr_decay: bool = hyperparameter(
        False,
        "Apply one more decay factor to the embeddings and every encoder layer, as the "
        "authors' code does.",
    )
    optimizer: str = hyperparameter(
        "adam", "Optimizer: the authors' Adam, or LAMB for large batches.", OPTIMIZERS
    )
    lr_decay_power: float = hyperparameter(
        1.0, "Power of the polynomial learning-rate decay; 1 is linear."
    )
    num_train_epochs: float = hyperparameter(
        3.0,
        "Number of training epochs. For a task trained alone, the default is 10 for rte and "
        "sts, and 2 for QA except naturalqs.",
    )
    warmup_proportion: float = hyperparameter(0.1, "Linear warm-up, as a fraction of training.")
    clip_norm: float = hyperparameter(1.0, "Gradient clipping by global norm.")
    save_checkpoints_steps: int = hyperparameter(
        1_000_000, "Checkpoint interval, in steps.", influence=NOTHING
    )
    iterations_per_loop: int = hyperparameter(
        1000, "Host loop: training steps per call of the compiled function.", influence=NOTHING
    )
    log_steps: int | None = hyperparameter(
        None,
        "Logging interval, in steps; a twentieth of the run, at most 100, if unset.",
        influence=NOTHING,
    )
    eval_steps: int | None = hyperparameter(
        None, "Interval of evaluations on dev during training, in steps; one epoch if unset."
    )
    keep_best: bool = hyperparameter(
        False,
        "Keep the weights with the best dev score instead of the last ones. In "
        "cross-validation, the score is that on --selection_fraction of the fold's training "
        "data.",
    )
    early_stopping_patience: int | None = hyperparameter(
        None, "Evaluations without improvement before stopping; implies --keep_best."
    )
    use_tfrecords_if_existing: bool = hyperparameter(
        True,
        "Reuse cached features if vocabulary, length and data match.",
        influence=NOTHING,
        null=False,
    )
    num_folds: int | None = hyperparameter(
        None,
        "Folds of cross-validation on the train split, instead of dev; disables "
        "--double_unordered.",
    )
    selection_fraction: float | None = hyperparameter(
        None,
        "Cross-validation with --keep_best or --early_stopping_patience: fraction of each "
        "fold's training data held out to select the weights; 0.1 if unset.",
    )
    overwrite: bool = hyperparameter(
        False,
        "Train again, replacing existing models even if their settings are the same.",
        influence=NOTHING,
    )

    write_test_outputs: bool = hyperparameter(
        False, "Predict the test splits and write submission files.", influence=NOTHING
    )
    ensemble_size: int = hyperparameter(
        1,
        "Size of the ensemble: predictions average the outputs of the best trials on dev.",
        influence=NOTHING,
    )
    n_writes_test: int = hyperparameter(
        5,
        "Number of trials whose predictions --write_test_outputs writes.",
        influence=NOTHING,
    )
    predict_file: str | None = hyperparameter(
        None, "File to predict, in the format of the task's files.", influence=NOTHING
    )
    predict_output: str | None = hyperparameter(
        None,
        "Output of --predict_file, .jsonl or .tsv; RESULTS/<task>_predictions.jsonl if unset.",
        influence=NOTHING,
    )

    max_seq_length: int = hyperparameter(
        128,
        "Maximum sequence length, in tokens. For a task trained alone, the default is 512 for "
        "QA except naturalqs, and 256 for chunk. A default never exceeds the checkpoint's "
        "position embeddings.",
    )
    bucket_by_length: bool = hyperparameter(
        True, "Dynamic padding to length buckets; false if unset on a TPU."
    )
    length_buckets: Sequence[int] = hyperparameter(
        None,
        "Lengths of the buckets of --bucket_by_length, in tokens; those above --max_seq_length "
        "are ignored.",
    )
    train_batch_size: int = hyperparameter(
        32, "Global batch size: sequences per update, over all replicas."
    )
    eval_batch_size: int = hyperparameter(
        32, "Global batch size of evaluation.", influence=NOTHING
    )
    predict_batch_size: int = hyperparameter(
        32, "Global batch size of prediction.", influence=NOTHING
    )
    double_unordered: bool = hyperparameter(
        True, "Train on both orders of each pair, for mrpc and sts.", null=False
    )

    max_query_length: int = hyperparameter(64, "QA: maximum question length, in tokens.")
    doc_stride: int = hyperparameter(128, "QA: sliding-window stride, in tokens.")
    n_best_size: int = hyperparameter(
        20, "QA: size of the n-best list of answers per question.", influence=EVALUATION
    )
    max_answer_length: int = hyperparameter(
        30, "QA: maximum answer length, in tokens.", influence=EVALUATION
    )
    answerable_classifier: bool = hyperparameter(
        True, "QA: predict whether a question has an answer.", null=False
    )
    answerable_uses_start_logits: bool = hyperparameter(
        True, "QA: feed the predicted answer start to the answerability classifier.", null=False
    )
    answerable_weight: float = hyperparameter(
        0.5, "QA: loss weight of the answerability classifier."
    )
    joint_prediction: bool = hyperparameter(
        True, "QA: predict the end of an answer given its start.", null=False
    )
    beam_size: int = hyperparameter(
        20,
        "QA: beam size of joint prediction: number of starts, and of ends for each start.",
        influence=EVALUATION,
    )
    qa_na_threshold: float = hyperparameter(
        -2.75,
        "QA: null-odds threshold above which a question is predicted to have no answer.",
        influence=EVALUATION,
    )

    authors_tagging_truncation: bool = hyperparameter(
        False, "Tagging: truncate sentences as the authors' code does (far too early)."
    )

    authors_qa_answer_check: bool = hyperparameter(
        False,
        "QA: drop answers that differ from the context only in the kind of whitespace, and "
        "learn the first occurrence of an answer in its word, or else the whole word, as the "
        "authors' code does.",
    )

    raw_data_dir: str | None = hyperparameter(
        None,
        "Folder with one folder per task; DATA_DIR/finetuning_data if unset.",
        influence=NOTHING,
    )
    vocab_file: str | None = hyperparameter(
        None,
        "WordPiece vocabulary; that of the checkpoint, or DATA_DIR/vocab.txt, if unset.",
        influence=NOTHING,
    )
    init_checkpoint: str | None = hyperparameter(
        None,
        "Weights to initialize from: a checkpoint of this project (folder, prefix or name "
        "in DATA_DIR/models) or of the authors' code, or a Hugging Face or KerasHub folder; "
        "DATA_DIR/models/NAME if unset. 'random' starts from random weights. With "
        "--do_train=false, the fine-tuned model to evaluate; those in MODEL_DIR if unset.",
        influence=NOTHING,
        null="random",
    )
    model_dir: str | None = hyperparameter(
        None,
        "Folder of the fine-tuned models; MODEL/finetuning_models/<tasks>_model if unset.",
        influence=NOTHING,
    )
    results_dir: str | None = hyperparameter(
        None, "Folder of the results; MODEL/results if unset.", influence=NOTHING
    )
    results_txt: str | None = hyperparameter(
        None, "Results as text; RESULTS/<tasks>_results.txt if unset.", influence=NOTHING
    )
    results_pkl: str | None = hyperparameter(
        None,
        "Results as the authors' pickle; RESULTS/<tasks>_results.pkl if unset.",
        influence=NOTHING,
    )
    preprocessed_data_dir: str | None = hyperparameter(
        None,
        "Folder of cached features; MODEL/finetuning_tfrecords/<tasks>_tfrecords if unset.",
        influence=NOTHING,
    )

    report: bool = hyperparameter(
        True,
        "Write an HTML report into the results when the run ends, if the extra `report` is "
        "installed.",
        influence=NOTHING,
    )

    seed: int = hyperparameter(42, "Random seed of the first trial; each trial adds 1.")
    precision: str = hyperparameter(
        "float32",
        "Mixed precision (Keras dtype policy); mixed_bfloat16 if unset on a TPU.",
        PRECISIONS,
    )
    jit_compile: bool = hyperparameter(
        False, "Compile the training step with XLA; recommended on GPUs.", influence=NOTHING
    )
    rematerialize: bool = hyperparameter(
        False,
        "Gradient checkpointing: recompute encoder layers in the backward pass; slower, but "
        "takes less memory.",
        influence=NOTHING,
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
