"""Comparisons of a torch.device that can never hold: with a string, or with a device that lacks the index.

torch compares devices in C, where nothing can be watched. So the two sides of a comparison of plain names are looked up
in the frame that is about to compare them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from .evidence import Place

_Pair = tuple[str, CodeType, CodeType]


class Comparisons:
    """The comparisons in the project's files, by row; `note` is told the line and words of each that cannot hold."""

    def __init__(self, texts: Mapping[str, str], note: Callable[[Place, str], None]) -> None:
        self._texts = texts
        self._note = note
        self._files: dict[str, dict[int, list[_Pair]]] = {}

    def rows(self, path: str) -> Container[int]:
        """The rows of a file in which a comparison stands that could be meant."""
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def look(self, frame: FrameType, path: str, row: int) -> None:
        """Look at the comparisons of a row, just before it runs in a frame."""
        for words, left, right in self._files[path][row]:
            try:
                # only names, attributes and constants
                sides = [eval(side, frame.f_globals, frame.f_locals) for side in (left, right)]
            except Exception:  # not bound yet, or a property that raises: the program will see for itself
                continue
            if _never_equal(*sides) or _never_equal(*reversed(sides)):
                self._note((path, row), f"{words} with {sides[0]!r} and {sides[1]!r}")

    def _read(self, path: str) -> dict[int, list[_Pair]]:
        try:
            text = self._texts.get(path)
            if text is None:
                with open(path, "rb") as file:
                    text = file.read().decode()
            tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError):
            return {}
        found: dict[int, list[_Pair]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                    words = f"{ast.unparse(left)}, {ast.unparse(right)}"
                    if "dev" in words and _is_plain(left) and _is_plain(right):
                        codes = [compile(ast.Expression(side), path, "eval") for side in (left, right)]
                        found.setdefault(node.lineno, []).append((words, codes[0], codes[1]))
        return found


def _is_plain(node: ast.expr) -> bool:
    """Whether looking at an expression does nothing: names, attributes of names, constants and tuples of these."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(_is_plain, node.elts))
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name | ast.Constant)


def _never_equal(device: Any, other: Any) -> bool:
    if not isinstance(device, torch.device):
        return False
    if isinstance(other, tuple | list | set | frozenset):
        return bool(other) and all(isinstance(item, str) for item in other)
    if isinstance(other, torch.device):
        return device.type == other.type and (device.index is None) != (other.index is None)
    return isinstance(other, str)
