"""For people: the line with a caret under what is wrong, and what the fix would change."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from devlint.finding import Applicability
from devlint.output.concise import place
from devlint.output.hunks import hunks

if TYPE_CHECKING:
    from devlint.engine import Report
    from devlint.finding import Finding
    from devlint.output import Display
    from devlint.source.text import Source

WIDTH = 160
"""Columns of source text shown; of a longer line a window around the finding."""

LINES = 12
"""Lines of one side of a fix shown before the rest is only counted."""

_FIX_WORDS = {
    Applicability.SAFE: "fix",
    Applicability.UNSAFE: "fix (unsafe)",
    Applicability.SUGGESTION: "suggestion",
}


def render(reports: Sequence[Report], display: Display) -> str:
    """A paragraph per finding, an empty line after each."""
    paragraphs = (_paragraph(finding, report.source, display) for report in reports for finding in report.findings)
    return "".join(f"{paragraph}\n\n" for paragraph in paragraphs)


def _paragraph(finding: Finding, source: Source | None, display: Display) -> str:
    code = display.paint(finding.code, fg="red", bold=True)
    lines = [f"{place(finding, display)} {code} {finding.name}: {finding.message}"]
    if source is not None and finding.start.row <= len(source.line_starts):
        gutter = len(str(finding.end.row)) + 2
        lines += _excerpt(finding, source, display, gutter)
        lines += _fix(finding, source, display, gutter)
    if finding.fix is None and finding.no_fix:
        lines.append(f"  {display.paint('no fix', fg='yellow')}: {finding.no_fix}")
    return "\n".join(lines)


def _excerpt(finding: Finding, source: Source, display: Display, gutter: int) -> Iterator[str]:
    """The line of the finding and the carets under it."""
    line = source.line(finding.start.row)
    if not line.strip():
        return
    begin = finding.start.column - 1
    end = finding.end.column - 1 if finding.end.row == finding.start.row else len(line)
    end = max(end, begin + 1)
    cut = _window_start(line, begin, end)
    shown = visible(line[cut : cut + WIDTH])
    before, marked = visible(line[cut:begin]), visible(line[begin : min(end, cut + WIDTH)])
    carets = "^" * max(columns(marked), 1)
    bar = display.paint("|", fg="blue")
    yield f"{display.paint(f'{finding.start.row:>{gutter}}', fg='blue')} {bar} {shown}"
    yield f"{'':{gutter}} {bar} {' ' * columns(before)}{display.paint(carets, fg='red', bold=True)}"


def _window_start(line: str, begin: int, end: int) -> int:
    """The first character to show, so that the finding is in sight."""
    if len(line) <= WIDTH or end <= WIDTH:
        return 0
    return max(begin - WIDTH // 4, 0)


def _fix(finding: Finding, source: Source, display: Display, gutter: int) -> Iterator[str]:
    """The fix's title and the lines that it changes."""
    if finding.fix is None:
        return
    yield f"  {display.paint(_FIX_WORDS[finding.fix.applicability], fg='green')}: {finding.fix.title}"
    for hunk in hunks(source, finding.fix):
        width = max(gutter, len(str(hunk.row + len(hunk.before))) + 2)
        removed = [(f"{hunk.row + i:>{width}}", line) for i, line in enumerate(hunk.before)]
        added = [(" " * width, line) for line in hunk.after]
        for sign, colour, lines in (("-", "red", removed), ("+", "green", added)):
            for number, line in lines[:LINES]:
                yield f"{display.paint(number, fg='blue')} {display.paint(f'{sign} {visible(line)}', fg=colour)}"
            if len(lines) > LINES:
                yield f"{' ' * width} {sign} ... {len(lines) - LINES} more"


def visible(text: str) -> str:
    """`text` with tabs as four spaces, and characters that would move the cursor or hide text as a visible sign."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character == "\t":
        return "    "
    if character < " ":
        return chr(0x2400 + ord(character))  # the block of control pictures
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
