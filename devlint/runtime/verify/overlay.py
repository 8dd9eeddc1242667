"""Files that are imported with another text than they hold on disk: the fixed one, without writing it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any


@contextmanager
def overlay(texts: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, modules whose real path is a key are compiled from the text, and from no cached bytecode."""
    original: Any = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        path = loader.get_filename(fullname)
        text = texts.get(os.path.realpath(path))
        if text is None:
            code: CodeType | None = original(loader, fullname)
            return code
        return compile(text, path, "exec", dont_inherit=True)

    if not texts:
        yield
        return
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        SourceFileLoader.get_code = original  # type: ignore[method-assign]
