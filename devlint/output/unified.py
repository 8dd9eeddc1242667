"""Unified diffs of whole files, in bytes: a patch must hold the file's own encoding and line ends."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import diff_bytes, unified_diff
from os import fsencode

_NO_END = b"\\ No newline at end of file\n"
_COLOURS = {b"-": b"\x1b[31m", b"+": b"\x1b[32m", b"@": b"\x1b[36m"}


def unified(path: str, old: bytes, new: bytes, *, colour: bool = False) -> bytes:
    """The diff that turns `old` into `new`, empty when they are equal; `patch -p0` and `git apply -p0` take it.

    Lines end at \\n alone, as for patch and git, so that a \\r before it belongs to the line.
    """
    name = fsencode(path.replace("\\", "/"))
    if b" " in name:
        name += b"\t"  # as GNU diff does, so that patch reads the whole name
    lines = diff_bytes(unified_diff, _lines(old), _lines(new), name, name)
    return b"".join(_finish(line, colour) for line in lines)


def _lines(data: bytes) -> list[bytes]:
    return [line for line in _split(data) if line]


def _split(data: bytes) -> Iterator[bytes]:
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        yield data[at : end + 1]
        at = end + 1
    yield data[at:]


def _finish(line: bytes, colour: bool) -> bytes:
    """A line of the diff with its end, and in colour if wanted."""
    body = line.removesuffix(b"\n")
    missing = b"" if line.endswith(b"\n") else _NO_END
    start = _COLOURS.get(line[:1], b"") if colour else b""
    return start + body + (b"\x1b[0m" if start else b"") + b"\n" + missing
