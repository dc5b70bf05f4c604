"""Parses a command line: normalizes spellings of flags, and explains invalid flags."""

import itertools
import os
import re
from collections.abc import Mapping, Sequence

from absl import flags

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.paths import with_home
from flags.command_line.recipe_files import find_flagfiles

# Comments after a value in a flag file, which shells would remove.
_COMMENT = re.compile(r"\S\s+#")
# Flags that take several files, separated by commas.
_FILE_LIST_FLAGS = ("eval_tfrecords", "input", "pretrain_tfrecords", "report")
_BOOLEAN_VALUES = ("true", "false", "t", "f", "1", "0")


def normalize_arguments(
    arguments: Sequence[str], aliases: Mapping[str, str] | None = None
) -> list[str]:
    """Rewrites `--data-dir` to `--data_dir`, `-h` to `--help`, and negations to absl's.

    Args:
        arguments: command-line arguments without the program name.
        aliases: alternative spellings with underscores (`no_lower_case`), mapped to absl's
            (`nodo_lower_case`).

    Returns:
        The arguments with flag names rewritten; values (also `-`, for standard output),
        positional arguments and everything after `--` are unchanged.
    """
    aliases = aliases or {}
    normalized = []
    for i, argument in enumerate(arguments):
        if argument == "--":
            normalized.extend(arguments[i:])
            break
        # An argument with a space before "=" is the value of the preceding flag.
        is_flag = argument.startswith("-") and argument != "-" and not _is_number_list(argument)
        is_flag = is_flag and " " not in argument.partition("=")[0]
        if not is_flag:
            normalized.append(argument)
            continue
        if argument == "-h":  # as in argparse
            argument = "--help"
        name, equals, value = argument.lstrip("-").partition("=")
        name = name.replace("-", "_")
        normalized.append(f"--{aliases.get(name, name)}{equals}{value}")
    return normalized


def parse(
    arguments: Sequence[str],
    aliases: Mapping[str, str] | None = None,
    flag_values: flags.FlagValues = flags.FLAGS,
) -> list[str]:
    """Parses `arguments` (program name first) and returns the positional ones.

    Expands `~` in paths such as `--model_dir=~/model`, which shells do not expand.

    Raises:
        UserError: an unknown flag (the message suggests the nearest name), or an invalid or
            missing value.
    """
    normalized = normalize_arguments(arguments[1:], aliases)
    _warn_of_repeated_files(normalized, flag_values)
    try:
        found = _join_boolean_values(find_flagfiles(normalized), flag_values)
        rest = flag_values([arguments[0], *found])
    except flags.UnrecognizedFlagError as error:
        raise UserError(_unknown_flag_message(error, flag_values)) from error
    except flags.Error as error:
        raise UserError(str(error).removeprefix("ERROR:: ")) from error
    except UnicodeDecodeError as error:
        given = ", ".join(n for n in normalized if n.startswith("--flagfile"))
        raise UserError(f"{given}: the file, or one that it includes, is not UTF-8") from error
    for name in flag_values:
        value = flag_values[name].value
        if value is not None:
            flag_values[name].value = with_home(value)
        if flag_values[name].present and isinstance(value, str) and _COMMENT.search(value):
            warn_once(
                f"--{name}={value}: the # and the text after it are part of the value; in a "
                "flag file, a comment must be on its own line"
            )
    return rest


def _warn_of_repeated_files(arguments: Sequence[str], flag_values: flags.FlagValues) -> None:
    """Warns of files that are not read because the same flag is given again later."""
    for name in _FILE_LIST_FLAGS:
        if name not in flag_values or flag_values[name].boolean:
            continue
        given = []
        for argument, following in itertools.zip_longest(
            arguments, arguments[1:], fillvalue=""
        ):
            if argument == "--":
                break
            flag, equals, value = argument.partition("=")
            if flag == f"--{name}":
                given.append(value if equals else following)
        if len(set(given)) > 1:
            warn_once(
                f"--{name} is given {len(given)} times, but only the last value is used: "
                f"{', '.join(given[:-1])} is not read. To read all, separate them with commas: "
                f"--{name}={','.join(given)}"
            )


def _join_boolean_values(arguments: Sequence[str], flag_values: flags.FlagValues) -> list[str]:
    """Rewrites `--blanks_separate_docs False` to `--blanks_separate_docs=False`.

    The authors' command lines pass booleans as a separate argument; absl would set the flag
    to true and leave the value as a positional argument. An empty value is
    false; in the authors' code, it is the only false value.
    """
    joined: list[str] = []
    for argument in arguments:
        previous = joined[-1] if joined else ""
        name = previous.removeprefix("--")
        takes_value = previous.startswith("--") and name in flag_values
        if (
            takes_value
            and flag_values[name].boolean
            and argument.lower() in ("", *_BOOLEAN_VALUES)
            and "--" not in joined
        ):
            joined[-1] = f"{previous}={argument or 'false'}"
        else:
            joined.append(argument)
    return joined


def _unknown_flag_message(
    error: flags.UnrecognizedFlagError, flag_values: flags.FlagValues
) -> str:
    name, space, _ = error.flagname.partition(" ")
    if space and name.replace("-", "_") in flag_values:  # a line of a flag file, or quoted
        return f'Unknown flag "--{error.flagname}": write --{name.replace("-", "_")}=VALUE'
    hint = nearest_name_hint(error.flagname, flag_values)
    return f"Unknown flag --{error.flagname}.{hint}"


def unexpected_argument_message(argument: str) -> str:
    """Returns the message for an argument that is not a flag."""
    hint = "options are flags that start with --"
    if os.path.exists(argument):  # from a pattern that matches several files
        hint = "quote patterns, such as 'data/*.txt', so that the shell does not expand them"
    elif argument.startswith("\ufeff"):
        hint = "a --flagfile begins with a byte order mark: save it as UTF-8 without one"
    return f"Unexpected argument {argument!r}: {hint}"


def _is_number_list(argument: str) -> bool:
    """Whether an argument is a number, or several separated by commas."""
    try:
        for part in argument.split(","):
            float(part)
    except ValueError:
        return False
    return True
