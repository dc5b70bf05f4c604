"""The question-answering task: data, features, head, scores and predictions."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from electra_tf.config.encoder import EncoderConfig
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, nearest_name_hint
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import QA
from finetune.data.features import DataReport, FeatureSpec, Row
from finetune.results.worst_errors import PredictionError
from finetune.tasks.base import (
    PREDICT,
    TRAIN,
    Outputs,
    Scores,
    SplitData,
    Task,
    missing_split_error,
)
from finetune.tasks.qa.examples import QAExample, QuestionCollector
from finetune.tasks.qa.featurize import EIDS_PER_EXAMPLE, QAFeaturizer
from finetune.tasks.qa.head import QAHead
from finetune.tasks.qa.nbest import DecodedAnswer, NBestDecoder
from finetune.tasks.qa.readers import MRQA_SUFFIXES, read_questions
from finetune.tasks.qa.squad_files import write_squad_outputs
from finetune.tasks.qa.squad_metrics import f1, squad_v1_metrics, squad_v2_metrics

SPLITS = (TRAIN, "dev", "test")
# The files of all other tasks have MRQA's format.
SQUAD_TASKS = ("squad", "squadv1")
# Its questions may be unanswerable.
SQUAD_V2 = "squad"


class QATask(Task):
    """Finds the answers to questions in texts.

    Args:
        config: hyperparameters.
        name: name of the task.
        tokenizer: tokenizer of the pre-trained model.
        v2: whether questions may be unanswerable, as in SQuAD 2.0. Otherwise the classifier
            is trained (as in the authors' code), but not used.
        files: path of each split's file; see `finetune.tasks.qa.readers` for the formats.
    """

    kind = QA

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        *,
        v2: bool,
        files: Mapping[str, str],
    ) -> None:
        super().__init__(config, name, tokenizer)
        self.v2 = v2
        self._files = dict(files)
        self._featurizer = QAFeaturizer(config, name, tokenizer)
        self._decoded: tuple[SplitData, Sequence[Outputs], list[DecodedAnswer]] | None = None

    @classmethod
    def restore(
        cls,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        description: Mapping[str, Any],
    ) -> "QATask":
        """Returns the task of a fine-tuned model for prediction."""
        return QATask(config, name, tokenizer, v2=description["v2"], files={})

    @classmethod
    def saved_head(
        cls,
        name: str,
        hidden_size: int,
        shapes: Mapping[str, Sequence[int]],
        dtype: keras.DTypePolicy,
    ) -> QAHead:
        """Returns a new head with the layers of the saved one."""
        return QAHead(hidden_size, **_head_settings(shapes), dtype=dtype, name=name)

    @classmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the description; a classifier implies unanswerable questions."""
        return {"kind": cls.kind.name, "v2": _head_settings(arrays)["answerable_classifier"]}

    @classmethod
    def head_hyperparameters(cls, arrays: Mapping[str, np.ndarray]) -> dict[str, bool]:
        """Returns the hyperparameters of a head with these layers."""
        return _head_settings(arrays)

    @property
    def is_built_in(self) -> bool:
        """Whether it is one of the authors' tasks, whose answer texts follow their rules."""
        return self.name in QA.built_in

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        return self._featurizer.feature_specs

    @property
    def description(self) -> dict[str, Any]:
        """ "kind" and "v2", whether questions may be unanswerable."""
        return {"kind": self.kind.name, "v2": self.v2}

    def split_files(self, split: str) -> list[str]:
        if split not in self._files:
            raise missing_split_error(split, self._files, self.name)
        return [self._files[split]]

    def load(self, split: str, report: DataReport) -> list[QAExample]:
        return self._load(split, report, is_training=split == TRAIN)

    def load_train_to_evaluate(self, report: DataReport) -> list[QAExample]:
        """Reads all questions, which are scored by the texts of their answers."""
        return self._load(TRAIN, report, is_training=False)

    def is_trainable(self, example: QAExample) -> bool:
        """Whether the answer has been found in the context, or there is none."""
        return example.is_impossible or example.start_position is not None

    def _load(self, split: str, report: DataReport, *, is_training: bool) -> list[QAExample]:
        collector = QuestionCollector(
            report,
            v2=self.v2,
            is_training=is_training,
            labeled=split == TRAIN or split in self.dev_splits,
            authors_answer_check=self.config.authors_qa_answer_check,
        )
        for path in self.split_files(split):
            read_questions(path, collector)
        return collector.examples

    def single_label(self, data: SplitData) -> str | None:
        """Returns "no answer" if no question has an answer."""
        has_answers = any(not example.is_impossible for example in data.examples)
        return None if has_answers else "“no answer”"

    def featurize(
        self, examples: Sequence[QAExample], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns one row per window; evaluation rows have gold positions, too."""
        del is_training
        return self._featurizer.rows(examples, report)

    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> QAHead:
        config = self.config
        return QAHead(
            encoder_config.hidden_size,
            joint_prediction=config.joint_prediction,
            answerable_classifier=config.answerable_classifier,
            answerable_uses_start_logits=config.answerable_uses_start_logits,
            answerable_weight=config.answerable_weight,
            beam_size=config.beam_size,
            dtype=dtype,
            name=self.name,
        )

    def decode(self, data: SplitData, outputs: Sequence[Outputs]) -> list[DecodedAnswer]:
        """Returns the n-best answers to each question; the last result is cached.

        Raises:
            ValueError: the rows are not those of the examples, in their order.
        """
        if self._decoded is not None:
            last_data, last_outputs, decoded = self._decoded
            if last_data is data and last_outputs is outputs:
                return decoded
        decoder = NBestDecoder(
            self.config, self.tokenizer, self.v2, authors_text=self.is_built_in
        )
        decoder.prepare(data.examples)
        decoded, next_row = [], 0
        for example, windows in zip(
            data.examples, self._featurizer.windows(data.examples), strict=True
        ):
            row_slice = slice(next_row, next_row + len(windows))
            rows = data.rows[row_slice]
            eids = [int(row[f"{self.name}_eid"]) for row in rows]
            first = EIDS_PER_EXAMPLE * example.eid
            if eids != list(range(first, first + len(windows))):
                raise ValueError(f"The rows of {example.qas_id} are not in place: {eids}")
            decoded.append(decoder.decode(example, windows, rows, outputs[row_slice]))
            next_row = row_slice.stop
        self._decoded = (data, outputs, decoded)
        return decoded

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns the official metrics; "f1" is the main one.

        For SQuAD 2.0, an answer is empty above `config.qa_na_threshold`. Questions of the same
        id count separately.
        """
        decoded = self.decode(data, outputs)
        names = [str(example.eid) for example in data.examples]
        answers = (example.answers for example in data.examples)
        gold = dict(zip(names, answers, strict=True))
        texts = {name: d.text for name, d in zip(names, decoded, strict=True)}
        if self.v2:
            null_odds = {name: d.null_odds for name, d in zip(names, decoded, strict=True)}
            threshold = self.config.qa_na_threshold
            metrics = squad_v2_metrics(gold, texts, null_odds, threshold)
        else:
            metrics = squad_v1_metrics(gold, texts)
        total_loss = sum(float(output["loss"]) for output in outputs)
        return Scores({**metrics, "loss": total_loss / max(len(outputs), 1)}, main="f1")

    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns id, question, answer, null odds and n-best answers of each question.

        The answer is empty if the null odds exceed `config.qa_na_threshold`.
        """
        return [
            {
                "id": example.qas_id,
                "question": example.question_text,
                "answer": self._answer(decoded),
                "null_odds": decoded.null_odds,
                "nbest": [answer._asdict() for answer in decoded.nbest],
            }
            for example, decoded in zip(data.examples, self.decode(data, outputs), strict=True)
        ]

    def write_test_outputs(
        self, folder: str, data: SplitData, outputs: Sequence[Outputs], trial: int | str
    ) -> list[str]:
        """Writes JSON lines, and SQuAD's files in `squad_<split>_<trial>/`."""
        paths = super().write_test_outputs(folder, data, outputs, trial)
        return paths + write_squad_outputs(
            os.path.join(folder, f"squad_{data.split}_{trial}"),
            self.name,
            self.predictions(data, outputs),
        )

    def write_dev_answers(
        self, folder: str, data: SplitData, outputs: Sequence[Outputs], run_name: str
    ) -> list[str]:
        """Writes SQuAD's files, for its official evaluation and for inspection."""
        return write_squad_outputs(
            os.path.join(folder, f"{self.config.tasks_label}_qa"),
            f"{self.name}_{data.split}_{run_name}",
            self.predictions(data, outputs),
        )

    def errors(self, data: SplitData, outputs: Sequence[Outputs]) -> list[PredictionError]:
        """Returns the questions whose answer shares too little with the gold ones.

        "loss" is 1 - F1 of the best gold answer.
        """
        found = []
        for example, decoded in zip(data.examples, self.decode(data, outputs), strict=True):
            answer = self._answer(decoded)
            golds = example.answers or ("",)
            best = max(f1(gold, answer, empty_agree=True) for gold in golds)
            if best < 1:
                texts = (example.question_text, " | ".join(dict.fromkeys(golds)), answer)
                found.append(PredictionError(*texts, 1.0 - best))
        return found

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        answers = {self._answer(decoded) for decoded in self.decode(data, outputs)}
        if len(data.examples) < 2 or len(answers) > 1:
            return None
        (answer,) = answers
        if all(answer in (example.answers or ("",)) for example in data.examples):
            return None
        return f"predicts the answer {answer!r} for every question"

    def _answer(self, decoded: DecodedAnswer) -> str:
        is_null = self.v2 and decoded.null_odds > self.config.qa_na_threshold
        return "" if is_null else decoded.text


def _head_settings(layers: Iterable[str]) -> dict[str, bool]:
    """Returns the settings of a head, given the names of its layers."""
    names = {name.split("/")[0] for name in layers}
    return {
        "joint_prediction": "qa_hidden" in names,
        "answerable_classifier": "dense_2" in names,
        "answerable_uses_start_logits": "dense_3" in names,
    }


def make_qa_task(config: FinetuningConfig, name: str, tokenizer: CachedTokenizer) -> QATask:
    """Returns one of the authors' tasks.

    The files of squad and squadv1 are RAW/<task>/<split>.json, those of the other tasks
    RAW/<task>/<split>.jsonl or .jsonl.gz, where RAW is `config.raw_data_dir`.

    Raises:
        UserError: there is no such task.
    """
    if name not in QA.built_in:
        raise UserError(
            f"There is no question answering task {name!r}, only {', '.join(QA.built_in)}."
            + nearest_name_hint(name, QA.built_in)
        )
    suffixes = (".json",) if name in SQUAD_TASKS else MRQA_SUFFIXES
    folder = os.path.join(config.raw_data_dir, name)
    files = {split: _existing(os.path.join(folder, split), suffixes) for split in SPLITS}
    if config.predict_file:
        files[PREDICT] = config.predict_file
    return QATask(config, name, tokenizer, v2=name == SQUAD_V2, files=files)


def _existing(stem: str, suffixes: Sequence[str]) -> str:
    """Returns the path of the first file that exists; warns of others, which are not read."""
    paths = [stem + suffix for suffix in suffixes]
    first, *others = [path for path in paths if os.path.exists(path)] or paths[:1]
    for other in others:
        warn_once(f"{other} is not read, because {first} exists")
    return first
