"""Every hyperparameter of pre-training, under the authors' names, with its help text.

The base classes have those shared with fine-tuning: devices and processes, trackers, and
non-finite updates.

No TensorFlow is imported here: flags are checked before anything slow happens. `flags/`
turns each field into a command-line flag. `PretrainingConfig` adds defaults that depend on
other fields.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.choices import (
    EMBEDDING_SHARING,
    GENERATORS,
    MASKING,
    OBJECTIVES,
    REPLACEMENTS,
)
from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.hyperparameters import (
    EVALUATION,
    NOTHING,
    OPTIMIZERS,
    PRECISIONS,
    SYNONYM,
    hyperparameter,
)
from electra_tf.config.nonfinite_fields import NonfiniteFields
from electra_tf.config.tracker_fields import TrackerFields


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingFields(TrackerFields, NonfiniteFields, DistributionConfig):
    """Hyperparameters of pre-training, with defaults that do not depend on each other."""

    model_name: str = hyperparameter(
        "electra",
        "Name of the run; its files are written to DATA_DIR/models/NAME.",
        influence=NOTHING,
    )
    data_dir: str = hyperparameter(
        "", "Folder of the records, the vocabulary and the models.", influence=NOTHING
    )
    debug: bool = hyperparameter(
        False,
        "Smoke test: train a tiny model on tiny batches for 20 steps, from scratch each time.",
        influence=NOTHING,
    )
    do_train: bool = hyperparameter(True, "Pre-train.", influence=NOTHING, null=False)
    do_eval: bool = hyperparameter(
        False, "Evaluate the latest checkpoint; needs --do_train=false.", influence=NOTHING
    )

    objective: str | None = hyperparameter(
        None,
        "Pre-training objective; the recipes in recipes/modes describe each. If unset, "
        "selected by --electra_objective and --electric_objective; electra by default.",
        OBJECTIVES,
    )
    objective_hparams: Mapping[str, Any] = hyperparameter(
        None,
        "Hyperparameters specific to the objective, as a JSON object (`Hparams` in its module "
        "in electra_tf/objectives).",
    )
    electra_objective: bool = hyperparameter(
        True,
        "Replaced-token detection; false trains a masked language model.",
        influence=SYNONYM,
        null=False,
    )
    electric_objective: bool = hyperparameter(
        False, "The same as --objective=electric.", influence=SYNONYM
    )
    gen_weight: float = hyperparameter(
        1.0,
        "Weight of the loss of the generator, or of the masked language model of "
        "--objective=mlm.",
    )
    disc_weight: float = hyperparameter(
        50.0,
        "Weight of the discriminator loss; unused by objectives without a discriminator.",
    )
    mask_prob: float = hyperparameter(
        0.15, "Masking rate. The paper's large models use 0.25; see their recipe."
    )
    max_predictions_per_seq: int | None = hyperparameter(
        None,
        "Maximum number of masked tokens per sequence. If unset, int((mask_prob + 0.005) * "
        "max_seq_length), with the larger of --mask_prob and --mask_prob_end.",
    )
    mask_prob_end: float | None = hyperparameter(
        None,
        "Final masking rate of a linear schedule over all steps; constant at --mask_prob if "
        "unset. "
        "Evaluations use --mask_prob.",
    )
    masking: str = hyperparameter(
        "token",
        "Masking strategy: token (single tokens), whole_word, span (spans of words, as in "
        "SpanBERT), strategic (rare tokens more often), or learned (tokens that are hard to "
        "predict more often).",
        MASKING,
    )
    masking_hparams: Mapping[str, Any] = hyperparameter(
        None,
        "Hyperparameters specific to the masking strategy, as a JSON object (`Hparams` in its "
        "module in electra_tf/masking).",
    )
    word_list: str | None = hyperparameter(
        None,
        "Word list for --masking=whole_word and span in text without spaces, such as Chinese: "
        "a file with one word per line, or jieba for that package's dictionary. The longest "
        "matches are the words.",
        influence=NOTHING,
    )
    masking_with_replacement: bool = hyperparameter(
        False, "Sample masked positions with replacement, as the authors' code does."
    )
    span_boundary_weight: float = hyperparameter(
        0.0, "Weight of SpanBERT's span-boundary objective (SBO); 0 disables it."
    )

    learning_rate: float = hyperparameter(
        5e-4,
        "Peak learning rate. The paper's base and large models use 2e-4; see their recipes.",
    )
    generator_learning_rate: float | None = hyperparameter(
        None,
        "Peak learning rate of the weights that belong to the generator alone; "
        "--learning_rate if unset.",
    )
    optimizer: str = hyperparameter(
        "adam", "Optimizer: the authors' Adam, or LAMB for large batches.", OPTIMIZERS
    )
    lr_decay_power: float = hyperparameter(
        1.0, "Power of the polynomial learning-rate decay; 1 is linear."
    )
    weight_decay_rate: float = hyperparameter(
        0.01, "Decoupled weight decay, excluding LayerNorm and biases."
    )
    num_warmup_steps: int = hyperparameter(
        10_000, "Linear warm-up, in steps; in each stage of --objective=two_stage."
    )
    clip_norm: float = hyperparameter(1.0, "Gradient clipping by global norm.")

    num_train_steps: int = hyperparameter(
        1_000_000,
        "Total number of training steps; the learning rate decays to 0 by then (with "
        "--objective=two_stage, in each stage).",
    )
    iterations_per_loop: int = hyperparameter(
        200, "Host loop: training steps per call of the compiled function.", influence=NOTHING
    )
    log_steps: int | None = hyperparameter(
        None, "Logging interval, in steps; --iterations_per_loop if unset.", influence=NOTHING
    )
    save_checkpoints_steps: int = hyperparameter(
        1000, "Checkpoint interval, in steps.", influence=NOTHING
    )
    keep_checkpoint_max: int = hyperparameter(
        5, "Number of most recent checkpoints to keep; 0 keeps all.", influence=NOTHING, null=0
    )

    model_size: str = hyperparameter("small", "Size of the discriminator.", MODEL_SIZES)
    model_hparam_overrides: Mapping[str, Any] = hyperparameter(
        None,
        'Overrides of the model size, as a JSON object: {"num_hidden_layers": 6}. '
        "Unless given, num_attention_heads and intermediate_size follow an overridden "
        "hidden_size (hidden_size / 64 and 4 * hidden_size).",
    )
    embedding_size: int | None = hyperparameter(
        None,
        "Embedding size. If unset, 128 for small models, else the hidden size; 0 (or null in "
        "--hparams) is the hidden size.",
        null=0,
    )
    vocab_size: int = hyperparameter(
        30522,
        "Vocabulary size: the number of embeddings; at least the number of entries of "
        "--vocab_file.",
    )
    do_lower_case: bool = hyperparameter(
        True,
        "Whether the records are lowercased. If unset, taken from the tokenizer description "
        "beside the vocabulary, or else from the records, if they record it.",
    )
    strip_accents: bool = hyperparameter(
        True,
        "Whether accents were stripped from the records. If unset, taken from the tokenizer "
        "description beside the vocabulary, or else from the records, if they record it.",
    )

    generator_type: str | None = hyperparameter(
        None,
        "Source of the replacement tokens: masked_lm (a masked language model), two_tower "
        "(Electric's pair of encoders, one for each direction), uniform, or unigram (token "
        "frequencies of the records). If unset, selected by --uniform_generator and "
        "--two_tower_generator; by default two_tower for Electric, else masked_lm.",
        GENERATORS,
    )
    uniform_generator: bool = hyperparameter(
        False, "The same as --generator_type=uniform.", influence=SYNONYM
    )
    two_tower_generator: bool = hyperparameter(
        False, "The same as --generator_type=two_tower.", influence=SYNONYM
    )
    embedding_sharing: str | None = hyperparameter(
        None,
        "Weights that the generator shares with the discriminator: none, token (token "
        "embeddings), es (token and position embeddings), embeddings (all embeddings and their "
        "LayerNorm, as in the authors' code), all, or gdes (DeBERTaV3's gradient-disentangled "
        "embeddings). If unset, selected by --untied_generator and "
        "--untied_generator_embeddings; embeddings by default.",
        EMBEDDING_SHARING,
    )
    untied_generator: bool = hyperparameter(
        True,
        "Share only the weights of --embedding_sharing; false shares all weights between "
        "generator and discriminator.",
        influence=SYNONYM,
        null=False,
    )
    untied_generator_embeddings: bool = hyperparameter(
        False,
        "Give the generator its own token, position and segment embeddings.",
        influence=SYNONYM,
    )
    generator_layers: float = hyperparameter(
        1.0,
        "Generator depth, as a fraction of the discriminator's. Unused if the generator has no "
        "encoder of its own: uniform, unigram, --embedding_sharing=all, --objective=mlm.",
    )
    generator_hidden_size: float = hyperparameter(
        0.25,
        "Generator width, as a fraction of the discriminator's; unused where "
        "--generator_layers is.",
    )
    replacement: str = hyperparameter(
        "sample",
        "How the generator chooses replacement tokens: sample draws from its distribution, "
        "argmax takes its most likely tokens.",
        REPLACEMENTS,
    )
    disallow_correct: bool = hyperparameter(
        False, "Never sample the original token as its own replacement."
    )
    temperature: float = hyperparameter(1.0, "Softmax temperature of generator sampling.")
    temperature_end: float | None = hyperparameter(
        None,
        "Final temperature of a linear schedule over all steps, also those of the first stage "
        "of --objective=two_stage; constant at --temperature if unset. "
        "Evaluations use --temperature.",
    )

    max_seq_length: int = hyperparameter(
        128, "Maximum sequence length, in tokens; must match the records."
    )
    length_curriculum: Sequence[int] = hyperparameter(
        (),
        "Sequence-length curriculum: shorter lengths to train on first, such as 128 before "
        "512. Their records are read from DATA_DIR/pretrain_tfrecords_LENGTH, or from "
        "--pretrain_tfrecords with {length} in the path.",
    )
    length_curriculum_share: float = hyperparameter(
        0.9,
        "Fraction of the steps spent at the shorter lengths of --length_curriculum, divided "
        "equally among them.",
    )
    train_batch_size: int = hyperparameter(
        128, "Global batch size: sequences per update, over all replicas."
    )
    eval_batch_size: int = hyperparameter(
        128, "Global batch size of evaluation.", influence=EVALUATION
    )
    num_eval_steps: int = hyperparameter(
        100, "Maximum number of batches per evaluation.", influence=EVALUATION
    )

    pretrain_tfrecords: str | None = hyperparameter(
        None,
        "Training records: comma-separated files or glob patterns; "
        "DATA_DIR/pretrain_tfrecords/pretrain_data.tfrecord* if unset.",
        influence=NOTHING,
    )
    eval_tfrecords: str | None = hyperparameter(
        None,
        "Held-out records, evaluated at every checkpoint and by --do_eval. If unset, those "
        "that --eval_fraction of the corpus builder wrote beside the training records.",
        influence=EVALUATION,
    )
    vocab_file: str | None = hyperparameter(
        None, "WordPiece vocabulary; DATA_DIR/vocab.txt if unset.", influence=NOTHING
    )
    shuffle_buffer_size: int = hyperparameter(10_000, "Shuffle buffer, in examples.")
    deterministic_reading: bool = hyperparameter(
        True,
        "Read examples in the same order in every run; false is faster, but a resumed run "
        "sees different data, and several workers need --shard_by=file.",
    )
    skip_bad_records: bool = hyperparameter(
        False, "Skip corrupt records and count them.", influence=NOTHING
    )

    init_checkpoint: str | None = hyperparameter(
        None,
        "Weights to initialize from: a checkpoint of this project (folder, prefix or name "
        "in DATA_DIR/models) or of the authors' code, or a Hugging Face or KerasHub folder. "
        "Model size, vocabulary and casing default to those of the checkpoint. Ignored when "
        "the run resumes.",
        influence=NOTHING,
    )
    model_dir: str | None = hyperparameter(
        None,
        "Folder of checkpoints and logs; DATA_DIR/models/NAME if unset. A remote folder "
        "(gs://…) is staged in TMPDIR.",
        influence=NOTHING,
    )
    results_txt: str | None = hyperparameter(
        None,
        "Metrics of --do_eval as text; MODEL_DIR/results/unsup_results.txt if unset.",
        influence=NOTHING,
    )
    results_json: str | None = hyperparameter(
        None,
        "Metrics of --do_eval as JSON; MODEL_DIR/results/unsup_results.json if unset.",
        influence=NOTHING,
    )
    results_pkl: str | None = hyperparameter(
        None, "Metrics of --do_eval as a pickle; not written if unset.", influence=NOTHING
    )

    report: bool = hyperparameter(
        True,
        "Write an HTML report into the run's folder when it ends, if the extra `report` is "
        "installed.",
        influence=NOTHING,
    )

    allow_changed_settings: Sequence[str] = hyperparameter(
        (),
        "Comma-separated settings that a resumed run may change, such as num_train_steps; any "
        "other change that affects training is refused.",
        influence=SYNONYM,
    )

    seed: int = hyperparameter(
        42, "Random seed of initialization, masking, sampling, dropout and shuffling."
    )
    precision: str = hyperparameter(
        "float32",
        "Mixed precision (Keras dtype policy); mixed_bfloat16 if unset on a TPU.",
        PRECISIONS,
    )
    jit_compile: bool = hyperparameter(
        False, "Compile the training step with XLA; recommended on GPUs.", influence=NOTHING
    )
    triton_kernels: bool = hyperparameter(
        False,
        "Compute attention, normalizations, GELU, and softmax and sampling over the vocabulary "
        "in kernels that Triton compiles, with --jit_compile in half precision on NVIDIA GPUs; "
        "needs the extra `gpu`.",
        influence=NOTHING,
    )
    rematerialize: bool = hyperparameter(
        False,
        "Gradient checkpointing: recompute encoder layers in the backward pass; slower, but "
        "takes less memory.",
        influence=NOTHING,
    )
