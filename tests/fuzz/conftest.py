"""Tells how many inputs the property tests tried."""

from tests.fuzz.inputs import tried


def pytest_terminal_summary(terminalreporter):
    """Prints the numbers of inputs; workers of pytest-xdist have theirs to themselves."""
    if tried:
        terminalreporter.section("inputs tried")
        for name, count in tried.most_common():
            terminalreporter.line(f"{count:8,} {name}")
        terminalreporter.line(f"{tried.total():8,} in total")
