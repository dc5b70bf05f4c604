"""Runs that start from checkpoints of other formats."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.run import load_servable
from electra_tf.interop.initial_settings import pretraining_config
from electra_tf.interop.initialization import (
    initialize_from_checkpoint,
    load_encoder,
    read_initial,
)
from electra_tf.interop.variable_names import encoder_variables, named_variables
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.encoder import Encoder
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.tokenizer_description import hash_vocabulary
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.seals import without_seal
from finetune.config.finetuning import FinetuningConfig
from finetune.initialization import find_checkpoint
from tests import pretraining_runs
from tests.conftest import tiny_settings
from tests.electra_tf.interop.huggingface.test_format import finetuned
from tests.electra_tf.interop.models import (
    format_of,
    load_model,
    read,
    tiny_pretraining_checkpoint,
)
from tests.finetune.conftest import write_model

SHAPE = ("vocab_size", "embedding_size", "model_hparam_overrides")


@pytest.fixture
def published(make_config, tmp_path) -> str:
    """A discriminator alone, as Hugging Face publishes it, with the tiny vocabulary."""
    whole = tiny_pretraining_checkpoint(make_config)
    arrays = {k: v for k, v in whole.arrays.items() if not k.startswith("generator")}
    alone = dataclasses.replace(whole, arrays=arrays)
    format_of("huggingface").write(alone, str(tmp_path / "published"))
    return str(tmp_path / "published")


def config_from(published: str, tiny_data, tmp_path, **more) -> PretrainingConfig:
    """Returns a configuration without sizes and vocabulary of its own."""
    settings = tiny_settings(tiny_data, tmp_path, 2)
    for name in SHAPE:
        del settings[name]
    return pretraining_config(**{**settings, "init_checkpoint": published, **more})


def test_pretraining_goes_on_from_a_discriminator_alone(published, tiny_data, tmp_path):
    config = config_from(published, tiny_data, tmp_path, num_train_steps=1, learning_rate=0.0)
    assert config.model_hparam_overrides["hidden_size"] == 16
    lines: list[str] = []
    pretraining_runs.train(config, lines.append)
    source = read(published, "huggingface")
    trained = read(config.model_dir, "electra_tf")
    # With a rate of 0 the weights are those of the start.
    for name, value in source.arrays.items():
        np.testing.assert_array_equal(trained.arrays[name], value, err_msg=name)
    assert trained.part("generator/encoder/")
    said = "\n".join(lines)
    assert f"Loaded from {published}, variables:" in said
    matched, missing, unused = (
        next(line for line in lines if line.startswith(f"  {kind}")).split()[1]
        for kind in ("matched", "missing", "unused")
    )
    fresh = [name for name in trained.weights if name.startswith("generator")]
    assert (int(matched), int(missing), int(unused)) == (
        len(source.arrays),
        len(fresh),
        0,
    )


@pytest.mark.parametrize(
    ("sharing", "random"),
    [
        (
            "embeddings",
            "generator/encoder, generator_predictions",
        ),
        ("none", "generator/embeddings, generator/encoder, generator_predictions"),
        ("gdes", "generator/encoder, generator_predictions"),
    ],
)
def test_what_starts_from_random_weights_is_said(
    published, tiny_data, tmp_path, sharing, random
):
    config = config_from(published, tiny_data, tmp_path, embedding_sharing=sharing)
    model = build_model(config, SpecialTokenIds(2, 3, 4))
    lines: list[str] = []
    initialize_from_checkpoint(
        published,
        named_variables(model),
        encoder_variables(model.electra),
        encoder=model.electra.config,
        flag="--init_checkpoint",
        print_fn=lines.append,
    )
    assert lines[-1] == f"  start from random weights: {random}"


def test_a_run_that_has_begun_wins_over_its_start(published, tiny_data, tmp_path):
    config = config_from(published, tiny_data, tmp_path, num_train_steps=1)
    pretraining_runs.train(config)
    first = read(config.model_dir, "electra_tf")
    # It describes itself: what it started from may be gone.
    again = config_from(str(tmp_path / "gone"), tiny_data, tmp_path, num_train_steps=1)
    lines: list[str] = []
    pretraining_runs.train(again, lines.append)
    assert not any("Loaded from" in line for line in lines)
    after = read(config.model_dir, "electra_tf")
    for name, value in first.weights.items():
        np.testing.assert_array_equal(after.arrays[name], value)


def initialize(model: PretrainingModel, folder: str) -> list[str]:
    """Initializes a model from a folder, and returns the lines that are printed."""
    lines: list[str] = []
    initialize_from_checkpoint(
        folder,
        named_variables(model),
        encoder_variables(model.electra),
        encoder=model.electra.config,
        flag="--init_checkpoint",
        print_fn=lines.append,
    )
    return lines


@pytest.mark.parametrize("sharing", ["none", "gdes"])
def test_own_embeddings_of_a_generator_start_as_those_that_it_shared(
    make_config, tmp_path, sharing
):
    """The layers of a generator are of no use on embeddings of random weights."""
    source = tiny_pretraining_checkpoint(make_config)  # shares all embeddings
    folder = str(tmp_path / "source")
    format_of("electra_tf").write(source, folder)
    model = build_model(make_config(embedding_sharing=sharing), SpecialTokenIds(2, 3, 4))
    lines = initialize(model, folder)
    shared = load_model(source).model.generator.embeddings
    own = model.generator.embeddings
    assert own is not model.electra.embeddings
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        np.testing.assert_array_equal(
            *(np.asarray(getattr(each, name)) for each in (own, shared)), err_msg=name
        )
    np.testing.assert_array_equal(own.norm.gamma.numpy(), shared.norm.gamma.numpy())
    assert lines[0].startswith("Copied from the discriminator's embeddings: generator/")
    assert next(line for line in lines if line.startswith("  missing")).split()[1] == "0"


def test_disentangled_embeddings_start_without_differences_from_a_discriminator_alone(
    make_config, published, capsys
):
    """The generator's would be random otherwise, and the differences would undo that."""
    warn_once.cache_clear()
    model = build_model(make_config(embedding_sharing="gdes"), SpecialTokenIds(2, 3, 4))
    lines = initialize(model, published)
    arrays = read(published, "huggingface").arrays
    own = model.generator.embeddings
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        expected = arrays[f"electra/embeddings/{name}"]
        np.testing.assert_array_equal(getattr(own, name).numpy(), expected, err_msg=name)
    assert not np.any(model.electra.embeddings.word_difference)
    assert lines[0].startswith("Copied from the discriminator's embeddings: generator/")
    assert not capsys.readouterr().err  # there is no other generator to start from


@pytest.mark.parametrize(
    ("trained", "continued", "warned"),
    [
        ({"embedding_sharing": "all"}, {"generator_hidden_size": 1.0}, 1),
        ({"objective": "mlm"}, {"generator_hidden_size": 1.0}, 1),
        ({}, {"generator_type": "two_tower"}, 1),
        ({"embedding_sharing": "all"}, {"embedding_sharing": "all"}, 0),
        ({}, {}, 0),
        ({"generator_type": "unigram"}, {}, 0),  # as a published discriminator
    ],
)
def test_a_generator_that_starts_at_random_beside_a_trained_one_is_warned_of(
    make_config, tmp_path, capsys, trained, continued, warned
):
    folder = str(tmp_path / "source")
    format_of("electra_tf").write(tiny_pretraining_checkpoint(make_config, **trained), folder)
    model = build_model(make_config(**continued), SpecialTokenIds(2, 3, 4))
    warn_once.cache_clear()
    initialize(model, folder)
    told = "the encoder of the generator starts from random weights: the generator of"
    assert capsys.readouterr().err.count(told) == warned


@pytest.mark.parametrize("mode", [{"objective": "mlm"}, {"embedding_sharing": "all"}])
def test_a_full_size_generator_takes_the_discriminator_of_a_pair(make_config, tmp_path, mode):
    """No flag makes the head of a small generator fit; the discriminator alone does."""
    source = tiny_pretraining_checkpoint(make_config, generator_hidden_size=0.5)
    folder = str(tmp_path / "source")
    format_of("electra_tf").write(source, folder)
    model = build_model(make_config(**mode), SpecialTokenIds(2, 3, 4))
    with pytest.raises(UserError, match="pass the folder discriminator of its output") as error:
        initialize(model, folder)
    assert "--generator_hidden_size" not in str(error.value)
    format_of("huggingface").write(source, str(tmp_path / "pair"))
    initialize(model, str(tmp_path / "pair" / "discriminator"))
    np.testing.assert_array_equal(
        model.electra.embeddings.word_embeddings.numpy(),
        source.arrays["electra/embeddings/word_embeddings"],
    )


def test_what_shapes_do_not_tell_of_the_checkpoint_is_warned_of(
    published, tiny_data, tmp_path, capsys
):
    """Such weights would load in silence."""
    config = config_from(published, tiny_data, tmp_path)
    encoder = discriminator_config(config)
    assert (encoder.num_attention_heads, encoder.hidden_act) == (2, "gelu")

    def warnings(**changes) -> str:
        other = Encoder(dataclasses.replace(encoder, **changes))
        load_encoder(read_initial(published), published, other, discard)
        return capsys.readouterr().err

    source = f"{published} (--init_checkpoint)"
    assert not warnings()
    assert not warnings(hidden_act="gelu_tanh")
    assert f"num_attention_heads of the model is 4, but {source} has 2" in warnings(
        num_attention_heads=4
    )
    assert f"hidden_act of the model is relu, but {source} has gelu" in warnings(
        hidden_act="relu"
    )
    assert f"layer_norm_epsilon of the model is 0.001, but {source} has 1e-12" in warnings(
        layer_norm_epsilon=1e-3
    )


def test_less_than_the_encoder_fails_before_anything_is_written(published, tiny_data, tmp_path):
    overrides = {"num_hidden_layers": 3}
    config = config_from(published, tiny_data, tmp_path, model_hparam_overrides=overrides)
    assert config.model_hparam_overrides["hidden_size"] == 16
    with pytest.raises(UserError, match="lacks 16 variables of the model"):
        pretraining_runs.train(config)
    overrides = {"num_hidden_layers": 1}
    config = config_from(published, tiny_data, tmp_path, model_hparam_overrides=overrides)
    with pytest.raises(UserError, match="16 variables are only in the checkpoint"):
        pretraining_runs.train(config)
    with pytest.raises(UserError, match="--init_checkpoint: no such checkpoint"):
        config_from(str(tmp_path / "gone"), tiny_data, tmp_path)


def test_fine_tuning_takes_sizes_and_vocabulary(published, make_config, tmp_path):
    whole = tiny_pretraining_checkpoint(make_config)
    for name in ("tf1", "kerashub"):
        format_of(name).write(whole, str(tmp_path / name))
    for path in (published, str(tmp_path / "kerashub"), str(tmp_path / "tf1")):
        config = FinetuningConfig.create(
            data_dir=str(tmp_path), model_name="m", init_checkpoint=path, task_names=("cola",)
        )
        assert config.encoder.hidden_size == 16
        assert config.vocab_file.startswith(path)
        encoder = Encoder(config.encoder)
        path = find_checkpoint(config)
        report = load_encoder(read_initial(path), path, encoder)
        assert report.missing == ()
        expected = whole.arrays["electra/encoder/layer_1/output/dense/kernel"]
        kernel = encoder.encoder_layers[1].output_projection.kernel
        np.testing.assert_array_equal(kernel.numpy(), expected)


def test_another_vocabulary_of_the_same_size_is_warned_of(
    make_config, tiny_data, tmp_path, capsys
):
    whole = tiny_pretraining_checkpoint(make_config)
    for name in ("tf1", "kerashub", "huggingface"):
        format_of(name).write(whole, str(tmp_path / name))
    lines = (tiny_data / "vocab.txt").read_text().splitlines()
    other = tmp_path / "other.txt"
    other.write_text("\n".join([*lines[:5], *reversed(lines[5:])]))
    for name, path in {
        "tf1": "vocab.txt",
        "kerashub": "assets/tokenizer/vocabulary.txt",
        "huggingface": "discriminator/vocab.txt",
    }.items():
        given = {"init_checkpoint": str(tmp_path / name), "vocab_file": str(other)}
        if name == "tf1":
            given["model_hparam_overrides"] = {"num_attention_heads": 2}
        said = (
            f"--vocab_file={other} is not the model's vocabulary, {tmp_path / name / path}: "
            "34 of 40 tokens, such as 'w34' instead of 'w0' on line 6"
        )
        pretraining_config(
            data_dir=str(tiny_data), model_name=f"new_{name}", max_seq_length=16, **given
        )
        assert said in capsys.readouterr().err
        if name != "huggingface":  # fine-tuning takes one of the pair
            shutil.copy(other, tmp_path / f"{name}.txt")
            given["vocab_file"] = str(tmp_path / f"{name}.txt")
            FinetuningConfig.create(data_dir=str(tmp_path), model_name="m", **given)
            assert "is not the model's vocabulary" in capsys.readouterr().err


def test_another_vocabulary_than_the_one_that_was_removed_is_refused(tiny_data, tmp_path):
    data = tmp_path / "data"
    model = data / "models" / "m"
    digest = hash_vocabulary(tiny_data / "vocab.txt")
    write_model(model, tiny_data)
    path = model / "config.json"
    content = without_seal(json.loads(path.read_text()), path)
    content["hyperparameters"]["vocabulary"] = digest
    path.write_text(json.dumps(content))
    for name in ("vocab.txt", "vocab.tokenizer.json"):
        (model / name).unlink()
    lines = (tiny_data / "vocab.txt").read_text().splitlines()
    other = data / "vocab.txt"
    given = {"data_dir": str(data), "max_seq_length": 16}
    initial = {**given, "model_name": "new", "init_checkpoint": str(model)}
    other.write_text("\n".join([*lines[:5], *reversed(lines[5:])]))
    message = rf"--vocab_file={other} is not the vocabulary of {model}, whose own"
    with pytest.raises(UserError, match=message):
        FinetuningConfig.create(**given, model_name="m", task_names=("cola",))
    with pytest.raises(UserError, match=message):
        pretraining_config(**initial)
    shutil.copy(tiny_data / "vocab.txt", other)
    FinetuningConfig.create(**given, model_name="m", task_names=("cola",))
    assert pretraining_config(**initial).vocab_file == str(other)


def test_the_authors_checkpoints_tell_their_sizes_and_ask_for_the_heads(make_config, tmp_path):
    """Shapes tell all sizes but the number of heads."""
    whole = tiny_pretraining_checkpoint(make_config)
    folder = tmp_path / "models" / "m"
    format_of("tf1").write(whole, str(folder))
    (folder / "electra_tf.json").unlink()
    given = {"data_dir": str(tmp_path), "model_name": "m", "max_seq_length": 16}
    overrides = {"model_hparam_overrides": {"num_attention_heads": 2}}
    for path in (None, str(folder)):
        with pytest.raises(UserError, match=r"--model_hparam_overrides.*num_attention_heads"):
            FinetuningConfig.create(**given, init_checkpoint=path)
        config = FinetuningConfig.create(**given, init_checkpoint=path, **overrides)
        assert config.encoder == whole.description.encoder
        assert config.vocab_size == whole.description.encoder.vocab_size
        path = find_checkpoint(config)
        report = load_encoder(read_initial(path), path, Encoder(config.encoder))
        assert report.missing == ()
    started = {**given, "model_name": "new", "init_checkpoint": "m", **overrides}
    assert discriminator_config(pretraining_config(**started)) == whole.description.encoder
    # Who names the size means that size, as with the authors.
    sized = {"model_size": "small", "model_hparam_overrides": {"num_hidden_layers": 2}}
    assert FinetuningConfig.create(**given, **sized).encoder.num_attention_heads == 1


def test_other_tokens_than_beside_the_authors_files_are_told(
    make_config, tiny_data, tmp_path, capsys
):
    """A run goes on from these files, and would replace the vocabulary beside them."""
    folder = tmp_path / "models/m"
    format_of("tf1").write(tiny_pretraining_checkpoint(make_config), str(folder))
    words = (tiny_data / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join([*words[:5], *words[:4:-1]]) + "\n")
    given = {"data_dir": str(tmp_path), "model_name": "m", "max_seq_length": 16}
    warn_once.cache_clear()
    pretraining_config(**given)
    assert capsys.readouterr().err == ""
    pretraining_config(**given, vocab_file=str(tiny_data / "vocab.txt"))
    expected = (
        f"is not the model's vocabulary, {folder}/vocab.txt: 34 of 40 tokens, such as 'w0'"
    )
    assert expected in capsys.readouterr().err
    for create in (pretraining_config, FinetuningConfig.create):
        warn_once.cache_clear()
        create(**given, do_lower_case=False)
        assert f"--do_lower_case=false contradicts {folder}" in capsys.readouterr().err


def test_pretraining_goes_on_from_the_authors_files_in_its_folder(
    make_config, tiny_data, tmp_path
):
    """As the authors' README says: their files lie in DATA_DIR/models/NAME."""
    source = tiny_pretraining_checkpoint(make_config, slots=True)
    settings = tiny_settings(tiny_data, tmp_path, 2)
    for name in SHAPE:
        del settings[name]
    settings |= {
        "model_hparam_overrides": {"num_attention_heads": 2},
        "learning_rate": 0.0,
        "num_train_steps": 8,
    }
    folder = settings["model_dir"]
    format_of("tf1").write(source, folder)
    pathlib.Path(folder, "electra_tf.json").unlink()
    config = pretraining_config(**settings)
    evaluation = {"do_train": False, "do_eval": True}
    evaluated = pretraining_runs.evaluate(pretraining_config(**settings, **evaluation))
    with pytest.raises(UserError, match=rf"convert_checkpoint\.py --from {folder} --to"):
        load_servable(ExportConfig(model_dir=folder, export_dir=tmp_path), ())
    wide = pretraining_config(**{**settings, "generator_hidden_size": 1.0})
    for use in (pretraining_runs.train, pretraining_runs.evaluate):
        with pytest.raises(UserError, match="--generator_hidden_size"):
            use(wide)
    masked_lm = pretraining_config(**settings, objective="mlm")
    message = r"the generator of .*model\.ckpt-7 has .* as --init_checkpoint, with another"
    with pytest.raises(UserError, match=message):
        pretraining_runs.train(masked_lm)
    done = pretraining_config(**{**settings, "num_train_steps": 7})
    with pytest.raises(UserError, match=r"at step 7, so --num_train_steps=7 leaves nothing"):
        pretraining_runs.train(done)
    assert not pathlib.Path(folder, "config.json").exists()

    lines: list[str] = []
    pretraining_runs.train(config, lines.append)
    moments = len(source.slots)
    assert f"step 7, with {moments} of {moments} optimizer moments" in "\n".join(lines)
    trained = read(folder, "electra_tf")
    assert trained.step == 8
    for name, value in source.weights.items():
        np.testing.assert_array_equal(trained.arrays[name], value, err_msg=name)
    # Its weights are the same.
    config = pretraining_config(**settings, **evaluation)
    assert pretraining_runs.evaluate(config) == pytest.approx(evaluated, rel=1e-6)
    # An incomplete download is no start from random weights.
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    shutil.copy(f"{folder}/model.ckpt-7.data-00000-of-00001", damaged)
    half = make_config(model_dir=str(damaged))
    for use in (pretraining_runs.train, pretraining_runs.evaluate):
        with pytest.raises(UserError, match=r"model\.ckpt-7\.index is missing"):
            use(half)
    # The same command goes on from its own checkpoint.
    again = pretraining_config(**settings)
    assert discriminator_config(again) == discriminator_config(config)
    pretraining_runs.train(again, lines.append)
    assert lines[-1].startswith("Nothing to do")


def test_a_published_size_of_the_authors_needs_no_heads(tmp_path):
    """The shapes of large bring its number of heads, and the defaults of fine-tuning."""
    names = {
        "electra/embeddings/word_embeddings": (40, 1),
        "electra/embeddings/position_embeddings": (64, 1),
        "electra/embeddings/token_type_embeddings": (2, 1),
        "electra/encoder/layer_0/intermediate/dense/kernel": (1024, 4096),
        "electra/encoder/layer_23/output/dense/bias": (1,),
    }
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "electra_large"),
        tensor_names=list(names),
        shape_and_slices=[""] * len(names),
        tensors=[np.zeros(shape, np.float16) for shape in names.values()],
    )
    config = FinetuningConfig.create(data_dir=str(tmp_path), model_name="m")
    assert (config.model_size, config.encoder.num_attention_heads) == ("large", 16)
    assert config.encoder.max_position_embeddings == 64
    assert (config.learning_rate, config.layerwise_lr_decay) == (5e-5, 0.9)
    given = FinetuningConfig.create(data_dir=str(tmp_path), model_name="m", learning_rate=1e-4)
    assert given.learning_rate == 1e-4


def test_only_pretraining_config_looks_at_the_checkpoint(published, tmp_path):
    given = {
        "data_dir": str(tmp_path),
        "model_name": "m",
        "init_checkpoint": published,
        "max_seq_length": 16,
    }
    assert pretraining_config(**given).embedding_size == 8
    assert PretrainingConfig.create(**given).embedding_size == 128
    gone = {**given, "init_checkpoint": str(tmp_path / "gone")}
    assert PretrainingConfig.create(**gone).init_checkpoint == gone["init_checkpoint"]
    with pytest.raises(UserError, match="--model_name is required"):
        pretraining_config(**{**gone, "model_name": None})


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        ("classification", {"dense": (16, 3)}),
        ("tagging", {"dense": (16, 3)}),
        ("qa", {"dense": (16, 1), "qa_hidden": (32, 512), "dense_1": (512, 1)}),
    ],
)
def test_of_a_fine_tuned_model_the_heads_are_unused(kind, layers, tmp_path):
    whole = finetuned(kind, layers=layers)
    format_of("electra_tf").write(whole, str(tmp_path))
    encoder = Encoder(whole.description.encoder)
    lines: list[str] = []
    report = load_encoder(read_initial(str(tmp_path)), str(tmp_path), encoder, lines.append)
    assert report.missing == ()
    assert report.unused == tuple(sorted(whole.part("task_specific/")))
    assert set(report.matched) == set(whole.part("electra/"))
    assert lines[-1].startswith(f"  unused   {len(report.unused):4}  task_specific/mine/dense")
    kernel = encoder.encoder_layers[1].output_projection.kernel
    expected = whole.arrays["electra/encoder/layer_1/output/dense/kernel"]
    np.testing.assert_array_equal(kernel.numpy(), expected)
