"""Every hyperparameter of pre-training, under the authors' names, with its help text.

No TensorFlow is imported here: flags are checked before anything slow happens. `flags/`
makes one command-line flag of each field. `PretrainingConfig` adds defaults that depend on
other fields.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.choices import EMBEDDING_SHARING, GENERATOR_TYPES, MASKING, OBJECTIVES
from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.hyperparameters import OPTIMIZERS, PRECISIONS, hyperparameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingFields(DistributionConfig):
    """Hyperparameters of pre-training and their independent defaults."""

    model_name: str = hyperparameter(
        "electra", "Name of the run; its files go to DATA_DIR/models/NAME."
    )
    data_dir: str = hyperparameter("", "Folder of the records, the vocabulary and the models.")
    debug: bool = hyperparameter(
        False, "Tiny batches and 20 steps, to see whether a command works."
    )
    do_train: bool = hyperparameter(True, "Pre-train.")
    do_eval: bool = hyperparameter(False, "Evaluate the newest checkpoint instead of training.")

    objective: str | None = hyperparameter(
        None,
        "What is trained; electra, or what electra_objective and electric_objective ask for, "
        "if unset.",
        tuple(OBJECTIVES),
    )
    objective_hparams: Mapping[str, Any] = hyperparameter(
        None,
        "JSON object of the objective's own hyperparameters (`Hparams` in its module in "
        "electra_tf/objectives).",
    )
    electra_objective: bool = hyperparameter(
        True, "Replaced-token detection; false trains a plain masked language model."
    )
    electric_objective: bool = hyperparameter(False, "The same as --objective=electric.")
    gen_weight: float = hyperparameter(1.0, "Weight of the generator's loss.")
    disc_weight: float = hyperparameter(50.0, "Weight of the discriminator's loss.")
    mask_prob: float = hyperparameter(
        0.15, "Share of the tokens that is masked; 0.25 for large."
    )
    max_predictions_per_seq: int | None = hyperparameter(
        None, "Masked positions a sequence at most; int((mask_prob + 0.005) * length) if unset."
    )
    mask_prob_end: float | None = hyperparameter(
        None, "Share that mask_prob has become, linearly, at the last step; mask_prob if unset."
    )
    masking: str = hyperparameter(
        "token", "What is masked together, or more often.", tuple(MASKING)
    )
    masking_hparams: Mapping[str, Any] = hyperparameter(
        None,
        "JSON object of the masking's own hyperparameters (`Hparams` in its module in "
        "electra_tf/masking).",
    )
    masking_with_replacement: bool = hyperparameter(
        False, "Draw masked positions with replacement, as the authors' code does."
    )
    span_boundary_weight: float = hyperparameter(
        0.0,
        "Weight of SpanBERT's span-boundary objective beside the masked language model; 0 "
        "leaves it out.",
    )

    learning_rate: float = hyperparameter(5e-4, "Peak learning rate; 2e-4 for base and large.")
    generator_learning_rate: float | None = hyperparameter(
        None,
        "Peak learning rate of what the generator alone owns; learning_rate if unset.",
    )
    optimizer: str = hyperparameter(
        "adam", "The authors' Adam, or LAMB for large batches.", OPTIMIZERS
    )
    lr_decay_power: float = hyperparameter(1.0, "Power of the polynomial decay; 1 is linear.")
    weight_decay_rate: float = hyperparameter(
        0.01, "Decoupled decay of all but LayerNorm and biases."
    )
    num_warmup_steps: int = hyperparameter(10_000, "Steps over which the rate rises from 0.")
    clip_norm: float = hyperparameter(1.0, "Gradients are scaled down to this global norm.")

    num_train_steps: int = hyperparameter(
        1_000_000, "Updates in all; the rate has decayed to 0 there."
    )
    iterations_per_loop: int = hyperparameter(
        200, "Steps run on the device between two looks at it."
    )
    log_steps: int | None = hyperparameter(
        None, "Steps between two lines of the log; iterations_per_loop if unset."
    )
    save_checkpoints_steps: int = hyperparameter(1000, "Steps between two checkpoints.")
    keep_checkpoint_max: int = hyperparameter(
        5, "Newest checkpoints that are kept; 0 keeps all."
    )

    model_size: str = hyperparameter("small", "Size of the discriminator.", tuple(MODEL_SIZES))
    model_hparam_overrides: Mapping[str, Any] = hyperparameter(
        None, 'JSON object that overrides the size, such as {"num_hidden_layers": 6}.'
    )
    embedding_size: int | None = hyperparameter(
        None, "Width of the embeddings; 128 for small, else the hidden size."
    )
    vocab_size: int = hyperparameter(30522, "Entries of the vocabulary.")
    do_lower_case: bool = hyperparameter(True, "The records hold lower-cased text.")
    strip_accents: bool = hyperparameter(True, "The records hold text without accents.")

    generator_type: str | None = hyperparameter(
        None,
        "Where replacements come from; masked_lm, or what uniform_generator and "
        "two_tower_generator ask for, if unset.",
        GENERATOR_TYPES,
    )
    uniform_generator: bool = hyperparameter(False, "The same as --generator_type=uniform.")
    two_tower_generator: bool = hyperparameter(False, "The same as --generator_type=two_tower.")
    embedding_sharing: str | None = hyperparameter(
        None,
        "What generator and discriminator share; embeddings, or what untied_generator and "
        "untied_generator_embeddings ask for, if unset.",
        EMBEDDING_SHARING,
    )
    untied_generator: bool = hyperparameter(True, "False ties all weights of the two models.")
    untied_generator_embeddings: bool = hyperparameter(
        False, "Give the generator token, position and segment embeddings of its own."
    )
    generator_layers: float = hyperparameter(1.0, "The generator's layers, as a share.")
    generator_hidden_size: float = hyperparameter(
        0.25, "The generator's hidden size, as a share."
    )
    disallow_correct: bool = hyperparameter(False, "Never sample the original token.")
    temperature: float = hyperparameter(1.0, "Temperature of the generator's samples.")

    max_seq_length: int = hyperparameter(128, "Tokens a sequence; that of the records.")
    length_curriculum: Sequence[int] = hyperparameter(
        (),
        "Shorter lengths to begin with, such as 128 for a model that ends at 512. Their "
        "records lie in DATA_DIR/pretrain_tfrecords_LENGTH, or where --pretrain_tfrecords "
        "says with {length} in it.",
    )
    length_curriculum_share: float = hyperparameter(
        0.9, "Share of the steps that are run at the shorter lengths, each as many."
    )
    train_batch_size: int = hyperparameter(128, "Sequences a step, over all devices.")
    eval_batch_size: int = hyperparameter(128, "Sequences a step of evaluation.")
    num_eval_steps: int = hyperparameter(100, "Batches of one evaluation, at most.")

    pretrain_tfrecords: str | None = hyperparameter(
        None, "Records to train on: files or wildcards, separated by commas."
    )
    eval_tfrecords: str | None = hyperparameter(
        None, "Held-out records: evaluated at every checkpoint, and by --do_eval."
    )
    vocab_file: str | None = hyperparameter(
        None, "WordPiece vocabulary; DATA_DIR/vocab.txt if unset."
    )
    shuffle_buffer_size: int = hyperparameter(10_000, "Examples among which the next is drawn.")
    deterministic_reading: bool = hyperparameter(
        True, "Same order of examples in every run; false reads faster and resumes inexactly."
    )
    skip_bad_records: bool = hyperparameter(False, "Pass over corrupt records and count them.")

    init_checkpoint: str | None = hyperparameter(
        None,
        "Weights to start from: a checkpoint of this project (folder, prefix or name in "
        "DATA_DIR/models) or of the authors' code, a Hugging Face or KerasHub folder. Sizes, "
        "vocabulary and casing are the checkpoint's if unset. A run that has begun goes on.",
    )
    model_dir: str | None = hyperparameter(
        None, "Checkpoints and logs; DATA_DIR/models/NAME if unset."
    )
    results_txt: str | None = hyperparameter(None, "Metrics of --do_eval as text.")
    results_json: str | None = hyperparameter(None, "Metrics of --do_eval as JSON.")
    results_pkl: str | None = hyperparameter(None, "Metrics of --do_eval as a pickle, if set.")

    seed: int = hyperparameter(42, "Seed of weights, masks, samples, dropout and shuffling.")
    precision: str = hyperparameter("float32", "Arithmetic of the matrix products.", PRECISIONS)
    jit_compile: bool = hyperparameter(False, "Compile the whole step with XLA; pays on a GPU.")
    rematerialize: bool = hyperparameter(
        False, "Compute encoder layers anew in the backward pass: slower, in less memory."
    )
