"""The sizes that the study is run at: one for two CPU cores, one for a GPU."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmarks.study.gate import chosen_settings


@dataclasses.dataclass(frozen=True)
class Size:
    """What all models of a study have in common.

    Attributes:
        name: of the flag `--size`.
        settings: hyperparameters of ELECTRA's pre-training.
        rates: learning rates that differ from ELECTRA's, by name of the model.
        unit_steps: steps of ELECTRA in a budget of 1.
        finetuning: flags of run_finetuning.py.
    """

    name: str
    settings: Mapping[str, Any]
    rates: Mapping[str, float]
    unit_steps: int
    finetuning: tuple[str, ...]

    def scaled(self, factor: float) -> "Size":
        """Returns the size with so many times the steps in a budget of 1, at least one."""
        return dataclasses.replace(self, unit_steps=max(1, round(factor * self.unit_steps)))

    @property
    def seq_length(self) -> int:
        """Tokens of a row."""
        return self.settings["max_seq_length"]

    @property
    def vocab_size(self) -> int:
        """Entries of the vocabulary."""
        return self.settings["vocab_size"]


# An encoder of 3 layers and 128 units.
TINY = Size(
    name="tiny",
    settings=chosen_settings(),
    rates={"BERT, rate 2e-3": 2e-3},
    unit_steps=4000,
    finetuning=(
        "--learning_rate=1e-3",
        "--num_train_epochs=3",
        "--max_seq_length=64",
        # Dropout, which no encoder was pre-trained with, costs BERT 10 points of chunk F1.
        '--model_hparam_overrides={"hidden_dropout_prob": 0.0, '
        '"attention_probs_dropout_prob": 0.0}',
        "--precision=mixed_bfloat16",
    ),
)
# ELECTRA-small as in the paper but for the length of the runs; no setting was chosen here.
SMALL = Size(
    name="small",
    settings={
        "model_size": "small",
        "vocab_size": 8192,
        "max_seq_length": 128,
        "train_batch_size": 128,
        "eval_batch_size": 128,
        "learning_rate": 5e-4,
        "precision": "mixed_bfloat16",
        "jit_compile": True,
    },
    rates={},
    unit_steps=12500,
    finetuning=(
        "--learning_rate=3e-4",
        "--num_train_epochs=3",
        "--max_seq_length=128",
    ),
)
SIZES = {size.name: size for size in (TINY, SMALL)}
