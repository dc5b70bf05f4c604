"""What pre-training can write, every program can read: precision x optimizer x objective."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.choices import OBJECTIVES
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.inference.export.config import GENERATOR, ExportConfig
from electra_tf.inference.export.pretrained import EMBEDDINGS, PRETRAINED
from electra_tf.inference.export.run import load_servable
from electra_tf.interop.initialization import load_encoder, read_initial
from electra_tf.interop.model_checkpoint import ADAM_SLOTS, LAMB_SLOTS
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.encoder import Encoder
from electra_tf.model_builder import build_model, load_model
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.models import format_of
from tests.electra_tf.test_checkpoint_layout import TINY, TWO_STAGE

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = {"adam": ADAM_SLOTS, "lamb": LAMB_SLOTS}
TABLE = "electra/embeddings/word_embeddings"
STEP = 9


class State:
    """Model, optimizer and step of a run, as pre-training makes them."""

    def __init__(self, config: PretrainingConfig) -> None:
        self.model = build_model(config, SpecialTokenIds(cls=2, sep=3, mask=4))
        self.optimizer = create_optimizer(config, self.model)
        self.optimizer.build(self.model.trainable_variables)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.checkpoints = CheckpointDirectory(
            config.model_dir, self.model, self.step, self.optimizer
        )

    def moments(self) -> list[np.ndarray]:
        return [v.numpy() for v in self.optimizer.variables if len(v.shape)]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    words = [f"w{i}" for i in range(TINY["vocab_size"] - 5)]
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    return path


def write_run(config: PretrainingConfig) -> State:
    state = State(config)
    random = np.random.default_rng(3)
    for variable in [*state.model.variables, *state.optimizer.variables]:
        if len(variable.shape):
            variable.assign(random.normal(size=variable.shape))
    state.step.assign(STEP)
    state.checkpoints.write_description(dataclasses.asdict(config), config.vocab_file)
    state.checkpoints.save()
    return state


def make_config(
    objective: str, optimizer: str, precision: str, vocab_file: pathlib.Path, model_dir: str
) -> PretrainingConfig:
    # Of the stage that trains the discriminator.
    two_stage = {**TWO_STAGE, "num_train_steps": STEP + 1}
    settings = {**TINY, **(two_stage if objective == "two_stage" else {})}
    return PretrainingConfig.create(
        **settings | {"objective": objective, "optimizer": optimizer, "precision": precision},
        vocab_file=str(vocab_file),
        model_dir=model_dir,
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_and_moments_are_read(objective, optimizer, precision, vocab_file, tmp_path):
    """Of both families: encoders for fine-tuning, whole models for the other programs."""
    config = make_config(objective, optimizer, precision, vocab_file, str(tmp_path))
    run = write_run(config)
    table = run.model.electra.embeddings.word_embeddings.numpy()
    encoder = Encoder(discriminator_config(config))
    lines: list[str] = []
    path = config.model_dir
    load_encoder(read_initial(path), path, encoder, lines.append)
    assert lines[0] == f"Loaded from {tmp_path}/ckpt-{STEP}, variables:"
    np.testing.assert_array_equal(encoder.embeddings.word_embeddings.numpy(), table)
    checkpoint = format_of("electra_tf").read(config.model_dir)
    np.testing.assert_array_equal(checkpoint.arrays[TABLE], table)
    assert checkpoint.step == STEP
    assert {name.removeprefix(TABLE) for name in checkpoint.slots if TABLE in name} == set(
        OPTIMIZERS[optimizer]
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_scoring_and_export_load_the_weights(objective, vocab_file, tmp_path):
    config = make_config(objective, "lamb", "mixed_float16", vocab_file, str(tmp_path))
    table = write_run(config).model.electra.embeddings.word_embeddings.numpy()
    vocabulary = load_vocabulary(vocab_file)
    model, step, path = load_model(config, vocabulary, tf.distribute.get_strategy())
    assert (step, path) == (STEP, f"{tmp_path}/ckpt-{STEP}")
    np.testing.assert_array_equal(model.electra.embeddings.word_embeddings.numpy(), table)
    export = ExportConfig(
        model_dir=config.model_dir, export_dir=tmp_path / "exported", component=EMBEDDINGS
    )
    lines: list[str] = []
    servable = load_servable(export, [PRETRAINED], lines.append)
    assert f"{EMBEDDINGS} of {tmp_path}/ckpt-{STEP}, step {STEP}" in lines[0]
    exported = servable._encoder.embeddings.word_embeddings.numpy()
    np.testing.assert_array_equal(exported, table)


def test_a_loaded_model_is_in_the_stage_that_trained_it(vocab_file, tmp_path):
    """Of the recorded steps, not those of the program that loads it."""
    config = make_config("two_stage", "adam", "float32", vocab_file, str(tmp_path))
    write_run(config)
    other = dataclasses.replace(config, num_train_steps=100 * STEP)
    model, _, _ = load_model(other, load_vocabulary(vocab_file), tf.distribute.get_strategy())
    assert model.has_trained_electra


def test_an_encoder_that_is_not_trained_yet_is_told(vocab_file, tmp_path, capsys):
    config = make_config("two_stage", "adam", "float32", vocab_file, str(tmp_path))
    write_run(dataclasses.replace(config, num_train_steps=2 * STEP))
    path, encoder = config.model_dir, Encoder(discriminator_config(config))
    load_encoder(read_initial(path), path, encoder, lambda line: None)
    warning = f"{tmp_path}/ckpt-{STEP}: --objective=two_stage has trained only the generator"
    assert warning in capsys.readouterr().err

    def load(component: str | None) -> None:
        export = ExportConfig(
            model_dir=config.model_dir, export_dir=tmp_path / "exported", component=component
        )
        load_servable(export, [PRETRAINED], lambda line: None)

    for component in (None, EMBEDDINGS):
        with pytest.raises(UserError, match=r"so \w+ has random weights: .* --component=gen"):
            load(component)
    load(GENERATOR)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_from_what_was_converted(optimizer, precision, vocab_file, tmp_path):
    config = make_config("electra", optimizer, precision, vocab_file, str(tmp_path / "run"))
    run = write_run(config)
    ours, theirs = format_of("electra_tf"), format_of("tf1")
    checkpoint = ours.read(config.model_dir)
    assert theirs.write(checkpoint, str(tmp_path / "tf1")) == []
    checkpoint = theirs.read(str(tmp_path / "tf1"))
    copy = dataclasses.replace(config, model_dir=str(tmp_path / "copy"))
    assert ours.write(checkpoint, copy.model_dir) == []
    resumed = State(copy)
    assert resumed.checkpoints.restore_latest()
    assert int(resumed.step) == STEP
    for expected, actual in zip(run.moments(), resumed.moments(), strict=True):
        np.testing.assert_array_equal(actual, expected)
