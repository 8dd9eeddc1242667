"""Bytes to text and back, and positions in between.

The text keeps the line ends of the file, since a fix must leave every other byte as it is. Rows are counted as Python's
own tokenizer counts them: a line ends with LF, CRLF or a lone CR, and with nothing else (a form feed is white space).
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from devlint.finding import Location

BOM = codecs.BOM_UTF8

# The first two lines of a file, by PEP 263. The blank line stands for what may come before a declaration on the second.
_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n|\Z)")
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_BLANK = re.compile(rb"[ \t\f]*(?:#|[\r\n]|\Z)")
_LINE_END = re.compile(r"\r\n?|\n")
_BYTES_LINE_END = re.compile(rb"\r\n?|\n")

# Strict decoding and encoding are inverse to each other in these, so that no comparison is needed.
_LOSSLESS = frozenset({"utf-8", "ascii", "iso8859-1"})


class SourceError(Exception):
    """A file's bytes are no text that devlint may read or write back.

    `row` and `column` count from 1; both are 1 where the fault has no place of its own.
    """

    def __init__(self, message: str, row: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, int, int]]:
        return (SourceError, (self.message, self.row, self.column))


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file, without its byte order mark, with its line ends as they stand in the file."""

    path: str
    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    # Positions are wanted of few files, so the table is made when it is first asked for.
    _starts: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def line_starts(self) -> tuple[int, ...]:
        """The offset at which each line starts; a text that ends with a line end has an empty last line."""
        if self._starts is None:
            object.__setattr__(self, "_starts", _line_starts(self.text))
        assert self._starts is not None
        return self._starts

    @property
    def newline(self) -> str:
        """The line end that most lines have; of equally frequent ones the first in the file; LF if there is none."""
        if "\r" not in self.text:
            return "\n"
        counts: dict[str, int] = {}
        for match in _LINE_END.finditer(self.text):
            counts[match[0]] = counts.get(match[0], 0) + 1
        return max(counts, key=lambda end: counts[end])

    def offset(self, row: int, utf8_column: int) -> int:
        """The character offset of an `ast` position: its `lineno` (from 1) and `col_offset` (UTF-8 bytes, from 0).

        Total: a position outside of the text becomes the nearest one inside, because Python before 3.12 gives the nodes
        inside an f-string positions that belong to no such place.
        """
        starts = self.line_starts
        if row < 1:
            return 0
        if row > len(starts):
            return len(self.text)
        start = starts[row - 1]
        end = starts[row] if row < len(starts) else len(self.text)
        if self.text.isascii():
            return min(start + max(utf8_column, 0), end)
        line = self.text[start:end]
        if line.isascii():
            return min(start + max(utf8_column, 0), end)
        return start + len(line.encode()[: max(utf8_column, 0)].decode(errors="ignore"))

    def location(self, offset: int) -> Location:
        """Row and column, both from 1 and in characters, of a character offset from 0; clamped to the text."""
        offset = min(max(offset, 0), len(self.text))
        row = bisect_right(self.line_starts, offset)
        return Location(row, offset - self.line_starts[row - 1] + 1)

    def line(self, row: int) -> str:
        """The line of this row (from 1) without its line end. Raises IndexError for a row that is not there."""
        starts = self.line_starts
        if not 1 <= row <= len(starts):
            raise IndexError(f"row {row} of {len(starts)}")
        end = starts[row] if row < len(starts) else len(self.text)
        return self.text[starts[row - 1] : end].rstrip("\r\n")


def decode_source(data: bytes, path: str) -> Source:
    """The text of a Python file, by its byte order mark and its PEP 263 declaration, UTF-8 where it has neither.

    Raises SourceError for an unknown encoding, bytes that are not of that encoding, a NUL byte, and text that would not
    give the same bytes when it is encoded again.
    """
    nul = data.find(b"\0")
    if nul >= 0:
        raise SourceError("the file holds a NUL byte", *_place(data, nul))
    bom = BOM if data.startswith(BOM) else b""
    body = data[len(bom) :] if bom else data
    declared, row = _declared_encoding(body)
    encoding = _codec_name(declared, row) if declared else "utf-8"
    if bom and encoding != "utf-8":
        raise SourceError(
            f'the file declares the encoding "{declared}" and starts with the byte order mark of UTF-8', row
        )
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        what = f'the declared encoding "{declared}"' if declared else "UTF-8, and the file declares no other encoding"
        # Codecs that decode in steps report an offset within their own buffer; it is the file's for the usual ones.
        offset = min(error.start, max(len(body) - 1, 0))
        byte = f"byte 0x{body[offset]:02x} " if body else ""
        raise SourceError(f"{byte}is not valid in {what}", *_place(body, offset, encoding)) from None
    except LookupError:
        raise SourceError(f'the declared encoding "{declared}" is none of text', row) from None
    except ValueError as error:
        raise SourceError(f'the text cannot be decoded as the declared "{declared}" ({error})', row) from None
    if encoding not in _LOSSLESS:
        if "\0" in text:
            raise SourceError("the text holds a NUL character", *_text_place(text, text.index("\0")))
        if _encode(text, encoding) != body:
            raise SourceError(
                f'text in the encoding "{declared}" does not give the same bytes when it is written again', row
            )
    return Source(path, text, encoding, bom)


def encode_source(source: Source, text: str) -> bytes:
    """The bytes of a file whose new content is `text`: the encoding and the byte order mark of `source` are kept.

    Raises SourceError when the encoding has no bytes for a character of the text, or would not give it back.
    """
    try:
        data = text.encode(source.encoding)
    except UnicodeEncodeError as error:
        character = text[error.start : error.start + 1]
        raise SourceError(
            f'the encoding "{source.encoding}" has no character {character!r}', *_text_place(text, error.start)
        ) from None
    except ValueError as error:
        raise SourceError(f'cannot be encoded with "{source.encoding}" ({error})') from None
    if source.encoding not in _LOSSLESS and _decode(data, source.encoding) != text:
        raise SourceError(f'the encoding "{source.encoding}" does not give the same text when it is read again')
    return source.bom + data


def _line_starts(text: str) -> tuple[int, ...]:
    if "\r" in text:
        return (0, *(match.end() for match in _LINE_END.finditer(text)))
    lengths = [len(line) + 1 for line in text.split("\n")]
    lengths.pop()
    return tuple(accumulate(lengths, initial=0))


def _declared_encoding(body: bytes) -> tuple[str, int]:
    """The encoding that a comment in the first two lines declares, and that line's row; ("", 1) where there is none."""
    position = 0
    for row in (1, 2):
        match = _LINE.match(body, position)
        assert match is not None
        line = match[0]
        if cookie := _COOKIE.match(line):
            return cookie[1].decode("ascii"), row
        if not _BLANK.match(line):
            break
        position = match.end()
    return "", 1


def _codec_name(declared: str, row: int) -> str:
    """Python's name of a declared encoding, as its tokenizer normalizes it (`get_normal_name` in tokenizer.c)."""
    name = declared.lower().replace("_", "-")
    if name == "utf-8" or name.startswith("utf-8-"):
        return "utf-8"
    if name in ("latin-1", "iso-8859-1", "iso-latin-1") or name.startswith(("latin-1-", "iso-8859-1-", "iso-latin-1-")):
        return "iso8859-1"
    try:
        return codecs.lookup(declared).name
    except LookupError:
        raise SourceError(f'the file declares the unknown encoding "{declared}"', row) from None


def _place(data: bytes, offset: int, encoding: str = "utf-8") -> tuple[int, int]:
    """Row and column (in characters, as far as the line before it can be decoded) of a byte offset."""
    row, start = 1, 0
    for match in _BYTES_LINE_END.finditer(data, 0, offset):
        row, start = row + 1, match.end()
    return row, len(data[start:offset].decode(encoding, "replace")) + 1


def _text_place(text: str, offset: int) -> tuple[int, int]:
    location = Source("", text).location(offset)
    return location.row, location.column


def _encode(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except ValueError:
        return None


def _decode(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except ValueError:
        return None
