"""Pre-training: objectives, options, replicas, precisions, and runs that are interrupted."""

from typing import Any

from benchmarks.compare_checkouts.cases import (
    CASE,
    INPUTS,
    Case,
    Command,
    Interruption,
    killed_at,
    preempted_in_first_loop,
)
from benchmarks.compare_checkouts.inputs import (
    MODEL_NAME,
    POSITIONS,
    PRETRAINING,
    SHORT_LENGTH,
)

_PROGRAM = "run_pretraining.py"
_MODEL = f"{INPUTS}/models/{MODEL_NAME}"
# Below the norms of all steps.
_CLIP = {"clip_norm": 0.5}
_REPLICAS = {"strategy": "mirrored", "num_virtual_cpus": 2, **_CLIP}
_REPLICAS_IN_PARTS = {**_REPLICAS, "gradient_accumulation_steps": 2}
_SPAN_BOUNDARY = {"masking": "span", "span_boundary_weight": 1.0}
# Its generator has the shape of the discriminator, whose heads have 64 / 4 units.
_TWO_STAGE = {
    "objective": "two_stage",
    "embedding_sharing": "none",
    "embedding_size": 16,
    "generator_hidden_size": 1.0,
    "model_hparam_overrides": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "intermediate_size": 64,
        "max_position_embeddings": POSITIONS,
    },
}
# The first gradients overflow, so that steps are skipped and the loss scale falls.
_OVERFLOW = {"precision": "mixed_float16", "gen_weight": 1000.0}
_LONG = {"num_train_steps": 200, "log_steps": 7, "save_checkpoints_steps": 31}
_STAGES = {**_TWO_STAGE, "num_train_steps": 80}
_CURRICULUM = {
    "length_curriculum": SHORT_LENGTH,
    "length_curriculum_share": 0.5,
    "mask_prob": 0.2,
    "mask_prob_end": 0.4,
    "max_predictions_per_seq": 6,
    "num_train_steps": 80,
}

# What a pre-trained model is asked for, after training.
_EVALUATE = {"do_train": False, "do_eval": True, "results_pkl": f"{CASE}/results.pkl"}
_SCORE = {
    "text_file": f"{INPUTS}/sentences.txt",
    "output_file": f"{CASE}/scores.tsv",
    "truncate_texts": True,
}
_RERANK = {
    "nbest_file": f"{INPUTS}/nbest.jsonl",
    "tune_nbest_file": f"{INPUTS}/nbest.jsonl",
    "output_file": f"{CASE}/reranked.jsonl",
    "truncate_texts": True,
}


def _command(program: str = _PROGRAM, **flags: Any) -> Command:
    return Command(program, {**PRETRAINING, **flags})


def _case(name: str, **flags: Any) -> Case:
    return Case(f"pretrain_{name}", (_command(**flags),))


def _resumed(name: str, interruption: Interruption, same_as: str, **flags: Any) -> Case:
    """Returns a run that is interrupted and goes on; it ends as another one."""
    flags = {**PRETRAINING, **flags}
    commands = (Command(_PROGRAM, flags, interruption=interruption), Command(_PROGRAM, flags))
    return Case(f"pretrain_{name}", commands, same_as=f"pretrain_{same_as}")


def _with_evaluation(name: str, **flags: Any) -> Case:
    return Case(f"pretrain_{name}", (_command(**flags), _command(**flags, **_EVALUATE)))


def _with_scores(name: str, *requests: dict[str, Any], **flags: Any) -> Case:
    scored = (_command("score_text.py", **flags, **request) for request in requests)
    return Case(f"pretrain_{name}", (_command(**flags), *scored))


_SHOW = Command(
    "show_replaced_tokens.py",
    {**PRETRAINING, "text_file": f"{INPUTS}/sentences.txt", "color": False},
    output="shown.txt",
)
_CONVERT = Command(
    "convert_checkpoint.py",
    {"from": _MODEL, "to_format": "huggingface", "output": f"{CASE}/huggingface"},
)

OBJECTIVE_CASES = (
    Case("pretrain_electra", (_command(), _command(**_EVALUATE), _SHOW)),
    _case("electra_15", objective="electra_15", masking="whole_word", embedding_sharing="gdes"),
    _case(
        "replace_mlm", objective="replace_mlm", masking="strategic", embedding_sharing="none"
    ),
    _case(
        "all_tokens_mlm",
        objective="all_tokens_mlm",
        embedding_sharing="all",
        generator_hidden_size=1.0,
        **_SPAN_BOUNDARY,
    ),
    _with_scores("mlm", _SCORE, _RERANK, objective="mlm", masking_with_replacement=True),
    _with_scores("electric", _SCORE, objective="electric"),
    _with_evaluation("two_stage", **_STAGES),
    _case(
        "adversarial",
        objective="adversarial",
        embedding_sharing="none",
        generator_learning_rate=1e-4,
    ),
    _with_evaluation("sentence_contrastive", objective="sentence_contrastive"),
)

OPTION_CASES = (
    _with_scores("two_tower", _SCORE, generator_type="two_tower"),
    _case("electric_two_tower", objective="electric", generator_type="two_tower"),
    _case("uniform", objective="sentence_contrastive", generator_type="uniform"),
    _case("unigram", generator_type="unigram", disallow_correct=True, temperature=2.0),
    _case(
        "token_sharing",
        embedding_sharing="token",
        masking="strategic",
        masking_hparams={"power": 0.8},
        temperature=0.7,
    ),
    _case(
        "no_sharing",
        embedding_sharing="none",
        masking="whole_word",
        disallow_correct=True,
        generator_learning_rate=5e-4,
        lr_decay_power=2.0,
    ),
    _case("all_sharing", embedding_sharing="all", generator_hidden_size=1.0),
    _case("span_boundary", **_SPAN_BOUNDARY),
    _case("length_curriculum", **_CURRICULUM),
    _case("lamb", optimizer="lamb", embedding_sharing="gdes"),
    _case("rematerialize", rematerialize=True, objective="replace_mlm"),
    _case("float16", **_OVERFLOW, optimizer="lamb", rematerialize=True),
    _case("bfloat16", precision="mixed_bfloat16", objective="electric"),
    _case("xla", jit_compile=True),
)

REPLICA_CASES = (
    _case("accumulation", gradient_accumulation_steps=4, **_CLIP, **_SPAN_BOUNDARY),
    _case(
        "accumulation_sentence_contrastive",
        gradient_accumulation_steps=4,
        objective="sentence_contrastive",
        **_CLIP,
    ),
    _case("accumulation_adversarial", gradient_accumulation_steps=4, objective="adversarial"),
    _case("replicas", **_REPLICAS, **_SPAN_BOUNDARY),
    _case("replicas_adversarial", **_REPLICAS, objective="adversarial"),
    _case("replicas_in_parts", **_REPLICAS_IN_PARTS, **_SPAN_BOUNDARY),
    _case("replicas_in_parts_electric", **_REPLICAS_IN_PARTS, objective="electric"),
    _case(
        "replicas_in_parts_sentence_contrastive",
        **_REPLICAS_IN_PARTS,
        objective="sentence_contrastive",
    ),
    _case(
        "replicas_in_parts_all_tokens_mlm",
        **_REPLICAS_IN_PARTS,
        objective="all_tokens_mlm",
        generator_learning_rate=5e-4,
    ),
    _case("replicas_in_parts_two_stage", **_REPLICAS_IN_PARTS, **_TWO_STAGE),
    _case(
        "replicas_float16",
        **_REPLICAS_IN_PARTS,
        **_OVERFLOW,
        objective="replace_mlm",
    ),
)

INTERRUPTED_CASES = (
    _case("long", **_LONG),
    _resumed("killed", killed_at("model/ckpt-31"), "long", **_LONG),
    _resumed("preempted", preempted_in_first_loop("model/ckpt-4"), "long", **_LONG),
    _resumed("killed_two_stage", killed_at("model/ckpt-10"), "two_stage", **_STAGES),
    _resumed("killed_in_second_stage", killed_at("model/ckpt-50"), "two_stage", **_STAGES),
    _resumed(
        "killed_curriculum",
        killed_at("model/ckpt-50"),
        "length_curriculum",
        **_CURRICULUM,
    ),
    Case(
        "pretrain_initialized",
        (
            _CONVERT,
            _command(init_checkpoint=f"{CASE}/huggingface/discriminator", num_train_steps=10),
            _command(init_checkpoint=_MODEL, num_train_steps=10, model_dir=f"{CASE}/from_own"),
        ),
    ),
)

PRETRAINING_CASES = (*OBJECTIVE_CASES, *OPTION_CASES, *REPLICA_CASES, *INTERRUPTED_CASES)
