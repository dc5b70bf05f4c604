r"""What needs PyTorch and transformers, for a Python of its own; nothing of this repository.

    python tests/electra_tf/interop/huggingface/huggingface_side.py make tests/data/huggingface

makes the small random models whose outputs the tests compare with, and

    python tests/electra_tf/interop/huggingface/huggingface_side.py \
        run FOLDER INPUTS.npz OUTPUTS.npz

loads a folder and writes what the model puts out, for `test_transformers.py`.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCAB_SIZE, POSITIONS = 48, 16
# Shapes of the published sizes, scaled down: small alone has narrower embeddings.
SIZES = {
    "small": {"embedding_size": 8, "hidden_size": 16, "heads": 4, "layers": 2},
    "base": {"embedding_size": 24, "hidden_size": 24, "heads": 3, "layers": 2},
    "large": {"embedding_size": 32, "hidden_size": 32, "heads": 4, "layers": 3},
}
GENERATOR_HIDDEN = 8
TOKENIZER_CONFIG = {"do_lower_case": False, "model_max_length": POSITIONS}


def config(size: str, **more) -> transformers.ElectraConfig:
    """Returns the configuration of a size."""
    shape = SIZES[size]
    settings = {
        "embedding_size": shape["embedding_size"],
        "hidden_size": shape["hidden_size"],
        "num_attention_heads": shape["heads"],
        "num_hidden_layers": shape["layers"],
        "intermediate_size": 4 * shape["hidden_size"],
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": POSITIONS,
    }
    return transformers.ElectraConfig(**{**settings, **more})


def generator_config(size: str) -> transformers.ElectraConfig:
    """Returns the configuration of the generator of a size."""
    hidden = {"hidden_size": GENERATOR_HIDDEN, "intermediate_size": 4 * GENERATOR_HIDDEN}
    return config(size, num_attention_heads=1, **hidden)


def randomized(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Gives every weight, zeros and ones too, a random value of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def random_inputs() -> dict[str, np.ndarray]:
    """Returns a padded batch of three sequences, with segments."""
    random = np.random.default_rng(3)
    mask = np.ones((3, POSITIONS), np.int64)
    mask[1, 9:] = mask[2, 4:] = 0
    segments = np.zeros_like(mask)
    segments[:, 3:8] = mask[:, 3:8]
    ids = random.integers(5, VOCAB_SIZE, mask.shape) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def choice_inputs() -> dict[str, np.ndarray]:
    """Returns the sequences of `random_inputs` as the choices of one example."""
    return {name: value[None] for name, value in random_inputs().items()}


def outputs_of(model: torch.nn.Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what the model puts out, by transformers' names."""
    with torch.no_grad():
        output = model(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in output.items()}


def save(
    model: torch.nn.Module,
    folder: pathlib.Path,
    *,
    inputs: dict[str, np.ndarray] | None = None,
    as_pytorch: bool = False,
) -> None:
    """Writes a model as the published ones are laid out, and its outputs."""
    model.save_pretrained(folder)
    if as_pytorch:
        (folder / "model.safetensors").unlink()
        state = dict(model.state_dict())
        # Older releases saved these buffers with the weights.
        state["electra.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
        torch.save(state, folder / "pytorch_model.bin")
    tokens = [*SPECIAL, *(f"w{i}" for i in range(VOCAB_SIZE - len(SPECIAL)))]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG))
    inputs = inputs or random_inputs()
    np.savez_compressed(folder / "outputs.npz", **inputs, **outputs_of(model, inputs))


def make(root: pathlib.Path) -> None:
    """Makes all folders of test data."""
    for seed, size in enumerate(SIZES):
        discriminator = transformers.ElectraForPreTraining(config(size))
        generator = transformers.ElectraForMaskedLM(generator_config(size))
        randomized(discriminator, seed)
        randomized(generator, seed + 10)
        # As published: one table of embeddings for both.
        state = discriminator.electra.embeddings.state_dict()
        generator.electra.embeddings.load_state_dict(state)
        save(discriminator, root / size / "discriminator")
        save(generator, root / size / "generator")
    tags = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "finetuning_task": "names"}
    models = {
        "token_classification": transformers.ElectraForTokenClassification(
            config("small", **tags)
        ),
        "question_answering": transformers.ElectraForQuestionAnswering(config("small")),
        "sequence_classification": transformers.ElectraForSequenceClassification(
            config("small", id2label={0: "bad", 1: "good"})
        ),
        "gelu_new": transformers.ElectraForPreTraining(
            config("small", hidden_act="gelu_new", layer_norm_eps=1e-5)
        ),
    }
    for seed, (name, model) in enumerate(models.items()):
        save(randomized(model, 20 + seed), root / name)
    one_layer = {"summary_use_proj": False, "summary_activation": ""}
    choices = transformers.ElectraForMultipleChoice(config("small", **one_layer))
    save(randomized(choices, 25), root / "multiple_choice", inputs=choice_inputs())
    korean = randomized(transformers.ElectraForPreTraining(config("base")), 30)
    save(korean, root / "pytorch_bin", as_pytorch=True)


def run(folder: str, inputs: str, outputs: str) -> None:
    """Loads a folder as its `architectures` says; every weight must be there and known."""
    settings = json.loads(pathlib.Path(folder, "config.json").read_text())
    model_class = getattr(transformers, settings["architectures"][0])
    model, report = model_class.from_pretrained(folder, output_loading_info=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = {text: tokenizer.tokenize(text) for text in ("w1 w2", "W1 É")}
    values = outputs_of(model.eval(), dict(np.load(inputs)))
    np.savez(outputs, **values)
    problems = {name: sorted(value) for name, value in report.items() if value}
    print(json.dumps({"problems": problems, "tokens": tokens}))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]))
    else:
        run(*sys.argv[2:5])
