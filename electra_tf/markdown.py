"""Tables in Markdown; imports no TensorFlow."""

from collections.abc import Sequence


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int
) -> str:
    """Returns a Markdown table, the columns after the first `text_columns` flush right."""
    alignment = ["---" if i < text_columns else "---:" for i in range(len(header))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    escaped.insert(1, alignment)
    return "\n".join("| " + " | ".join(row) + " |" for row in escaped)
