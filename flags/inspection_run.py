"""The body of `inspect_dataset.py`: reads or verifies the records, and writes the reports."""

import dataclasses
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from electra_tf.config.pretraining import TRAIN_FLAG, PretrainingConfig
from electra_tf.inference.masked_examples import (
    ExampleToken,
    legend,
    load_masking,
    masked_examples,
    render,
)
from electra_tf.text.vocabulary import Vocabulary, load_model_vocabulary, load_vocabulary
from electra_tf.util.files import to_json, write_atomically
from electra_tf.util.output_checks import check_not_input
from flags.inspection import STANDARD_OUTPUT, InspectionConfig
from flags.records import held_out_beside, training_records
from pretrain_data.inspect.console_report import common_folder, format_report
from pretrain_data.inspect.inspection import inspect_files
from pretrain_data.inspect.page import import_template_engine, render_page
from pretrain_data.inspect.verification import verify_files
from pretrain_data.records.checks import (
    check_built_files,
    check_sequence_length,
    check_vocabulary,
    recorded_length,
)
from pretrain_data.records.files import file_size, find_record_files


def run(config: InspectionConfig) -> None:
    """Describes or verifies the records.

    Raises:
        UserError: a record or file is damaged, or was built with another vocabulary.
    """
    if config.html:
        import_template_engine()
    files = find_record_files(config.patterns, TRAIN_FLAG)
    for flag, output in (("--json", config.json), ("--html", config.html)):
        for path in files if output else ():
            check_not_input(output, flag, {TRAIN_FLAG: path})
    vocabulary = load_vocabulary(config.settings["vocab_file"], "--vocab_file")
    if config.verify:
        _verify(config, files, vocabulary)
        return
    model = _checked_model(config, files, vocabulary)
    masking = None
    if config.examples:
        model_vocabulary = load_model_vocabulary(
            model.vocab_file, model.vocab_size, "--vocab_file"
        )
        masking = load_masking(model, model_vocabulary, training_records(model).token_counts)
    found = inspect_files(
        files,
        vocabulary,
        max_records=config.max_records,
        num_examples=config.examples,
        num_frequent=config.top_tokens,
        skip_bad_records=model.skip_bad_records,
        seed=model.seed,
    )
    examples = masked_examples(model, vocabulary, masking, found.rows) if masking else []
    report: dict[str, Any] = found.report
    if examples:
        report["masking"] = {"masking": model.masking, "mask_prob": model.mask_prob}
        report["examples"] = [[item._asdict() for item in each] for each in examples]
    if config.json != STANDARD_OUTPUT:
        _print_report(config, model, report, examples)
    _write_json(config, report)
    if config.html:
        _write_page(config, report)


def _checked_model(
    config: InspectionConfig, files: Sequence[str], vocabulary: Vocabulary
) -> PretrainingConfig:
    """Returns the configuration of a run that trains on the records.

    Raises:
        UserError: they are incomplete, or have another length or vocabulary.
    """
    longest = _longest(files)
    length, _ = recorded_length(longest, TRAIN_FLAG)
    model = config.model(length)
    if "max_seq_length" in config.settings:
        check_sequence_length(longest, model.max_seq_length, TRAIN_FLAG)
    check_vocabulary(files, vocabulary, TRAIN_FLAG)
    check_built_files(files, skip_bad_records=model.skip_bad_records)
    return model


def _longest(files: Sequence[str]) -> Sequence[str]:
    """Returns the last non-empty file, which has the longest records."""
    sized = (path for path in reversed(files) if file_size(path))
    return [next(sized, files[-1])]


def _verify(config: InspectionConfig, files: Sequence[str], vocabulary: Vocabulary) -> None:
    check_vocabulary(files, vocabulary, TRAIN_FLAG)
    verified = verify_files(files, vocabulary.size, TRAIN_FLAG)
    _write_json(config, {"verified": [dataclasses.asdict(each) for each in verified]})
    if config.json == STANDARD_OUTPUT:
        return
    num_records = sum(each.num_records for each in verified)
    num_bytes = sum(each.num_bytes for each in verified)
    print(
        f"{len(verified):,} files with {num_records:,} records ({num_bytes / 1e6:,.1f} MB) are "
        "intact."
    )
    unlisted = [each.path for each in verified if not each.in_manifest]
    if unlisted:
        print(
            f"{len(unlisted):,} of them have no manifest to compare with, first: {unlisted[0]}"
        )
    folders = {os.path.dirname(path) for path in files}
    for pattern in held_out_beside(files):
        if os.path.dirname(pattern) not in folders:
            print(f"Held-out records are verified with {TRAIN_FLAG}={shlex.quote(pattern)}")


def _print_report(
    config: InspectionConfig,
    model: PretrainingConfig,
    report: dict[str, Any],
    examples: Sequence[Sequence[ExampleToken]],
) -> None:
    print(format_report(report), end="")
    if examples:
        print(
            f"\nExamples, --masking={model.masking}, --mask_prob={model.mask_prob}. "
            f"{legend(color=config.color)}"
        )
    for example in examples:
        print(f"\n  {render(example, color=config.color)}")


def _write_json(config: InspectionConfig, content: dict[str, Any]) -> None:
    if config.json == STANDARD_OUTPUT:
        sys.stdout.write(to_json(content).decode())
    elif config.json:
        write_atomically(config.json, to_json(content))
        print(f"\nWritten to {config.json}")


def _write_page(config: InspectionConfig, report: dict[str, Any]) -> None:
    title = f"Records of {common_folder(report) or os.curdir}"
    content = render_page(report, report.get("examples", []), title)
    write_atomically(config.html, content)
    if config.json != STANDARD_OUTPUT:
        print(f"\nWritten to {config.html}")
