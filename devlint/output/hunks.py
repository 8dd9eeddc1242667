"""What a fix would change, as a few lines before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.finding import Edit, Fix
    from devlint.source.text import Source


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines without their ends: `before` begins at the 1-based `row` of the file, `after` takes their place."""

    row: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(source: Source, fix: Fix) -> tuple[Hunk, ...]:
    """The changed lines of a fix in the order of the file, lines that stay the same at either end left out."""
    groups: list[list[Edit]] = []
    last = 0
    for edit in sorted(fix.edits, key=lambda edit: (edit.start, edit.end)):
        first = source.location(edit.start).row
        if groups and first <= last:
            groups[-1].append(edit)
        else:
            groups.append([edit])
        last = max(last, source.location(edit.end).row)
    return tuple(hunk for group in groups if (hunk := _hunk(source, group)).before or hunk.after)


def _hunk(source: Source, edits: list[Edit]) -> Hunk:
    """The lines that these edits touch, which are sorted and lie on neighbouring lines."""
    row = source.location(edits[0].start).row
    last = max(source.location(edit.end).row for edit in edits)
    starts = source.line_starts
    start = starts[row - 1]
    end = starts[last] if last < len(starts) else len(source.text)
    pieces: list[str] = []
    at = start
    for edit in edits:
        pieces += [source.text[at : edit.start], edit.text]
        at = edit.end
    pieces.append(source.text[at:end])
    return _trim(row, _lines(source.text[start:end]), _lines("".join(pieces)))


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _trim(row: int, before: list[str], after: list[str]) -> Hunk:
    """Leave out the lines that both have at the start and at the end."""
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    while before and after and before[0] == after[0]:
        del before[0], after[0]
        row += 1
    return Hunk(row, tuple(before), tuple(after))
