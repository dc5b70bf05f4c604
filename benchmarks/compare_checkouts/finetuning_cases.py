"""Fine-tuning: every kind of task, several together, replicas and interrupted runs."""

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
from benchmarks.compare_checkouts.inputs import MODEL_NAME

_PROGRAM = "run_finetuning.py"
_COMMON = {
    "data_dir": CASE,
    "model_name": MODEL_NAME,
    "raw_data_dir": f"{INPUTS}/finetuning_data",
    "model_dir": f"{CASE}/model",
    "results_dir": f"{CASE}/results",
    "preprocessed_data_dir": f"{CASE}/features",
    "max_seq_length": 16,
    "length_buckets": (8, 16),
    "train_batch_size": 8,
    "eval_batch_size": 6,
    "predict_batch_size": 4,
    "learning_rate": 5e-3,
    "num_train_epochs": 3,
    "log_steps": 4,
    "iterations_per_loop": 3,
}
_QUESTIONS = {
    "max_seq_length": 24,
    "length_buckets": (16, 24),
    "max_query_length": 8,
    "doc_stride": 6,
    "n_best_size": 5,
    "beam_size": 4,
    "max_answer_length": 4,
}
_SELECT = {"keep_best": True, "eval_steps": 4}
_CHUNK = {"task_names": "chunk", **_SELECT}
_REPLICAS = {"strategy": "mirrored", "num_virtual_cpus": 2}


def _own(name: str) -> dict[str, str]:
    return {"task_spec": f"{INPUTS}/own_tasks/{name}.json"}


def _command(**flags: Any) -> Command:
    return Command(_PROGRAM, {**_COMMON, **flags})


def _case(name: str, *commands: Command, **flags: Any) -> Case:
    return Case(f"finetune_{name}", (_command(**flags), *commands), with_model=True)


def _resumed(name: str, interruption: Interruption, **flags: Any) -> Case:
    flags = {**_COMMON, **_CHUNK, **flags}
    commands = (Command(_PROGRAM, flags, interruption=interruption), Command(_PROGRAM, flags))
    return Case(f"finetune_{name}", commands, same_as="finetune_chunk", with_model=True)


_EVALUATE = _command(task_names="cola", do_train=False, results_dir=f"{CASE}/evaluated")
_COMPARE = Command(
    "compare_results.py",
    {
        "results": f"{CASE}/results,{CASE}/evaluated",
        "names": "trained,evaluated",
        "output": f"{CASE}/compared.md",
    },
)
_EXPORT = Command(
    "export_saved_model.py",
    {"model_dir": f"{CASE}/model_1", "export_dir": f"{CASE}/exported"},
)

FINETUNING_CASES = (
    _case(
        "cola",
        _EVALUATE,
        _COMPARE,
        task_names="cola",
        num_trials=2,
        write_test_outputs=True,
        do_predict=True,
        predict_file=f"{INPUTS}/finetuning_data/cola/test.tsv",
        predict_output=f"{CASE}/predicted.tsv",
    ),
    _case("chunk", _EXPORT, **_CHUNK),
    _case(
        "squad",
        task_names="squad",
        write_test_outputs=True,
        num_train_epochs=2,
        **_QUESTIONS,
    ),
    _case(
        "topic",
        task_names="topic",
        num_folds=3,
        layerwise_lr_decay=0.5,
        authors_layerwise_lr_decay=True,
        num_train_epochs=2,
        **_own("topic"),
    ),
    _case(
        "topics",
        task_names="topics",
        early_stopping_patience=2,
        eval_steps=3,
        num_train_epochs=8,
        do_predict=True,
        predict_file=f"{INPUTS}/own_tasks/new.tsv",
        **_own("topics"),
    ),
    _case(
        "score",
        task_names="score",
        write_test_outputs=True,
        gradient_accumulation_steps=4,
        optimizer="lamb",
        **_own("score"),
    ),
    _case(
        "tags",
        task_names="tags",
        write_test_outputs=True,
        init_checkpoint="random",
        layerwise_lr_decay=1.0,
        bucket_by_length=False,
        precision="mixed_bfloat16",
        **_own("tags"),
    ),
    _case(
        "answers",
        task_names="answers",
        write_test_outputs=True,
        joint_prediction=False,
        answerable_classifier=False,
        num_train_epochs=1,
        **_QUESTIONS,
        **_own("answers"),
    ),
    _case(
        "several_tasks",
        task_names="cola,chunk,score",
        precision="mixed_float16",
        rematerialize=True,
        num_trials=2,
        num_train_epochs=2,
        **_SELECT,
        **_own("score"),
    ),
    _case("replicas", task_names="cola,chunk", clip_norm=0.1, **_SELECT, **_REPLICAS),
    _case(
        "replicas_in_parts",
        task_names="chunk",
        gradient_accumulation_steps=2,
        do_predict=True,
        predict_file=f"{INPUTS}/finetuning_data/chunk/test.txt",
        **_REPLICAS,
    ),
    _resumed("preempted", preempted_in_first_loop("model_1/ckpt-3")),
    _resumed("killed", killed_at("model_1/ckpt-2"), save_checkpoints_steps=2),
)
