"""A page of the rule book on a terminal: its Markdown, with headings and code in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.output import Display
    from devlint.rulebook import Page

_KIND_COLOURS = {"bad": "red", "fixed": "green", "good": "green"}


def render(page: Page, display: Display) -> str:
    """The page's text; without colour exactly as it is written."""
    if not display.colour:
        return page.text
    kinds = {row: block.kind for block in page.blocks for row in range(block.row, block.row + block.text.count("\n"))}
    lines = page.text.removesuffix("\n").split("\n")
    painted = (_paint(line, kinds.get(row), display) for row, line in enumerate(lines, start=1))
    return "\n".join(painted) + "\n"


def _paint(line: str, kind: str | None, display: Display) -> str:
    """`kind` is that of the block in which the line stands, None outside of blocks."""
    if kind is not None:
        return display.paint(line, fg=_KIND_COLOURS.get(kind))
    if line.startswith("#"):
        return display.paint(line, bold=True)
    return line
