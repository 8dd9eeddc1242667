"""Which findings a `# noqa` comment silences: what flake8 7 makes of it, so that the command and the plugin agree.

The rules are those of flake8 7.0 to 7.5 (`defaults.NOQA_INLINE_REGEXP`, `defaults.NOQA_FILE`,
`Violation.is_inline_ignored`, `FileProcessor._noqa_line_mapping`), the tests compare with the real process.
"""

from __future__ import annotations

import io
import re
import tokenize

from devlint.source.text import Source

_INLINE = re.compile(r"# noqa(?::\s?(?P<codes>(?:[A-Z]+[0-9]+(?:[,\s]+)?)+))?", re.IGNORECASE)
_WHOLE_FILE = re.compile(r"\s*# flake8[:=]\s*noqa", re.IGNORECASE)
_SEPARATORS = re.compile(r"[,\s]+")


class Noqa:
    """The noqa comments of one file."""

    __slots__ = ("_blocks", "_text", "_whole_file")

    def __init__(self, source: Source) -> None:
        text = source.text
        lowered = text.lower()
        # Most files have none: they cost one search, and no tokens are made.
        self._text: str | None = None
        self._blocks: dict[int, tuple[str, ...]] | None = None
        self._whole_file = False
        if "noqa" in lowered:
            self._text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
            self._whole_file = "flake8" in lowered and any(map(_WHOLE_FILE.match, self._text.split("\n")))

    def suppresses(self, code: str, row: int) -> bool:
        """Whether a comment silences this code in this row (from 1).

        A comment speaks for its physical line, and for all lines that a string over several lines or backslash
        continuations tie to it; the first one in them counts. `# flake8: noqa` on a line of its own silences the file.
        """
        if self._text is None:
            return False
        if self._whole_file:
            return True
        if self._blocks is None:
            self._blocks = _blocks(self._text)
        codes = self._blocks.get(row)
        return codes is not None and (not codes or code.startswith(codes))


def comment_row(source: Source, row: int) -> int:
    """The row (from 1) at whose end a noqa comment speaks for `row`: the last one of those that belong together."""
    text = source.text.replace("\r\n", "\n").replace("\r", "\n")
    rows = _joined_rows(text, text.count("\n") + 1)
    return next((last for first, last in rows if first <= row <= last), row)


def _blocks(text: str) -> dict[int, tuple[str, ...]]:
    """For each row that a noqa comment speaks for: the prefixes of codes that it names, empty if it silences all."""
    lines = text.split("\n")
    found: dict[int, tuple[str, ...]] = {}
    for first, last in _joined_rows(text, len(lines)):
        match = _INLINE.search("\n".join(lines[first - 1 : last]) + "\n")
        if match is not None:
            codes = match["codes"]
            named = tuple(part for part in _SEPARATORS.split(codes) if part) if codes else ()
            found.update(dict.fromkeys(range(first, last + 1), named))
    return found


def _joined_rows(text: str, rows: int) -> list[tuple[int, int]]:
    """The rows from first to last that belong together, as flake8 joins them; each row by itself where tokens fail."""
    single = [(row, row) for row in range(1, rows + 1)]
    if '"""' not in text and "'''" not in text and "\\\n" not in text:
        return single
    joined: list[tuple[int, int]] = []
    first, last = rows + 2, -1
    try:
        for kind, _, start, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
            if kind in (tokenize.ENDMARKER, tokenize.DEDENT):
                continue
            first, last = min(first, start[0]), max(last, end[0])
            if kind in (tokenize.NL, tokenize.NEWLINE):
                joined.append((first, last))
                first, last = rows + 2, -1
    except (tokenize.TokenError, SyntaxError):
        return single
    return joined


def with_comment(text: str, row: int, code: str, reason: str) -> str:
    """The text with `# noqa: CODE  reason` at the end of a row (from 1).

    Where the row has a noqa comment already the code goes in front of its codes, and the reason is left out.
    """
    lines = re.split(r"(\r\n?|\n)", text)
    line = lines[2 * row - 2]
    match = _INLINE.search(line)
    if match is None:
        lines[2 * row - 2] = f"{line.rstrip()}  # noqa: {code}  {reason}"
    elif match["codes"]:
        lines[2 * row - 2] = f"{line[: match.start('codes')]}{code},{line[match.start('codes') :]}"
    return "".join(lines)
