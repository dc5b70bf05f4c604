"""The modules that are mutated, and the tests that must notice.

Tests of one process only, those that are most likely to fail first: files, folders and options
of pytest. Of the objectives' tests, a minute in all, each module has its own, and those of what
all objectives have.
"""

from collections.abc import Mapping

_OBJECTIVES = "tests/electra_tf/objectives"
_LAYERS = f"{_OBJECTIVES}/test_layers_and_weights.py"
_COMMON = f"{_OBJECTIVES}/test_objectives.py"
_REPLACEMENTS = "tests/electra_tf/generators/test_replacements.py"
_MASKING = "tests/electra_tf/masking/test_masking.py"
_TRAINING = "tests/electra_tf/training"
_CHECKPOINTS = "tests/electra_tf/training/checkpoints/test_checkpoint_files.py"

TARGETS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "metrics": {
        "finetune/tasks/text/metrics.py": ("tests/finetune/tasks/text/test_metrics.py",),
        "finetune/tasks/qa/squad_metrics.py": (
            "tests/finetune/tasks/qa/test_squad_metrics.py",
        ),
        "finetune/tasks/tagging/spans.py": ("tests/finetune/tasks/tagging/test_spans.py",),
        "finetune/tasks/tagging/metrics.py": ("tests/finetune/tasks/tagging/test_metrics.py",),
        "electra_tf/model/metrics.py": ("tests/electra_tf/model/test_metrics.py",),
        "electra_tf/model/token_scores.py": ("tests/electra_tf/model/test_token_scores.py",),
    },
    "schedules": {
        "electra_tf/model/schedules.py": ("tests/electra_tf/model/test_schedules.py",),
        "electra_tf/training/learning_rate.py": (
            "tests/electra_tf/training/test_learning_rate.py",
        ),
    },
    "masking": {
        "electra_tf/masking/masked_batch.py": (
            "tests/electra_tf/masking/test_masked_batch.py",
        ),
        "electra_tf/generators/sampling.py": ("tests/electra_tf/generators/test_sampling.py",),
        "electra_tf/model/positions.py": ("tests/electra_tf/model/test_positions.py",),
        "electra_tf/masking/base.py": ("tests/electra_tf/masking/test_base.py",),
        "electra_tf/masking/learned.py": (
            "tests/electra_tf/masking/test_learned.py",
            *("-k", "not alone_learns"),
        ),
        "electra_tf/masking/span.py": (_MASKING, "-k", "span or without_a_candidate"),
        "electra_tf/masking/strategic.py": (
            "tests/electra_tf/masking",
            "-k",
            "strategic",
        ),
        "electra_tf/masking/units.py": (_MASKING, "-k", "word or candidate"),
        "electra_tf/masking/whole_word.py": (_MASKING, "-k", "word"),
        "electra_tf/masking/word_list.py": ("tests/electra_tf/masking/test_word_list.py",),
    },
    "checkpoints": {
        f"electra_tf/training/checkpoints/{name}.py": tests
        for name, tests in {
            "checkpoint_files": (_CHECKPOINTS,),
            "checkpoint_writing": (_CHECKPOINTS,),
            "checkpoint_directory": (
                "tests/electra_tf/training/checkpoints/test_checkpoint_directory.py",
                _CHECKPOINTS,
            ),
            "best_checkpoint": (
                "tests/electra_tf/training/checkpoints/test_best_checkpoint.py",
            ),
        }.items()
    },
    "losses": {
        "electra_tf/pretraining_model.py": (
            "tests/electra_tf/test_pretraining_model.py",
            _REPLACEMENTS,
        ),
        "electra_tf/objectives/adversarial.py": (
            *(_LAYERS, f"{_OBJECTIVES}/test_adversarial.py", _COMMON, _REPLACEMENTS),
            *("-k", "adversarial or zero_or_more or by_default"),
        ),
        "electra_tf/objectives/all_tokens_mlm.py": (
            *(_LAYERS, f"{_OBJECTIVES}/test_all_tokens_mlm.py", _COMMON),
            *("-k", "all_tokens"),
        ),
        "electra_tf/objectives/electric.py": (
            *(_REPLACEMENTS, _LAYERS, f"{_OBJECTIVES}/test_electric.py", _COMMON),
            *("-k", "electric or no_meaning or no_effect"),
        ),
        "electra_tf/objectives/mlm.py": (
            *(_LAYERS, _REPLACEMENTS),
            *("-k", "mlm and not replace and not all_tokens or no_meaning"),
        ),
        "electra_tf/objectives/replace_mlm.py": (
            *(_LAYERS, f"{_OBJECTIVES}/test_replace_mlm.py"),
            *("-k", "replace_mlm or zero_or_more or by_default"),
        ),
        "electra_tf/objectives/sentence_contrastive.py": (
            f"{_OBJECTIVES}/test_sentence_contrastive.py",
        ),
        "electra_tf/objectives/two_stage.py": (f"{_OBJECTIVES}/test_two_stage.py",),
        "finetune/tasks/text/class_loss.py": ("tests/finetune/tasks/text/test_class_loss.py",),
    },
    "updates": {
        "electra_tf/training/accumulation.py": (f"{_TRAINING}/test_accumulation.py",),
        "electra_tf/training/nonfinite.py": (
            f"{_TRAINING}/test_nonfinite.py",
            *("-k", "not influence and not xla"),
        ),
        "electra_tf/training/optimizer.py": (f"{_TRAINING}/test_optimizer.py",),
        "electra_tf/generators/sharing.py": (
            "tests/electra_tf/generators/test_sharing.py",
            "tests/electra_tf/test_pretraining_model.py",
            *("-k", "shar or embeddings"),
        ),
    },
    "data": {
        "electra_tf/training/distribution/shards.py": (
            f"{_TRAINING}/distribution/test_shards.py",
            *("-k", "split or every_record_is_read_once or together"),
        ),
        "pretrain_data/records/reader.py": (
            "tests/pretrain_data/records/test_reader.py",
            *("-k", "shuffling or permutation or order or taken_up or everything_once"),
        ),
        "electra_tf/text/framing.py": (
            "tests/electra_tf/text/test_framing.py",
            "tests/electra_tf/text/test_text_inputs.py",
        ),
        "electra_tf/text/text_inputs.py": ("tests/electra_tf/text/test_text_inputs.py",),
    },
    "answers": {
        "finetune/results/calibration.py": ("tests/finetune/results/test_calibration.py",),
        "finetune/tasks/qa/nbest.py": ("tests/finetune/tasks/qa/test_nbest.py",),
        "finetune/tasks/text/windows.py": ("tests/finetune/tasks/text/test_windows.py",),
    },
    "conversions": {
        "electra_tf/interop/variable_names.py": (
            "tests/electra_tf/interop/test_variable_names.py",
        ),
        "electra_tf/interop/huggingface/tensor_names.py": (
            "tests/electra_tf/interop/huggingface/test_head_tensors.py",
            "tests/electra_tf/interop/huggingface/test_format.py",
        ),
    },
}
