"""What mutants need to know of source code."""

import ast
from collections.abc import Iterator

Range = tuple[tuple[int, int], tuple[int, int]]


def annotations(source: str) -> Iterator[Range]:
    """Yields start and end of each annotation: line from 1, column of characters from 0."""
    lines = source.splitlines()

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode())

    for node in ast.walk(ast.parse(source)):
        for field in ("annotation", "returns"):
            found = getattr(node, field, None)
            if isinstance(found, ast.expr):
                yield (
                    (found.lineno, column(found.lineno, found.col_offset)),
                    (found.end_lineno, column(found.end_lineno, found.end_col_offset)),
                )


def changed_lines(diff: str) -> tuple[str, str]:
    """Returns the lines that a unified diff removes and adds, without indentation."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    removed, added = (
        "\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return removed, added
