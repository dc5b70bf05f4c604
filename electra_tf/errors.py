"""The one exception that means "the input is wrong, and here is how to mend it"."""


class UserError(ValueError):
    """Bad input: the message names the flag, file or record and what was expected.

    Command lines print it without a traceback and exit with status 1.
    """
