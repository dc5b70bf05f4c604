"""Sets up a pre-training run: recorded settings, initial weights, data statistics, log."""

import dataclasses
import glob
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.distribution import BY_FILE
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.recorded_settings import Change
from electra_tf.config.resumption import (
    DATA,
    FILE_READERS,
    HELD_OUT,
    STAGE_SETTINGS,
    VOCABULARY,
    WORDS,
)
from electra_tf.config.saved_config import CONFIG_FILE, load_saved_config
from electra_tf.config.trained_positions import TRAINED_POSITIONS, positions_of_run
from electra_tf.flops.counting import model_flops_by_phase
from electra_tf.flops.gpu_peaks import peak_bfloat16_flops
from electra_tf.interop.initialization import (
    initialize_from_checkpoint,
    load_authors_weights,
    resume_authors_run,
)
from electra_tf.interop.variable_names import encoder_variables, named_variables
from electra_tf.masking.word_list import word_list_sha256
from electra_tf.model_builder import TokenCounter, create_model, load_model, set_stage
from electra_tf.pretraining.records import PretrainingRecords
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.checkpoints.authors_files import (
    authors_checkpoint,
    has_only_authors_checkpoint,
    has_own_checkpoint,
)
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.checkpoints.checkpoint_files import (
    CHECKPOINT_NAME,
    warn_of_lost_checkpoints,
)
from electra_tf.training.distribution.context import DistributionContext
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.monitoring.health import facts_of
from electra_tf.training.monitoring.log import (
    TENSORBOARD_DIR,
    SilentLog,
    TrainLog,
    Utilization,
)
from electra_tf.training.monitoring.run_info import (
    LOG_FILE,
    RUN_INFO_FILE,
    SENTENCES_FILE,
    write_run_info,
)
from electra_tf.training.monitoring.trackers import open_trackers
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import remove_files
from electra_tf.util.temporaries import remove_folder

# Number of examples from which the frequencies of frequent tokens are estimated.
_SAMPLED_EXAMPLES = 1000
# Files of a run in its folder, beside checkpoints and its vocabulary.
_FILES_OF_RUNS = ("checkpoint", CONFIG_FILE, LOG_FILE, SENTENCES_FILE, RUN_INFO_FILE)


def tokenizer_of(config: PretrainingConfig, vocabulary: Vocabulary) -> TokenizerDescription:
    """Returns the tokenizer that the records must have been built with."""
    return TokenizerDescription(
        vocab_sha256=vocabulary.sha256,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )


def run_settings(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    records: PretrainingRecords,
    num_workers: int = 1,
    eval_records: PretrainingRecords | None = None,
) -> dict[str, Any]:
    """Returns the settings to record for a run: hyperparameters, and digests of its data."""
    lengths = (*config.length_curriculum, config.max_seq_length)
    others: dict[str, Any] = {}
    if config.shard_by == BY_FILE:
        others[FILE_READERS] = num_workers
    if eval_records is not None:
        others[HELD_OUT] = eval_records.fingerprint(config.max_seq_length)
    elif has_own_checkpoint(config.model_dir) and (
        saved := load_saved_config(config.model_dir)
    ):
        # Kept for a later start that evaluates again, whose records are compared with these.
        others.update({k: v for k, v in saved.hyperparameters.items() if k == HELD_OUT})
    return {
        **dataclasses.asdict(config),
        DATA: {str(length): records.fingerprint(length) for length in lengths},
        VOCABULARY: vocabulary.sha256,
        WORDS: word_list_sha256(config.word_list),
        **others,
    }


def remove_debug_run(model_dir: str, workers: Workers) -> None:
    """Removes the files of an earlier debug run: each starts over, as in the authors' code.

    Only files that a run writes are removed: the folder may contain other runs or data.

    Raises:
        UserError: the folder has checkpoints of a run that was not one of debug mode.
    """
    saved = load_saved_config(model_dir)
    is_debug = saved is not None and saved.hyperparameters.get("debug")
    if not is_debug and (has_own_checkpoint(model_dir) or authors_checkpoint(model_dir)):
        raise UserError(
            f"--debug would replace the run in {model_dir}: pass another --model_name"
        )
    workers.barrier()
    if is_debug and workers.is_chief:
        remove_folder(os.path.join(model_dir, TENSORBOARD_DIR))
        remove_files(
            *glob.iglob(os.path.join(glob.escape(model_dir), f"{CHECKPOINT_NAME}-*")),
            *(os.path.join(model_dir, name) for name in _FILES_OF_RUNS),
        )
    workers.barrier()


def recorded_origin(config: PretrainingConfig) -> dict[str, Any]:
    """Returns the recorded origin of the weights, which a resumed run keeps.

    A resumed run does not load `--init_checkpoint` again, and position embeddings stay trained
    when its sequences become shorter. The trained positions of a converted model stay unknown.
    """
    saved = load_saved_config(config.model_dir)
    if saved is None:
        return {}
    recorded = saved.hyperparameters
    kept = {"init_checkpoint": recorded.get("init_checkpoint")}
    longest = positions_of_run(recorded)
    is_kept = longest is None or longest > config.max_seq_length
    return kept | ({TRAINED_POSITIONS: longest} if is_kept else {})


def restore(
    config: PretrainingConfig,
    model: PretrainingModel,
    optimizer: keras.optimizers.Optimizer,
    step: tf.Variable,
    checkpoints: CheckpointDirectory,
    print_fn: Callable[[str], None],
) -> bool:
    """Loads the weights that a run starts from; returns whether it resumes its own checkpoint.

    In order of precedence: the run's own checkpoint; one of the authors' code in its folder,
    with the optimizer; `--init_checkpoint`, without it; the random weights of the model.

    Raises:
        UserError: the checkpoint is damaged, or belongs to another model.
    """
    if has_only_authors_checkpoint(config.model_dir):
        resume_authors_run(config.model_dir, model, optimizer, step, print_fn)
        return False
    if checkpoints.resume():
        return True
    warn_of_lost_checkpoints(config.model_dir)
    if config.init_checkpoint:
        initialize_from_checkpoint(
            config.init_checkpoint,
            named_variables(model),
            encoder_variables(model.electra),
            encoder=model.electra.config,
            flag="--init_checkpoint",
            print_fn=print_fn,
        )
    return False


def load_evaluated_model(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    strategy: tf.distribute.Strategy,
    token_counts: TokenCounter,
    workers: Workers,
) -> tuple[PretrainingModel, int, str]:
    """Returns the model to evaluate, its step and the path of its checkpoint.

    The checkpoint is the run's latest, or one of the authors' code in its folder, which must
    have all variables of the model. The arguments are those of `load_model`.

    Raises:
        UserError: as `load_model`, or a variable is missing or has another shape.
    """
    if not has_only_authors_checkpoint(config.model_dir):
        return load_model(config, vocabulary, strategy, token_counts, workers)
    with strategy.scope():
        model = create_model(config, vocabulary, token_counts)
    checkpoint, _ = load_authors_weights(config.model_dir, model)
    workers.require_equal_weights(model.variables, checkpoint.path)
    step = checkpoint.step or 0
    set_stage(model, step)
    return model, step, checkpoint.path


def require_same_stage(
    model_class: type[PretrainingModel],
    config: PretrainingConfig,
    changes: Sequence[Change],
    step: int,
) -> None:
    """Raises UserError if changed settings put a resumed run into another stage.

    It would skip the initialization of a stage, or repeat it.

    Args:
        model_class: class of the objective.
        config: configuration of the resumed run.
        changes: changes of its settings.
        step: step that it resumes from.
    """
    changed = {each.name: each.recorded for each in changes if each.name in STAGE_SETTINGS}
    now = model_class.stages_of(config)
    before = model_class.stages_of(dataclasses.replace(config, **changed))
    ends = [sum(stage.num_steps for stage in stages[:-1]) for stages in (before, now)]
    if len({step > end for end in ends}) > 1:
        raise UserError(
            f"The stage {now[-1].name} of --objective={config.objective} began after step "
            f"{ends[0]}, and with the changed {', '.join(changed)} it would begin after step "
            f"{ends[1]}. The run resumes from step {step}, which must be in the same stage"
        )


def utilization_of(
    config: PretrainingConfig, strategy: tf.distribute.Strategy
) -> Utilization | None:
    """Returns the inputs of the MFU; None on CPUs, and on GPUs of unknown peak.

    The peak is that of bfloat16 in every precision; other hosts are assumed to have the same
    GPUs.
    """
    if not all(":GPU:" in device for device in strategy.extended.worker_devices):
        return None
    names = {
        tf.config.experimental.get_device_details(gpu).get("device_name", "")
        for gpu in tf.config.get_visible_devices("GPU")
    }
    peak = peak_bfloat16_flops(names.pop()) if len(names) == 1 else None
    if peak is None:
        return None
    return Utilization(peak * strategy.num_replicas_in_sync, model_flops_by_phase(config))


def data_statistics(
    config: PretrainingConfig, vocabulary: Vocabulary, records: PretrainingRecords
) -> dict[str, float]:
    """Returns statistics of the first records, which the diagnoses of the run need.

    Returns:
        `unigram_accuracy`, the masked-LM accuracy of always predicting the most frequent
        token, and `unknown_share`, of the words.

    Raises:
        UserError: there is no text in them.
    """
    counts = text_counts(config, vocabulary, records)
    num_words = int(counts[: vocabulary.size][vocabulary.begins_word[: len(counts)]].sum())
    return {
        "unigram_accuracy": float(counts.max() / counts.sum()),
        "unknown_share": float(counts[vocabulary.unk_id] / max(1, num_words)),
    }


def text_counts(
    config: PretrainingConfig, vocabulary: Vocabulary, records: PretrainingRecords
) -> np.ndarray:
    """Returns the counts of all but special tokens in the first records, int64 [vocab_size].

    Raises:
        UserError: there is no text in them.
    """
    counts = np.array(records.token_counts(config.vocab_size, max_examples=_SAMPLED_EXAMPLES))
    if counts[vocabulary.pad_id]:
        warn_once(
            f"the first examples of {records.describe(config.max_seq_length)} have [PAD] where "
            "input_mask is 1, so it is masked and learned like a word. Build records whose "
            "input_mask is 0 there"
        )
    special = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id]
    counts[special] = 0
    if not counts.any():
        raise UserError(
            f"The first examples of {records.describe(config.max_seq_length)} contain "
            "only special tokens and padding (input_mask 0), and no text: build the records "
            "again"
        )
    return counts


def open_log(
    config: PretrainingConfig,
    settings: Mapping[str, Any],
    statistics: Mapping[str, float],
    first_step: int,
    context: DistributionContext,
) -> TrainLog | SilentLog:
    """Returns the log of a run, which the chief writes, and records the run's environment.

    Args:
        config: hyperparameters.
        settings: result of `run_settings`.
        statistics: result of `data_statistics`.
        first_step: steps that have been trained.
        context: distribution of the run.
    """
    if not context.workers.is_chief:
        return SilentLog()
    write_run_info(
        config.model_dir,
        context.strategy.extended.worker_devices,
        statistics,
        context.num_parts(config.gradient_accumulation_steps),
    )
    return TrainLog(
        config.model_dir,
        first_step=first_step,
        num_train_steps=config.num_train_steps,
        batch_size=config.train_batch_size,
        seq_length=config.max_seq_length,
        utilization=utilization_of(config, context.strategy),
        facts=facts_of(settings, **statistics),
        settings=settings,
        trackers=open_trackers(
            config.trackers,
            model_dir=config.model_dir,
            settings=settings,
            first_step=first_step,
        ),
    )
