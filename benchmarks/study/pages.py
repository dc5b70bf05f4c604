"""A report of sections, as Markdown and as one HTML file with its pictures inside."""

import base64
import dataclasses
import html
import pathlib
from collections.abc import Sequence

from electra_tf.util.console import markdown_table
from electra_tf.util.files import write_atomically


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under a header; the first `text_columns` are text, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1


@dataclasses.dataclass(frozen=True)
class Section:
    """A title, paragraphs, and below them a table or a picture."""

    title: str
    paragraphs: Sequence[str] = ()
    table: Table | None = None
    picture: str | None = None


def write_report(sections: Sequence[Section], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes `report.md`, and `report.html` with its pictures inside; returns their paths."""
    markdown, page = [], []
    for level, section in enumerate(sections):
        heading = min(level + 1, 2)
        markdown.append("#" * heading + f" {section.title}")
        page.append(f"<h{heading}>{html.escape(section.title)}</h{heading}>")
        for paragraph in section.paragraphs:
            markdown.append(paragraph)
            page.append(f"<p>{html.escape(paragraph)}</p>")
        if section.table:
            table = section.table
            columns = table.text_columns
            markdown.append(markdown_table(table.header, table.rows, text_columns=columns))
            page.append(_html_table(table))
        if section.picture:
            markdown.append(f"![{section.title}]({section.picture})")
            data = base64.b64encode((folder / section.picture).read_bytes()).decode()
            alt = html.escape(section.title)
            page.append(f'<img alt="{alt}" src="data:image/png;base64,{data}">')
    paths = [folder / "report.md", folder / "report.html"]
    write_atomically(str(paths[0]), "\n\n".join(markdown) + "\n")
    title = html.escape(sections[0].title)
    style = (
        "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse;display:block;overflow-x:auto}"
        "td,th{border:1px solid #ccc;padding:.3em .6em}"
        "td.number{text-align:right}img{max-width:100%}"
    )
    write_atomically(
        str(paths[1]),
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title>"
        f"<style>{style}</style>\n" + "\n".join(page) + "\n</html>\n",
    )
    return paths


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(f"<tr>{_cells(row, table.text_columns)}</tr>" for row in table.rows)
    return f"<table><tr>{head}</tr>{rows}</table>"


def _cells(row: Sequence[str], text_columns: int) -> str:
    return "".join(
        f"<td>{html.escape(cell)}</td>"
        if i < text_columns
        else f'<td class="number">{html.escape(cell)}</td>'
        for i, cell in enumerate(row)
    )
