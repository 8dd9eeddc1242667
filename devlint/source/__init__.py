"""From bytes to text and back without losing any: encodings, line ends, positions, noqa comments."""

from __future__ import annotations

from devlint.source.noqa import Noqa, comment_row
from devlint.source.text import Source, SourceError, decode_source, encode_source

__all__ = ["Noqa", "Source", "SourceError", "comment_row", "decode_source", "encode_source"]
