"""Functions that write Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars in cells are escaped, line ends become spaces."""
    lines = [_line(head), "|" + "---|" * len(head) + "\n", *map(_line, rows)]
    return "".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |\n"


def code(text: str, language: str = "text") -> str:
    """Return a code block."""
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def paragraphs(docstring: str) -> str:
    """Return a docstring as Markdown; indented lines and tables keep their format."""
    blocks = []
    for block in docstring.strip().split("\n\n"):
        lines = block.split("\n")
        is_drawn = any(line.startswith("    ") for line in lines)
        blocks.append(code(block) if is_drawn else block)
    return "\n\n".join(blocks) + "\n"
