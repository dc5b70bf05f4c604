"""Compares the whole project with numbers that the authors' code produced.

    python -m tests.check_reference --reference_dir ../shared/reference/pretraining
    python -m tests.check_reference --reference_dir tests/data/reference/pretraining

Prints one line for each check, PASS, FAIL or SKIP, and exits with status 1 if any failed
or any file is missing. The README beside the data defines every array; any set of that
format can be given.
"""

import argparse
import json
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence

from pretrain_data.quiet import import_tensorflow
from tests.reference.result import CheckResult, guarded

VOCAB_FILE = pathlib.Path(__file__).parents[1] / "recipes/vocab/bert_uncased_vocab.txt"
EXPECTED_FILES = (
    "tokenization.jsonl",
    "pretraining_examples_meta.json",
    "forward_config.json",
    "helpers.npz",
    "helpers_config.json",
    "optimizer.npz",
    "optimizer_config.json",
)


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
    start = time.monotonic()
    import_tensorflow()
    results = []
    for result in run_checks(flags.reference_dir, flags.vocab_file):
        word = "SKIP" if result.skipped else "PASS" if result.passed else "FAIL"
        print(f"{word} {result.name}: {result.detail}", flush=True)
        results.append(result)
    failed = sum(not result.passed for result in results)
    skipped = sum(result.skipped for result in results)
    print(
        f"{len(results) - failed - skipped} passed, {failed} failed, {skipped} skipped "
        f"in {time.monotonic() - start:.0f} s: {flags.reference_dir}"
    )
    return 1 if failed else 0


def run_checks(reference_dir: pathlib.Path, vocab_file: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the results of all checks; one that cannot be run is a failed one."""
    import tensorflow as tf

    from tests.reference.data_checks import check_data
    from tests.reference.helper_checks import check_helpers
    from tests.reference.model_checks import check_models
    from tests.reference.optimizer_checks import check_optimizer

    # On a GPU, products of float32 would otherwise keep ten bits of the mantissa.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    yield from guarded("files", lambda: [check_files(reference_dir)])
    yield from guarded("data", lambda: check_data(reference_dir, vocab_file))
    yield from guarded("helpers", lambda: check_helpers(reference_dir))
    yield from guarded("forward", lambda: check_models(reference_dir))
    yield from guarded("optimizer", lambda: check_optimizer(reference_dir))


def check_files(reference_dir: pathlib.Path) -> CheckResult:
    """Looks for every file of a set, those that its JSON files name included."""
    from tests.reference.model_checks import uncovered_options

    names = list(EXPECTED_FILES)
    meta = _read_json(reference_dir / "pretraining_examples_meta.json")
    names += meta.get("corpus_sha256", {})
    for case in meta.get("cases", []):
        names += [case["file"], *case["corpora"]]
        shards = case["num_out_files"]
        if shards > 1:
            names += [f"pretrain_data-{i}-of-{shards}.tfrecord" for i in range(shards)]
    for variant in _read_json(reference_dir / "forward_config.json").values():
        if "file" in variant and not uncovered_options(variant):
            checkpoint = variant["checkpoint"]
            names += [variant["file"], f"{checkpoint}.index"]
            names.append(f"{checkpoint}.data-00000-of-00001")
    names = sorted(set(names))
    missing = [name for name in names if not (reference_dir / name).exists()]
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(names)} files"
    return CheckResult("files", not missing, detail)


def _read_json(path: pathlib.Path) -> dict:
    # Its absence is reported with that of the others.
    return json.loads(path.read_text()) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
