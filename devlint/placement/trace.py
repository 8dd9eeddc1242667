"""`devlint trace`: what devlint believes of each assignment, and why; to understand a finding or its absence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devlint.placement import values as v
from devlint.placement.infer import FUNCTIONS, Inference
from devlint.placement.values import Place, Value


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of one bound name: its row (from 1) and column (from 0, in UTF-8 bytes), kind, place, reason."""

    row: int
    column: int
    name: str
    kind: str
    place: str
    why: str

    @property
    def placed(self) -> bool:
        """Whether the value is known to be somewhere."""
        return self.place != UNPLACED


UNPLACED = "not known"


def beliefs(inference: Inference, row: int | None = None) -> Iterator[Belief]:
    """One for each argument and each assignment to a name or attribute, in the order of the file.

    Of one row only, where it is given, and then for what is read there as well.
    """
    found = []
    for owner in [inference.tree, *(node for node in inference.parents if isinstance(node, FUNCTIONS))]:
        run = inference.run(owner)
        for node, value in run.values.items():
            if not isinstance(node, ast.expr):
                continue
            if _is_set(node) or (node.lineno == row and _is_read(inference, node, value)):
                place = run.state.place_of(value)
                found.append(_belief(node.lineno, node.col_offset, _written(node), value, place))
        for argument, value in inference.arguments(owner):
            found.append(_belief(argument.lineno, argument.col_offset, argument.arg, value, value.place))
    wanted = (belief for belief in found if row is None or belief.row == row)
    yield from sorted(wanted, key=lambda belief: (belief.row, belief.column))


def _is_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)


def _is_read(inference: Inference, node: ast.expr, value: Value) -> bool:
    """Whether an expression is a variable, or anything else that lives somewhere."""
    if isinstance(inference.parents.get(node), ast.Attribute | ast.Starred):
        return False  # the whole of `net.weight` is shown
    if isinstance(node, ast.Name | ast.Attribute) and value.kind == v.UNKNOWN:
        return True
    return _lives(value)


def _lives(value: Value) -> bool:
    return value.is_tensor or value.is_module or value.kind in (v.TENSORS, v.BATCH, v.DEVICE)


def _written(node: ast.expr) -> str:
    """An expression as it may be written, cut where it is long."""
    text = ast.unparse(node)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_SHOWN = 50
"""Characters of an expression that are shown."""


def _belief(row: int, column: int, name: str, value: Value, place: Place) -> Belief:
    return Belief(row, column, name, _kind(value), _place(value, place), str(value.origin) if value.origin else "")


def _kind(value: Value) -> str:
    words = value.kind
    if value.is_tensor and value.dims == 0:
        words += " without dimensions"
    if value.type and value.kind not in (v.NAME, v.TEXT):
        words += f" ({value.type})"
    elif isinstance(value.node, ast.ClassDef | ast.FunctionDef):
        words += f" ({value.node.name})"
    return words


def _place(value: Value, place: Place) -> str:
    if not _lives(value):
        return ""
    if place.device:
        return place.device if place.index is None else f"{place.device}:{place.index}"
    tag = place.key[0] if isinstance(place.key, tuple) else ""
    if place.key is None:
        return UNPLACED
    if tag == "self":
        return "where self is"
    if tag == "at":
        return f"where {place.text} is" if place.text else UNPLACED
    return f"the device {place.text}" if place.text else "a device chosen in this file"
