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


def beliefs(inference: Inference) -> Iterator[Belief]:
    """One for each argument and each assignment to a name or attribute, in the order of the file."""
    found = []
    for owner in [inference.tree, *(node for node in inference.parents if isinstance(node, FUNCTIONS))]:
        run = inference.run(owner)
        for node, value in run.values.items():
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.append(_belief(node.lineno, node.col_offset, ast.unparse(node), value, run.state.place_of(value)))
        for argument, value in inference.arguments(owner):
            found.append(_belief(argument.lineno, argument.col_offset, argument.arg, value, value.place))
    yield from sorted(found, key=lambda belief: (belief.row, belief.column))


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
    if not (value.is_tensor or value.is_module or value.kind in (v.TENSORS, v.BATCH, v.DEVICE)):
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
