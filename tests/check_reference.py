"""Compares the whole project with numbers that the authors' code produced.

    python -m tests.check_reference --reference_dir ../shared/reference/pretraining
    python -m tests.check_reference --reference_dir ../shared/reference/finetuning
    python -m tests.check_reference --reference_dir tests/data/reference/pretraining

A set with a `features.jsonl` is one of fine-tuning, any other one of pre-training; of a folder
without either, the sets in it are checked. Prints one line for each check, PASS, FAIL or SKIP,
and exits with status 1 if any failed or any file is missing. The README beside the data defines
every array; any set of that format can be given.
"""

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence

from electra_tf.util.tensorflow_import import import_tensorflow
from tests.reference.result import CheckResult, guarded, skip

VOCAB_FILE = pathlib.Path(__file__).parents[1] / "recipes/vocab/bert_uncased_vocab.txt"
FINETUNING_FILES = (
    "features.jsonl",
    "features_chunk_label_mapping.json",
    "features_raw_classification.json",
    "features_raw_squad.json",
    "layer_lrs.json",
    "scorers_basic.json",
    "scorers_qa_nbest.json",
    "scorers_squad_eval.json",
)
EXPECTED_FILES = (
    "tokenization.jsonl",
    "pretraining_examples_meta.json",
    "forward_config.json",
    "helpers.npz",
    "helpers_config.json",
    "optimizer.npz",
    "optimizer_config.json",
)
# Read if they are there, or not meant for a check.
OPTIONAL_FILES = ("README.md", "flops.json", "tiny_vocab.txt")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every check and returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--reference_dir", type=pathlib.Path, required=True, help="Folder of one set."
    )
    parser.add_argument(
        "--vocab_file",
        type=pathlib.Path,
        default=VOCAB_FILE,
        help="Vocabulary of the tokenization; BERT's uncased one if unset.",
    )
    flags = parser.parse_args(arguments)
    for path in (flags.reference_dir, flags.vocab_file):
        if not path.exists():
            parser.error(f"{path} does not exist")
    import_tensorflow()
    failed = [path for path in find_sets(flags.reference_dir) if not _passes(path, flags)]
    return 1 if failed else 0


def find_sets(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folder, or the sets in it if it is none itself."""

    def is_set(path: pathlib.Path) -> bool:
        return any((path / name).exists() for name in (*FINETUNING_FILES, *EXPECTED_FILES))

    inside = [] if is_set(folder) else sorted(filter(is_set, folder.iterdir()))
    return inside or [folder]


def _passes(reference_dir: pathlib.Path, flags: argparse.Namespace) -> bool:
    """Prints the results of a set, and returns whether none has failed."""
    start = time.monotonic()
    results = []
    for result in run_checks(reference_dir, flags.vocab_file):
        word = "SKIP" if result.skipped else "PASS" if result.passed else "FAIL"
        print(f"{word} {result.name}: {result.detail}", flush=True)
        results.append(result)
    failed = sum(not result.passed for result in results)
    skipped = sum(result.skipped for result in results)
    print(
        f"{len(results) - failed - skipped} passed, {failed} failed, {skipped} skipped "
        f"in {time.monotonic() - start:.0f} s: {reference_dir}",
        flush=True,
    )
    return not failed


def run_checks(reference_dir: pathlib.Path, vocab_file: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the results of all checks; one that cannot be run is a failed one."""
    import tensorflow as tf

    # On a GPU, products of float32 would otherwise keep ten bits of the mantissa.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if (reference_dir / "features.jsonl").exists():
        yield from run_finetuning_checks(reference_dir, vocab_file)
    else:
        yield from run_pretraining_checks(reference_dir, vocab_file)


def run_pretraining_checks(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields what a set of pre-training says."""
    from tests.reference.data_checks import check_data
    from tests.reference.flops_checks import check_flops
    from tests.reference.helper_checks import check_helpers
    from tests.reference.model_checks import check_models
    from tests.reference.optimizer_checks import check_optimizer

    yield from guarded("files", lambda: [check_files(reference_dir)])
    yield from other_files(reference_dir)
    yield from guarded("data", lambda: check_data(reference_dir, vocab_file))
    yield from guarded("helpers", lambda: check_helpers(reference_dir))
    yield from guarded("forward", lambda: check_models(reference_dir))
    yield from guarded("optimizer", lambda: check_optimizer(reference_dir))
    yield from guarded("flops", lambda: check_flops(reference_dir))


def run_finetuning_checks(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields what a set of fine-tuning says."""
    from tests.reference.classification_checks import check_classification
    from tests.reference.qa_checks import check_qa_features, check_qa_heads, check_qa_scorers
    from tests.reference.tagging_checks import check_tagging

    yield from guarded("files", lambda: [check_finetuning_files(reference_dir)])
    yield from guarded(
        "classification", lambda: check_classification(reference_dir, vocab_file)
    )
    yield from guarded("tagging", lambda: check_tagging(reference_dir, vocab_file))
    yield from guarded("qa features", lambda: check_qa_features(reference_dir, vocab_file))
    yield from guarded("qa heads", lambda: check_qa_heads(reference_dir))
    yield from guarded("qa scorers", lambda: check_qa_scorers(reference_dir, vocab_file))


def check_finetuning_files(reference_dir: pathlib.Path) -> CheckResult:
    """Looks for every file of a set of fine-tuning."""
    names = list(FINETUNING_FILES)
    for folder in sorted(path for path in (reference_dir / "heads").glob("*")):
        for name in ("arrays.npz", "config.json", "model.ckpt.index"):
            names.append(f"heads/{folder.name}/{name}")
    if not (reference_dir / "heads").is_dir():
        names.append("heads")
    missing = [name for name in names if not (reference_dir / name).exists()]
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(names)} files"
    return CheckResult("files", not missing, detail)


def check_files(reference_dir: pathlib.Path) -> CheckResult:
    """Looks for every file of a set, those that its JSON files name included."""
    names = _names_of_set(reference_dir)
    missing = [name for name in names if not (reference_dir / name).exists()]
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(names)} files"
    return CheckResult("files", not missing, detail)


def other_files(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the names of the files that no check reads, if there are any."""
    from tests.reference.data_checks import SHARDS

    names = _names_of_set(reference_dir)
    read = {*names, *OPTIONAL_FILES, *(path.name for path in reference_dir.glob(SHARDS))}
    others = sorted({path.name for path in reference_dir.iterdir()} - read)
    if others:
        yield skip("files not checked", ", ".join(others))


def _names_of_set(reference_dir: pathlib.Path) -> list[str]:
    names = list(EXPECTED_FILES)
    meta = _read_json(reference_dir / "pretraining_examples_meta.json")
    names += meta.get("corpus_sha256", {})
    for case in meta.get("cases", []):
        names += [case["file"], *case["corpora"]]
        shards = case["num_out_files"]
        if shards > 1:
            names += [f"pretrain_data-{i}-of-{shards}.tfrecord" for i in range(shards)]
    for variant in _read_json(reference_dir / "forward_config.json").values():
        if "file" in variant:
            checkpoint = variant["checkpoint"]
            names += [variant["file"], f"{checkpoint}.index"]
            names.append(f"{checkpoint}.data-00000-of-00001")
    return sorted(set(names))


def _read_json(path: pathlib.Path) -> dict:
    # Its absence is reported with that of the others.
    return json.loads(path.read_text()) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
