"""Checks that a folder of records has the shards that were built, and no others."""

import os
import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from pretrain_data.records.manifest import FILE_NAME, Manifest

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d+)-of-(?P<count>\d+)")


def check_shards(
    files: Sequence[str],
    manifests: Mapping[str, Manifest | None],
    *,
    skip_missing: bool,
) -> None:
    """Checks that no shard is missing in the folders of files, even if it is not to be read.

    Without a manifest, names such as `…-3-of-8` give the number of shards. Missing ones only
    cause a warning, since files of other programs may have been left out on purpose; so do
    files without records.

    Args:
        files: the files to read.
        manifests: the manifests of their folders, where there are any.
        skip_missing: warn of missing shards instead of failing.

    Raises:
        UserError: a shard in the manifest is missing.
    """
    for folder, manifest in manifests.items():
        if manifest is None:
            inside = [f for f in files if os.path.dirname(f) == folder]
            _warn_of_empty(inside)
            _warn_of_missing_by_name(folder, inside)
            continue
        paths = {name: os.path.join(folder, name) for name in manifest.shards}
        missing = [name for name, path in paths.items() if not tf.io.gfile.exists(path)]
        if missing and skip_missing:
            _warn_of_missing(folder, missing, len(paths))
        elif missing:
            raise UserError(
                f"{paths[missing[0]]} is missing; {FILE_NAME} beside it lists it with "
                f"{manifest.shards[missing[0]]:,} records. Rebuild the records, or read the "
                "other files with --skip_bad_records"
            )


def warn_of_unlisted(files: Sequence[str], manifests: Mapping[str, Manifest | None]) -> None:
    """Warns of files that the manifest beside them does not list.

    They are read, since records of other programs may have been added on purpose; but shards
    left by an earlier build repeat the same text.

    Args:
        files: the files to read.
        manifests: the manifests of their folders, where there are any.
    """
    for folder, manifest in manifests.items():
        if manifest is None:
            continue
        inside = [path for path in files if os.path.dirname(path) == folder]
        unlisted = [path for path in inside if os.path.basename(path) not in manifest.shards]
        if unlisted:
            are = "is" if len(unlisted) == 1 else "are"
            first = unlisted[0] if len(unlisted) == 1 else f"such as {unlisted[0]}"
            warn_once(
                f"{len(unlisted):,} of {len(inside):,} files {are} not listed in the "
                f"{FILE_NAME} beside them and {are} read with the others: {first}. Remove "
                "files of another build"
            )


def _warn_of_empty(files: Sequence[str]) -> None:
    empty = [path for path in files if not tf.io.gfile.stat(path).length]
    if len(empty) == 1:
        warn_once(f"{empty[0]} is empty: it has no records")
    elif empty:
        warn_once(f"{len(empty):,} of {len(files):,} files are empty, such as {empty[0]}")


def _warn_of_missing_by_name(folder: str, files: Sequence[str]) -> None:
    names = set(tf.io.gfile.listdir(folder or "."))
    for path in files:
        match = _SHARD.fullmatch(os.path.basename(path))
        if match is None:
            continue
        stem, count = match["stem"], int(match["count"])
        every = (f"{stem}-{index}-of-{count}" for index in range(count))
        missing = [name for name in every if name not in names]
        if missing:
            _warn_of_missing(folder, missing, count)


def _warn_of_missing(folder: str, missing: Sequence[str], num_shards: int) -> None:
    warn_once(
        f"{len(missing):,} of {num_shards:,} shards are missing in {folder}, such as "
        f"{missing[0]}: reading the others"
    )
