"""Hugging Face folders against outputs that transformers computed, and round trips."""

import dataclasses
import json
import shutil
import stat
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.saved_config import load_saved_config
from electra_tf.config.trained_positions import trained_positions
from electra_tf.interop.model_checkpoint import (
    ModelCheckpoint,
    ModelDescription,
    TaskDescription,
)
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    assert_same_arrays,
    choice_logits,
    format_of,
    outputs,
    own_hyperparameters,
    read,
    tiny_pretraining_checkpoint,
)
from tests.mutations import changed_values

HUGGINGFACE = format_of("huggingface")
TOLERANCE = 1e-5


def stored(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns inputs and outputs of a folder of test data."""
    arrays = dict(np.load(HUGGINGFACE_DATA / name / "outputs.npz"))
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {n: arrays.pop(n) for n in names}, arrays


def assert_agree(ours: np.ndarray, theirs: np.ndarray, mask: np.ndarray) -> None:
    """Compares real tokens: what is computed at padding is nobody's business."""
    assert np.abs(ours - theirs)[mask == 1].max() < TOLERANCE
    assert np.std(theirs[mask == 1]) > 0.1


@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_both_models_of_a_size_compute_what_transformers_does(size):
    checkpoint = read(HUGGINGFACE_DATA / size, "huggingface")
    inputs, discriminator = stored(f"{size}/discriminator")
    _, generator = stored(f"{size}/generator")
    ours = outputs(checkpoint, inputs)
    mask = inputs["attention_mask"]
    assert_agree(ours["discriminator"], discriminator["logits"], mask)
    assert_agree(ours["generator"], generator["logits"], mask)
    assert checkpoint.notes == ()
    # The embeddings are shared, and only the discriminator's.
    assert not checkpoint.part("generator/embeddings/")
    has_projection = bool(checkpoint.part("electra/embeddings_project/"))
    assert has_projection == (size == "small")


def test_a_discriminator_or_a_generator_alone():
    inputs, theirs = stored("small/discriminator")
    checkpoint = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    ours = outputs(checkpoint, inputs)
    assert_agree(ours["discriminator"], theirs["logits"], inputs["attention_mask"])
    assert own_hyperparameters(checkpoint)["uniform_generator"]
    _, theirs = stored("small/generator")
    checkpoint = read(HUGGINGFACE_DATA / "small/generator", "huggingface")
    ours = outputs(checkpoint, inputs)
    assert_agree(ours["generator"], theirs["logits"], inputs["attention_mask"])
    assert own_hyperparameters(checkpoint)["electra_objective"] is False


def test_a_pytorch_file_is_read_without_pytorch():
    checkpoint = read(HUGGINGFACE_DATA / "pytorch_bin", "huggingface")
    inputs, theirs = stored("pytorch_bin")
    ours = outputs(checkpoint, inputs)
    assert_agree(ours["discriminator"], theirs["logits"], inputs["attention_mask"])
    assert checkpoint.notes == ()
    assert (checkpoint.description.do_lower_case, checkpoint.description.strip_accents) == (
        False,
        False,
    )


def test_the_activation_and_epsilon_of_the_configuration_count():
    checkpoint = read(HUGGINGFACE_DATA / "gelu_new", "huggingface")
    encoder = checkpoint.description.encoder
    assert (encoder.hidden_act, encoder.layer_norm_epsilon) == ("gelu_tanh", 1e-5)
    inputs, theirs = stored("gelu_new")
    ours = outputs(checkpoint, inputs)
    assert_agree(ours["discriminator"], theirs["logits"], inputs["attention_mask"])
    exact = dataclasses.replace(encoder, hidden_act="gelu")
    changed = dataclasses.replace(checkpoint.description, encoder=exact)
    ours = outputs(dataclasses.replace(checkpoint, description=changed), inputs)
    assert np.abs(ours["discriminator"] - theirs["logits"]).max() > 10 * TOLERANCE


def test_tags_and_answers():
    checkpoint = read(HUGGINGFACE_DATA / "token_classification", "huggingface")
    (task,) = checkpoint.description.tasks
    assert task == TaskDescription("names", "tagging", ("O", "B-X", "I-X"))
    inputs, theirs = stored("token_classification")
    ours = outputs(checkpoint, inputs)["names"]
    assert_agree(ours, theirs["logits"], inputs["attention_mask"])

    checkpoint = read(HUGGINGFACE_DATA / "question_answering", "huggingface")
    inputs, theirs = stored("question_answering")
    ours = outputs(checkpoint, inputs)["qa"]
    for i, name in enumerate(("start_logits", "end_logits")):
        assert_agree(ours[..., i], theirs[name], inputs["attention_mask"])
    settings = own_hyperparameters(checkpoint)
    assert not settings["joint_prediction"]
    assert not settings["answerable_classifier"]


def test_choices_with_padding_and_segments():
    checkpoint = read(HUGGINGFACE_DATA / "multiple_choice", "huggingface")
    assert checkpoint.description.tasks == (
        TaskDescription("multiple_choice", "multiple_choice"),
    )
    note, _ = checkpoint.notes
    assert "whether choices follow a question is unknown: no question is assumed" in note
    inputs, theirs = stored("multiple_choice")
    ours = choice_logits(checkpoint, inputs)
    assert ours.shape == (1, 3)
    np.testing.assert_allclose(ours, theirs["logits"], atol=TOLERANCE)
    assert np.ptp(theirs["logits"]) > 0.05
    # Without padding or segments the scores are others.
    for name, value in (("attention_mask", 1), ("token_type_ids", 0)):
        changed = {**inputs, name: np.full_like(inputs[name], value)}
        assert np.abs(choice_logits(checkpoint, changed) - theirs["logits"]).max() > 0.01
    (task,) = own_hyperparameters(checkpoint)["tasks"].values()
    assert task == {"kind": "multiple_choice", "labels": ["0", "1"], "has_question": False}


def test_a_two_layer_head_has_no_counterpart():
    checkpoint = read(HUGGINGFACE_DATA / "sequence_classification", "huggingface")
    assert checkpoint.description.tasks == ()
    (note,) = checkpoint.notes
    assert "classifier.dense and classifier.out_proj" in note
    assert {name.split("/")[0] for name in checkpoint.arrays} == {"electra"}


@pytest.mark.parametrize(
    "name",
    [
        "small",
        "base",
        "large",
        "small/generator",
        "token_classification",
        "question_answering",
        "multiple_choice",
    ],
)
def test_tensors_survive_a_round_trip(name, tmp_path):
    folder = HUGGINGFACE_DATA / name
    HUGGINGFACE.write(read(folder, "huggingface"), str(tmp_path / "there"))
    files = [path.relative_to(folder) for path in folder.rglob("model.safetensors")]
    assert files
    for path in files:
        before = safetensors.numpy.load_file(folder / path)
        after = safetensors.numpy.load_file(tmp_path / "there" / path)
        assert_same_arrays(after, before)
        vocabulary = (folder / path).with_name("vocab.txt").read_bytes()
        assert (tmp_path / "there" / path).with_name("vocab.txt").read_bytes() == vocabulary


def test_weights_are_written_without_copies_and_with_the_mode_of_other_files(tmp_path):
    model = read(HUGGINGFACE_DATA / "small" / "discriminator", "huggingface")
    table = np.zeros([1 << 20, model.description.encoder.embedding_size], np.float32)
    arrays = {**model.arrays, "electra/embeddings/word_embeddings": table}
    tracemalloc.start()
    try:
        HUGGINGFACE.write(dataclasses.replace(model, arrays=arrays), str(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < table.nbytes / 4
    paths = [tmp_path / name for name in ("model.safetensors", "config.json")]
    assert len({stat.S_IMODE(path.stat().st_mode) for path in paths}) == 1


def test_weights_that_cannot_be_written(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise safetensors.SafetensorError("No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    model = read(HUGGINGFACE_DATA / "small" / "discriminator", "huggingface")
    with pytest.raises(UserError, match=r"model\.safetensors cannot be written: No space left"):
        HUGGINGFACE.write(model, str(tmp_path))


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"untied_generator": False},
        {"untied_generator_embeddings": True},
        {"embedding_sharing": "token"},
        {"embedding_sharing": "es"},
        {"electra_objective": False},
        {"uniform_generator": True},
    ],
    ids=lambda overrides: next(iter(overrides), "default"),
)
def test_our_pretraining_survives_a_round_trip(make_config, tmp_path, overrides):
    before = tiny_pretraining_checkpoint(make_config, **overrides)
    assert HUGGINGFACE.write(before, str(tmp_path)) == []
    after = read(tmp_path, "huggingface")
    assert_same_arrays(dict(after.arrays), dict(before.arrays))
    settings = own_hyperparameters(after)
    for name, value in overrides.items():
        assert settings[name] == value
    assert after.description.encoder == before.description.encoder
    format_of("electra_tf").write(after, str(tmp_path / "ours"))
    assert_same_arrays(read(tmp_path / "ours", "electra_tf").weights, before.weights)


def test_the_length_of_training_survives_a_round_trip(make_config, tmp_path):
    before = tiny_pretraining_checkpoint(make_config)
    positions = before.description.encoder.max_position_embeddings
    for trained in (positions // 2, positions):
        settings = {**before.description.hyperparameters, "max_seq_length": trained}
        described = dataclasses.replace(before.description, hyperparameters=settings)
        theirs, ours = tmp_path / f"theirs{trained}", tmp_path / f"ours{trained}"
        HUGGINGFACE.write(dataclasses.replace(before, description=described), str(theirs))
        for part in ("discriminator", "generator"):
            tokenizer = json.loads((theirs / part / "tokenizer_config.json").read_text())
            assert tokenizer["model_max_length"] == trained
        after = read(theirs, "huggingface")
        assert after.description.encoder.max_position_embeddings == positions
        assert trained_positions(HUGGINGFACE.settings(str(theirs))) == trained
        format_of("electra_tf").write(after, str(ours))
        saved = load_saved_config(ours).hyperparameters
        assert trained_positions(saved) == saved["max_seq_length"] == trained
    # Files of other programs do not tell it.
    after = read(HUGGINGFACE_DATA / "small", "huggingface")
    assert after.description.trained_positions is None


def finetuned(kind: str, *, units: int = 3, layers: dict | None = None) -> ModelCheckpoint:
    """Returns the encoder of the test data with a random head."""
    encoder = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    random = np.random.default_rng(1)
    hidden = encoder.description.encoder.hidden_size
    layers = layers or {"dense": (hidden, units)}
    arrays = encoder.part("electra/")
    for name, (rows, columns) in layers.items():
        kernel = random.normal(size=(rows, columns)).astype(np.float32)
        arrays[f"task_specific/mine/{name}/kernel"] = kernel
        bias = random.normal(size=columns).astype(np.float32)
        arrays[f"task_specific/mine/{name}/bias"] = bias
    labels = () if kind in ("qa", "regression") else tuple(f"l{i}" for i in range(units))
    description = dataclasses.replace(
        encoder.description, tasks=(TaskDescription("mine", kind, labels),)
    )
    return ModelCheckpoint(description=description, arrays=arrays)


def test_a_threshold_goes_with_the_classifier_that_it_is_of(tmp_path):
    settings = {"v2": True, "qa_na_threshold": -2.75}
    layers = {"dense": (16, 1), "dense_1": (16, 1)}
    for name, more in (("kept", {}), ("lost", {"dense_2": (16, 1)})):
        model = finetuned("qa", layers=layers | more)
        (task,) = model.description.tasks
        task = dataclasses.replace(task, settings=settings)
        description = dataclasses.replace(model.description, tasks=(task,))
        model = dataclasses.replace(model, description=description)
        HUGGINGFACE.write(model, str(tmp_path / name))
        (after,) = read(tmp_path / name, "huggingface").description.tasks
        assert ("qa_na_threshold" in after.settings) == (name == "kept")


@pytest.mark.parametrize(
    ("kind", "units"), [("classification", 3), ("multilabel", 8), ("regression", 1)]
)
def test_one_layer_is_exactly_two(kind, units, tmp_path):
    before = finetuned(kind, units=units)
    notes = HUGGINGFACE.write(before, str(tmp_path))
    assert len(notes) == (kind == "regression")
    after = read(tmp_path, "huggingface")
    assert after.description.tasks == before.description.tasks
    assert_same_arrays(dict(after.arrays), dict(before.arrays))
    # What transformers computes: out_proj(gelu(dense(x))).
    tensors = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    x = np.random.default_rng(2).normal(size=(5, 16)).astype(np.float32)
    inner = x @ tensors["classifier.dense.weight"].T + tensors["classifier.dense.bias"]
    from scipy.special import ndtr

    gelu = inner * ndtr(inner)
    outer = gelu @ tensors["classifier.out_proj.weight"].T + tensors["classifier.out_proj.bias"]
    ours = x @ before.arrays["task_specific/mine/dense/kernel"]
    ours = ours + before.arrays["task_specific/mine/dense/bias"]
    np.testing.assert_allclose(outer, ours, atol=TOLERANCE)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["ElectraForSequenceClassification"]


def test_choices_survive_a_round_trip(tmp_path):
    before = finetuned("multiple_choice", units=1)
    labels = ("A", "B", "C", "D")
    task = TaskDescription("mine", "multiple_choice", labels)
    before = dataclasses.replace(
        before, description=dataclasses.replace(before.description, tasks=(task,))
    )
    (note,) = HUGGINGFACE.write(before, str(tmp_path / "there"))
    assert "whether choices follow a question" in note
    config = json.loads((tmp_path / "there/config.json").read_text())
    assert config["architectures"] == ["ElectraForMultipleChoice"]
    assert config["id2label"] == dict(zip("0123", labels, strict=True))
    summary = {name: value for name, value in config.items() if name.startswith("summary_")}
    assert summary == {
        "summary_type": "first",
        "summary_use_proj": False,
        "summary_activation": "",
        "summary_last_dropout": 0.1,
    }
    tensors = safetensors.numpy.load_file(tmp_path / "there/model.safetensors")
    heads = {n: v.shape for n, v in tensors.items() if not n.startswith("electra.")}
    assert heads == {"classifier.weight": (1, 16), "classifier.bias": (1,)}
    after = read(tmp_path / "there", "huggingface")
    assert after.description.tasks == (task,)
    assert_same_arrays(dict(after.arrays), dict(before.arrays))
    assert own_hyperparameters(after)["labels"] == {"mine": list(labels)}
    # Through the files of this project, too.
    format_of("electra_tf").write(after, str(tmp_path / "ours"))
    ours = read(tmp_path / "ours", "electra_tf")
    settings = {"has_question": False, "max_seq_length": 16}
    assert ours.description.tasks == (dataclasses.replace(task, settings=settings),)
    assert_same_arrays(ours.weights, before.weights)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"summary_type": "mean"}, "summary_type 'mean'"),
        ({"summary_activation": "tanh"}, "summary_activation 'tanh'"),
        ({"summary_use_proj": True}, "summary_use_proj True"),
    ],
)
def test_other_summaries_of_choices_have_no_counterpart(tmp_path, change, said):
    folder = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / "multiple_choice", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    if "summary_use_proj" in change:
        tensors = safetensors.numpy.load_file(folder / "model.safetensors")
        more = {f"sequence_summary.summary.{n}": tensors["classifier.bias"] for n in ("w", "b")}
        safetensors.numpy.save_file(tensors | more, folder / "model.safetensors")
    checkpoint = read(folder, "huggingface")
    assert checkpoint.description.tasks == ()
    (note,) = checkpoint.notes
    assert note.startswith("classifier.bias, classifier.weight")
    assert said in note
    assert {name.split("/")[0] for name in checkpoint.arrays} == {"electra"}


def test_a_published_head_of_choices_has_no_counterpart(tmp_path):
    """Their defaults: a projection and GELU, which config.json leaves out."""
    folder = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / "multiple_choice", folder)
    config = json.loads((folder / "config.json").read_text())
    kept = {name: v for name, v in config.items() if not name.startswith("summary_")}
    (folder / "config.json").write_text(json.dumps(kept))
    (note,) = read(folder, "huggingface").notes
    assert "summary_use_proj True, summary_activation 'gelu'" in note


@pytest.mark.parametrize(
    "tensors",
    [
        {"classifier.weight": (3, 16), "classifier.bias": (3,)},
        {"classifier.weight": (1, 16)},
        {"classifier.weight": (1, 16), "classifier.bias": (1,), "other.bias": (1,)},
    ],
    ids=["three outputs", "no bias", "one too many"],
)
def test_the_weights_of_another_head_are_refused(tmp_path, tensors):
    folder = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / "multiple_choice", folder)
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    kept = {name: v for name, v in stored.items() if name.startswith("electra.")}
    heads = {name: np.zeros(shape, np.float32) for name, shape in tensors.items()}
    safetensors.numpy.save_file(kept | heads, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"ElectraForMultipleChoice .* weights have class"):
        read(folder, "huggingface")


def test_heads_without_counterpart_are_reported(tmp_path):
    notes = HUGGINGFACE.write(finetuned("classification", units=9), str(tmp_path / "many"))
    assert "9 outputs exceed half of the hidden size 16" in notes[0]
    config = json.loads((tmp_path / "many/config.json").read_text())
    assert config["architectures"] == ["ElectraModel"]
    tensors = safetensors.numpy.load_file(tmp_path / "many/model.safetensors")
    assert "embeddings.word_embeddings.weight" in tensors
    assert not any(name.startswith(("electra.", "classifier.")) for name in tensors)

    joint = {"dense": (16, 1), "qa_hidden": (32, 4), "dense_1": (4, 1)}
    notes = HUGGINGFACE.write(finetuned("qa", layers=joint), str(tmp_path / "joint"))
    assert "--joint_prediction=false" in notes[0]
    plain = {"dense": (16, 1), "dense_1": (16, 1), "dense_2": (16, 1)}
    notes = HUGGINGFACE.write(finetuned("qa", layers=plain), str(tmp_path / "plain"))
    assert notes[0].startswith("task_specific/mine: dense_2 (whether there is an answer), and ")
    assert_same_arrays(
        read(tmp_path / "plain", "huggingface").part("task_specific/mine/dense_1/"),
        finetuned("qa", layers=plain).part("task_specific/mine/dense_1/"),
    )
    notes = HUGGINGFACE.write(finetuned("counting"), str(tmp_path / "other"))
    assert notes[0] == (
        "task_specific/mine: counting heads are not converted; only the encoder is written"
    )
    config = json.loads((tmp_path / "other/config.json").read_text())
    assert config["architectures"] == ["ElectraModel"]


def test_half_precision_becomes_float32(tmp_path):
    folder = tmp_path / "half"
    shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", folder)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    halves = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors.items()}
    safetensors.numpy.save_file(halves, folder / "model.safetensors")
    name = "electra/embeddings/word_embeddings"
    value = read(folder, "huggingface").arrays[name]
    assert value.dtype == np.float32
    expected = tensors["electra.embeddings.word_embeddings.weight"].astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(value, expected.astype(np.float32))


def test_double_precision_is_rounded_with_a_note(tmp_path):
    folder = tmp_path / "double"
    shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", folder)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    name = "electra.embeddings.word_embeddings.weight"
    tensors[name] = tensors[name].astype(np.float64) + 1e-12
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    checkpoint = read(folder, "huggingface")
    assert checkpoint.arrays["electra/embeddings/word_embeddings"].dtype == np.float32
    note = "the precision of float64 tensors (1): rounded to float32"
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    assert set(checkpoint.notes) - set(before.notes) == {note}


def test_shards_and_a_vocabulary_inside_of_the_tokenizer(tmp_path):
    folder = tmp_path / "shards"
    shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", folder)
    whole = read(folder, "huggingface")
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index = {name: f"part{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in set(index.values()):
        part = {name: v for name, v in tensors.items() if index[name] == file}
        safetensors.numpy.save_file(part, folder / file)
    content = json.dumps({"weight_map": index})
    (folder / "model.safetensors.index.json").write_text(content)
    tokens = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {token: i for i, token in enumerate(tokens)}}
    normalizer = {"type": "BertNormalizer", "lowercase": True, "strip_accents": False}
    (folder / "tokenizer.json").write_text(
        json.dumps({"model": model, "normalizer": normalizer})
    )
    (folder / "tokenizer_config.json").write_text('{"strip_accents": false}')
    checkpoint = read(folder, "huggingface")
    assert_same_arrays(dict(checkpoint.arrays), dict(whole.arrays))
    assert checkpoint.description.vocabulary == whole.description.vocabulary
    assert checkpoint.description.do_lower_case
    assert not checkpoint.description.strip_accents


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "silu"}, "hidden_act must be one of gelu"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type must be"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps must be a number, not 'small'"),
        (
            {"num_attention_heads": 5},
            r"config.json: hidden_size \(\d+\) is not a multiple of num_attention_heads \(5\)$",
        ),
    ],
)
def test_other_encoders_are_refused(tmp_path, change, message):
    folder = tmp_path / "other"
    shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UserError, match=message):
        HUGGINGFACE.read(str(folder))


def test_no_weights_and_damaged_weights(tmp_path):
    folder = tmp_path / "empty"
    shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", folder)
    (folder / "model.safetensors").write_bytes(b"not a header")
    with pytest.raises(UserError, match="safetensors cannot be read"):
        HUGGINGFACE.read(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="contains no weights"):
        HUGGINGFACE.read(str(folder))


def test_what_the_tokenizer_here_cannot_do_is_noted(tmp_path):
    folder = tmp_path / "tokenizer"
    shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", folder)
    settings = {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    accents, characters = HUGGINGFACE.read(str(folder)).notes
    assert "strip_accents" in accents
    assert "tokenize_chinese_chars" in characters


def test_description_of_an_encoder_names_the_published_size():
    encoder = read(HUGGINGFACE_DATA / "base", "huggingface").description.encoder
    base = dataclasses.replace(
        encoder,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        embedding_size=768,
        max_position_embeddings=512,
    )
    settings = ModelDescription(encoder=base).model_settings()
    assert settings["model_size"] == "base"
    assert settings["model_hparam_overrides"] == {}


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "..", "a/b", "a\\b", "", "x\0"])
def test_names_that_lead_to_other_folders_are_refused(tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / "token_classification", folder)
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(UserError, match=r"index\.json names the file .* without folders"):
        read(folder, "huggingface")
    with pytest.raises(UserError, match=r"names the task .* without folders"):
        TaskDescription(name, "tagging")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_any_value_of_a_description_is_read_or_refused(tmp_path, file):
    folder = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / "token_classification", folder)
    text = (folder / file).read_text()
    if file == "config.json":
        text = json.dumps({**json.loads(text), "trained_positions": 8})
    refused = []
    for changed in changed_values(text):
        (folder / file).write_text(changed)
        try:
            HUGGINGFACE.settings(str(folder))
            HUGGINGFACE.read(str(folder))
        except UserError as error:
            refused.append(str(error))
    assert all("config.json" in error or "names the task" in error for error in refused)
    assert len(refused) > 50 or file != "config.json"


@pytest.mark.parametrize("value", ["48", 48.5, True, None, [48]])
def test_sizes_are_whole_numbers(value):
    with pytest.raises(UserError, match="hidden_size must be a whole number, not"):
        EncoderConfig(hidden_size=value)


def test_of_two_models_the_settings_are_the_discriminators(tmp_path):
    pair = HUGGINGFACE_DATA / "small"
    of_discriminator = HUGGINGFACE.settings(str(pair / "discriminator"))
    assert HUGGINGFACE.settings(str(pair)) == of_discriminator
    assert HUGGINGFACE.settings(str(tmp_path)) is None


def test_a_vocabulary_without_padding_is_refused(tmp_path):
    checkpoint = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    words = checkpoint.description.vocabulary.replace(b"[PAD]", b"[FILL]")
    described = dataclasses.replace(checkpoint.description, vocabulary=words)
    with pytest.raises(UserError, match=r"no token \[PAD\]: .*--vocab_file"):
        HUGGINGFACE.write(
            dataclasses.replace(checkpoint, description=described), str(tmp_path / "out")
        )
    assert not (tmp_path / "out").exists()


def test_what_only_training_needs_is_left_out_by_name(tmp_path):
    checkpoint = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    slots = {f"{name}/adam_m": value for name, value in checkpoint.arrays.items()}
    trained = dataclasses.replace(checkpoint, arrays={**checkpoint.arrays, **slots}, step=7)
    notes = HUGGINGFACE.write(trained, str(tmp_path))
    assert f"{len(slots)} optimizer moments" in notes
    assert "the step (7)" in notes
