"""Runs a program: output, error messages and exit statuses."""

import contextlib
import errno
import faulthandler
import functools
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, MappingProxyType
from typing import Any

from absl import app, flags

from electra_tf.util.errors import (
    PreemptedError,
    UserError,
    WorkerLostError,
    reason_of,
)
from electra_tf.util.output_checks import check_not_input
from electra_tf.util.signals import TERMINATIONS, discard_closed_terminal, handling
from flags.command_line.out_of_memory import describe_out_of_memory
from flags.command_line.parsing import (
    normalize_arguments,
    parse,
    unexpected_argument_message,
)
from flags.command_line.path_encoding import describe_path_encoding
from flags.command_line.pipes import refuse_pipes
from flags.command_line.program_names import spell_programs
from flags.command_line.recipe_files import given_flagfiles
from flags.command_line.standard_streams import discard_output, prepare_standard_streams
from flags.remote.paths import Role, Roles, local_paths

USAGE_ERROR_STATUS = 2
USER_ERROR_STATUS = 1
INTERRUPTED_STATUS = 130
# Errors that the user can fix, such as a full disk, a read-only folder or a missing file.
USER_ERRNOS = frozenset(
    (
        errno.EACCES,
        errno.EAGAIN,
        errno.EBUSY,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EFBIG,
        errno.EIO,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMFILE,
        errno.ENAMETOOLONG,
        errno.ENFILE,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOLCK,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ENOTCONN,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.EPERM,
        errno.EPIPE,
        errno.EROFS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    )
)


def program(
    define_flags: Callable[[], None],
    aliases: Mapping[str, str] | None = None,
    *,
    remote: Roles = MappingProxyType({}),
    takes_arguments: bool = False,
    prints_result: bool = False,
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Decorator that turns a function into a command, with its docstring as `--help`.

    The command parses the command line, calls the function and exits; see `run`.

    Args:
        define_flags: defines the flags of the command.
        aliases: alternative spellings of flags; see `normalize_arguments`.
        remote: roles of the flags that accept remote paths; see `flags.remote.paths`.
        takes_arguments: whether the function takes positional arguments.
        prints_result: whether the printed output is the result, so there is no --quiet.
    """

    def decorate(main: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(main)
        def command() -> None:
            define_flags()
            _define_output_flags(quiet=not prints_result)
            sys.modules["__main__"].__doc__ = spell_programs(inspect.getdoc(main))
            run(main, aliases, remote=remote, takes_arguments=takes_arguments)

        return command

    return decorate


def run(
    main: Callable[..., int | None],
    aliases: Mapping[str, str] | None = None,
    *,
    remote: Roles = MappingProxyType({}),
    takes_arguments: bool = False,
) -> None:
    """Parses the command line, calls `main()` and exits with its status.

    `main` imports TensorFlow itself, so `--help` and flag errors do not wait for it. A
    `UserError` is printed without a traceback; so are preemption and the loss of a worker,
    each with its own exit status.

    Args:
        main: body of the program; it returns the exit status, or None for 0.
        aliases: alternative spellings of flags, mapped to absl's.
        remote: roles of the flags that accept remote paths.
        takes_arguments: whether positional arguments are allowed.
    """
    prepare_standard_streams()
    prepare_tensorflow()
    report_crashes()
    # absl.app.run would parse sys.argv before the spellings are normalized.
    app.define_help_flags()
    sys.modules["__main__"].__doc__ = sys.modules["__main__"].__doc__ or ""
    rest = _parse_command_line(aliases, remote, takes_arguments=takes_arguments)
    values = flags.FLAGS.flag_values_dict()
    if values.get("verbose"):
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    with _exiting_on_errors(values):
        with (
            _discarding_output() if values.get("quiet") else contextlib.nullcontext(),
            local_paths(remote, flags.FLAGS, rest),
        ):
            status = main(rest) if takes_arguments else main()
        sys.stdout.flush()
    sys.exit(status or 0)


def _parse_command_line(
    aliases: Mapping[str, str] | None, remote: Roles, *, takes_arguments: bool
) -> list[str]:
    """Returns the positional arguments; exits if flags are invalid, and after --help."""
    try:
        _, *rest = parse(sys.argv, aliases)
        if rest and not takes_arguments:
            raise UserError(unexpected_argument_message(rest[0]))
        _refuse_overwriting_flagfiles(remote)
        refuse_pipes(flags.FLAGS.flag_values_dict(), "--{name}={value}")
    except UserError as error:
        _exit_with_message(error, USAGE_ERROR_STATUS, hint="Try --help.")
    except (SystemExit, BrokenPipeError):  # --help, whose reader (such as head) may exit early
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()
        sys.exit(0)  # absl would exit with 1
    return rest


@contextlib.contextmanager
def _exiting_on_errors(values: Mapping[str, Any]) -> Iterator[None]:
    """Exits with the message and the status of expected errors; others keep their traceback.

    Args:
        values: values of the flags.
    """
    verbose = values.get("verbose", False)
    try:
        yield
    except UserError as error:
        if verbose:
            traceback.print_exc()
        _exit_with_message(error, USER_ERROR_STATUS)
    except PreemptedError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
    except WorkerLostError as error:
        _exit_with_message(error, error.exit_status)
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        if verbose:
            traceback.print_exc()
        reason = _reason_of(error)
        if discard_output() and error.filename is None:
            reason = f"standard output cannot be written: {reason}"
        _exit_with_message(UserError(reason), USER_ERROR_STATUS)
    except KeyboardInterrupt:
        _ignore_more_interrupts()
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED_STATUS)
    except Exception as error:
        message = describe_out_of_memory(error, values)
        message = message or describe_path_encoding(error, values)
        if message is None:
            raise
        if verbose:
            traceback.print_exc()
        _exit_with_message(UserError(message), USER_ERROR_STATUS)


@contextlib.contextmanager
def preemptible() -> Iterator[None]:
    """Ends a program as preempted if a signal arrives outside of training.

    Then there is nothing to save, for example during imports or between runs of a search.
    `electra_tf.training.distribution.preemption` handles signals during training.
    """
    with handling(TERMINATIONS, _end_as_preempted):
        yield


def _end_as_preempted(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        discard_closed_terminal()
    # Exits by SystemExit, because a library that is being imported might catch an `Exception`.
    name = signal.Signals(number).name
    print(f"{name}: nothing to save. Run the same command again to resume.", file=sys.stderr)
    sys.exit(PreemptedError.exit_status)


def _refuse_overwriting_flagfiles(roles: Roles) -> None:
    outputs = [name for name, role in roles.items() if role is Role.OUTPUT_FILE]
    for path in given_flagfiles(normalize_arguments(sys.argv[1:])):
        for name in outputs:
            if value := flags.FLAGS[name].value:
                check_not_input(value, f"--{name}", {"--flagfile": path})


def prepare_tensorflow() -> None:
    """Turns off TensorFlow's start-up messages, unless the user has set a log level.

    It overrides variables such as KERAS_BACKEND: these programs need Keras 3 on TensorFlow.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.pop("TF_USE_LEGACY_KERAS", None)


@functools.cache
def report_crashes() -> None:
    """Prints a traceback when native code crashes, here and in Python processes started later.

    A handler that another program has installed is kept. The traceback is also printed where
    other messages of native code are discarded, as while TensorFlow is imported; the handler
    that Python installs for PYTHONFAULTHANDLER would be silent there.
    """
    is_pythons = "PYTHONFAULTHANDLER" in os.environ
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    if sys.__stderr__ is not None and (is_pythons or not faulthandler.is_enabled()):
        faulthandler.enable(file=os.dup(sys.__stderr__.fileno()))


def _define_output_flags(*, quiet: bool) -> None:
    if quiet:
        flags.DEFINE_bool(
            "quiet",
            False,
            "Print only errors, and warnings about files, devices and settings: no progress, "
            "results or diagnoses of training.",
            module_name=sys.argv[0],
        )
    flags.DEFINE_bool(
        "verbose",
        False,
        "Print TensorFlow's messages too, and the traceback of an error.",
        module_name=sys.argv[0],
    )


@contextlib.contextmanager
def _discarding_output() -> Iterator[None]:
    with open(os.devnull, "w") as devnull, contextlib.redirect_stdout(devnull):
        yield


def _ignore_more_interrupts() -> None:
    """Keeps a second Ctrl-C from interrupting the exit with a traceback."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _reason_of(error: OSError) -> str:
    if error.errno == errno.ENOENT and error.filename is None:
        try:
            os.getcwd()
        except FileNotFoundError:
            return "The working directory has been removed: change to another one"
    return reason_of(error)


def _exit_with_message(error: Exception, status: int, hint: str = "") -> None:
    message = spell_programs(f"error: {error}")
    print(message + (f"\n{hint}" if hint else ""), file=sys.stderr)
    sys.exit(status)
