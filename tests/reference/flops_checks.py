"""FLOPs: the published models, inference, and the parts of Transformers of other shapes."""

import functools
import json
import pathlib
from collections.abc import Iterator
from typing import Any

from electra_tf.flops.counting import Transformer
from electra_tf.flops.published import large_models, small_models
from tests.reference.result import CheckResult, Comparison, guarded, skip

FLOPS_FILE = "flops.json"
# Sums of integers and of products with a share, in another order than theirs.
TOLERANCE = 1e-12
# Rows of the paper's tables by the names of the authors' script.
PUBLISHED = {
    "elmo": "ELMo",
    "xlnet": "XLNet-Large",
    "gpt": "GPT",
    "bert_small": "BERT-Small",
    "bert_base": "BERT-Base",
    "bert_large": "BERT-Large",
    "electra_small": "ELECTRA-Small",
    "electra_base": "ELECTRA-Base",
    "electra_400k": "ELECTRA-400K",
    "electra_1.75M": "ELECTRA-1.75M",
    "roberta": "RoBERTa-500K",
    "albert": "ALBERT",
    "t5_11b": "T5-11B",
}
# Attributes of `Transformer` by the arguments of the authors' TransformerHparams.
ARGUMENTS = {
    "h": "hidden_size",
    "l": "num_hidden_layers",
    "s": "seq_length",
    "v": "vocab_size",
    "e": "embedding_size",
    "i": "intermediate_size",
    "heads": "num_attention_heads",
    "head_size": "head_size",
    "output_frac": "output_share",
    "decoder": "decoder",
}


def check_flops(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the checks of `flops.json`, which a set need not have."""
    path = reference_dir / FLOPS_FILE
    if not path.exists():
        yield skip("flops", f"there is no {FLOPS_FILE} in this set")
        return
    recorded = json.loads(path.read_text())
    if training := recorded.pop("train_flops_printed_by_the_script", None):
        yield _check_training(training)
    inference, arguments = (recorded.pop(name, {}) for name in ("infer_flops", "infer_args"))
    if inference:
        yield _check_inference(inference, arguments)
    for i, part in enumerate(recorded.pop("parts", ())):
        yield from guarded(f"flops parts {i}", functools.partial(_check_part, i, part))
    if recorded:
        yield skip("flops not compared", ", ".join(recorded))


def _check_training(recorded: dict[str, float]) -> CheckResult:
    comparison = Comparison("flops training")
    ours = {model.name: model for model in (*small_models(), *large_models())}
    for name, flops in recorded.items():
        comparison.true(name, name in PUBLISHED, "no such model here")
        if name in PUBLISHED:
            comparison.close(name, ours[PUBLISHED[name]].train_flops, flops, TOLERANCE)
    return comparison.result()


def _check_inference(recorded: dict[str, float], arguments: dict[str, Any]) -> CheckResult:
    comparison = Comparison("flops inference")
    for name, flops in recorded.items():
        comparison.close(name, transformer(arguments[name]).inference(), flops, TOLERANCE)
    return comparison.result()


def _check_part(number: int, part: dict[str, Any]) -> Iterator[CheckResult]:
    comparison = Comparison(f"flops parts {number}")
    model = transformer(part.pop("args"))
    for label, ours in (
        ("block", model.layer()),
        ("embedding_in", model.embeddings()),
        ("embedding_out", model.vocabulary_head()),
        ("binary", model.binary_head()),
        ("infer", model.inference()),
        ("train_b8_s100", model.masked_lm_training(8, 100)),
        ("train_disc_b8_s100", model.discriminator_training(8, 100)),
    ):
        comparison.close(label, ours, part.pop(label), TOLERANCE)
    yield comparison.result()
    if part:
        yield skip(f"flops parts {number} not compared", ", ".join(part))


def transformer(arguments: dict[str, Any]) -> Transformer:
    """Returns the Transformer of the arguments of the authors' TransformerHparams."""
    given = dict(arguments)
    dense = not given.pop("sparse_embed_lookup", False)
    renamed = {ARGUMENTS[name]: value for name, value in given.items()}
    return Transformer(dense_embedding_lookup=dense, **renamed)
