"""The statistics of records as text."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from electra_tf.util.console import markdown_table, percent
from electra_tf.util.paths import is_remote

MAX_FILES = 20
_BAR_LENGTH = 40


def format_report(report: Mapping[str, Any]) -> str:
    """Returns the report of `inspection.inspect_files` as lines for a terminal."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    total, files = report["total"], report["files"]
    sampled = report["records_per_file"]
    if sampled is not None:
        yield f"Sample: at most {sampled:,} records from the start of each file.\n"
    yield from _table(report)
    if len(files) > MAX_FILES:
        yield f"{len(files) - MAX_FILES:,} more files: see --json or --html."
    if report["duplicates_estimated"]:
        yield "The number of duplicates is estimated from a sample of the rows."
    yield f"\nTokens per record, with [CLS] and [SEP]: {spread(total['lengths'])}"
    yield from _histogram(total["lengths"])
    yield (
        f"\nSegments: {percent(total['one_segment_share'])} of the records have one. Tokens "
        "without [CLS] and [SEP]:"
    )
    yield f"  first:  {spread(total['first_segment'])}"
    yield f"  second: {spread(total['second_segment'])}"
    known = f"{total['distinct_tokens']:,} of {report['vocabulary']['size']:,} tokens occur"
    unknown = f"{percent(total['unknown_share'])} of {total['words']:,} words are unknown"
    yield f"\nVocabulary: {known}; {unknown} ([UNK]). Most frequent tokens:"
    shown = [f"{f['token']} {percent(f['share'])}" for f in total["frequent_tokens"]]
    yield "  " + "   ".join(shown)


def _table(report: Mapping[str, Any]) -> Iterator[str]:
    header = (
        "file",
        "records",
        "length",
        "mean",
        "padding",
        "unknown",
        "one segment",
        "duplicates",
        "most frequent",
    )
    rows = table_rows(report, report["files"][:MAX_FILES], num_frequent=3)
    yield markdown_table(header, rows, text_columns=1)
    skipped = report["total"]["skipped_records"]
    if skipped:
        yield f"{skipped:,} damaged records were skipped."


def table_rows(
    report: Mapping[str, Any], files: Sequence[Mapping[str, Any]], num_frequent: int
) -> list[list[str]]:
    """Returns the cells of the table of files; the first row is that of all files.

    Args:
        report: report of `inspection.inspect_files`.
        files: its files to show.
        num_frequent: number of frequent tokens in the last column.
    """
    folder = common_folder(report)
    named = [
        (
            os.path.relpath(f["file"], folder) if folder else f["file"],
            str(f["seq_length"]),
            f,
        )
        for f in files
    ]
    return [
        [
            name,
            f"{counts['records']:,}",
            length,
            number(counts["lengths"]["mean"]),
            percent(counts["padding_share"]),
            percent(counts["unknown_share"]),
            percent(counts["one_segment_share"]),
            f"{counts['duplicates']:,}",
            " ".join(each["token"] for each in counts["frequent_tokens"][:num_frequent]),
        ]
        for name, length, counts in (("all", "", report["total"]), *named)
    ]


def common_folder(report: Mapping[str, Any]) -> str:
    """Returns the deepest folder that contains all files; "" if there is none."""
    folders = [os.path.dirname(each["file"]) for each in report["files"]]
    if len({(is_remote(folder), os.path.isabs(folder)) for folder in folders}) > 1:
        if any(map(is_remote, folders)):
            return ""
        folders = list(map(os.path.abspath, folders))
    return os.path.commonpath(folders)


def spread(summary: Mapping[str, Any]) -> str:
    """Returns mean, quantiles and extremes of a `statistics.summary`."""
    if summary["mean"] is None:
        return "none"
    return (
        f"mean {summary['mean']:.1f}, median {summary['median']}, 5 to 95 %: "
        f"{summary['p05']} to {summary['p95']}, min {summary['min']}, max {summary['max']}"
    )


def _histogram(summary: Mapping[str, Any]) -> Iterator[str]:
    bins = summary["histogram"]
    total = sum(each["records"] for each in bins)
    most = max(each["records"] for each in bins)
    for each in bins:
        name = bin_name(each)
        bar = "█" * round(_BAR_LENGTH * each["records"] / most)
        share = percent(each["records"] / total)
        yield f"  {name:>11} {share:>7} {bar}".rstrip()


def bin_name(histogram_bin: Mapping[str, int]) -> str:
    """Returns the lengths of a bin, such as `8-15`."""
    first, last = histogram_bin["from"], histogram_bin["to"]
    return f"{first}" if first == last else f"{first}-{last}"


def number(value: float | None) -> str:
    """Formats a mean; `-` for None."""
    return "-" if value is None else f"{value:.1f}"
