"""What a function gives, as its callers see it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeAlias

from devlint.placement import values as v
from devlint.placement.calls import Arguments, place_named_by
from devlint.placement.state import State
from devlint.placement.values import NOWHERE_KNOWN, Origin, Place, Value
from devlint.syntax.trees import last_name

Places: TypeAlias = Callable[[Place], Place]


def nowhere(place: Place) -> Place:
    """Outside of a function, a place that hangs on the function's own names means nothing."""
    return place if place.key is None else NOWHERE_KNOWN


class Call:
    """One call of a function: what it passes, so that a result can follow the device of an argument."""

    def __init__(
        self,
        function: ast.FunctionDef,
        arguments: Arguments,
        state: State,
        receiver: Value | None,
        is_global: Callable[[ast.AST], bool],
    ) -> None:
        self._is_global = is_global
        self._arguments = arguments
        self._state = state
        self._receiver = receiver
        parameters = [*function.args.posonlyargs, *function.args.args]
        self._positions: dict[object, int | None] = {arg: i for i, arg in enumerate(parameters)}
        self._positions.update(dict.fromkeys(function.args.kwonlyargs))
        self._defaults: dict[object, ast.expr | None] = dict(
            zip(reversed(parameters), reversed(function.args.defaults), strict=False)
        )
        self._defaults.update(zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True))

    def place(self, place: Place) -> Place:
        """A place inside the function, as the caller names it; unknown where only the function can tell."""
        if place.key is None:
            # Where factories put tensors is for the caller to say: `with torch.device("cuda"): x = make()`.
            return place if not place.is_cpu or self._state.default.is_cpu else NOWHERE_KNOWN
        tag, what = place.key if isinstance(place.key, tuple) and len(place.key) == 2 else ("", None)
        if tag == "self" and self._receiver is not None:
            return self._state.place_of(self._receiver)
        if tag == "at" and what in self._positions:
            names = last_name(what.annotation) if isinstance(what, ast.arg) and what.annotation is not None else ""
            passed = self._passed(what)
            if passed is None:
                return NOWHERE_KNOWN
            return place_named_by(passed) if names in ("device", "str", "int") else self._state.place_of(passed)
        if tag == "named by" and isinstance(what, frozenset) and len(what) == 1:
            return self._named(next(iter(what)))
        # A device that the file chooses at its top is the same inside and outside.
        chosen = tag in ("device", "choice", "text", "named") and isinstance(what, ast.AST)
        return place if chosen and self._is_global(what) else NOWHERE_KNOWN  # type: ignore[arg-type]

    def _named(self, identity: object) -> Place:
        """The device that an argument names, or `x.device` of an argument x of which no more is known."""
        if identity in self._positions:
            passed = self._passed(identity)
            return place_named_by(passed) if passed is not None else NOWHERE_KNOWN
        if isinstance(identity, tuple) and identity[0] == "attribute" and identity[-1] == "device":
            argument = next(iter(identity[1])) if isinstance(identity[1], frozenset) and len(identity[1]) == 1 else None
            passed = self._passed(argument) if argument in self._positions else None
            if passed is not None and (passed.is_tensor or passed.is_module):
                return self._state.place_of(passed)
            if passed is not None and passed.ids:
                return Place(key=("named by", frozenset([("attribute", passed.ids, "device")])))
        return NOWHERE_KNOWN

    def _passed(self, argument: object) -> Value | None:
        """What the call passes for an argument, or its default where that is a text; None where it is not seen."""
        assert isinstance(argument, ast.arg)
        position = self._positions[argument]
        if position is not None and self._receiver is not None:
            position -= 1
        if position is not None and position < 0:
            return self._receiver
        operand = self._arguments.get(argument.arg, position)
        if operand is not None:
            return operand[1]
        default = self._defaults.get(argument)
        if not self._arguments.open_ended and isinstance(default, ast.Constant) and isinstance(default.value, str):
            return Value(kind=v.TEXT, const=default.value)
        return None


def seen_from_outside(value: Value, node: ast.AST, places: Places = nowhere, identity: Hashable = None) -> Value:
    """A function's result at `node`, a call of it or an argument that it fills; `identity` is that of a part of it."""
    identity = node if identity is None else identity
    place = places(value.place)
    items, element, origin = value.items, value.element, value.origin
    if items is not None:
        parts = enumerate(items)
        items = tuple(seen_from_outside(item, node, places, ("result", identity, i)) for i, item in parts)
    if element is not None:
        element = seen_from_outside(element, node, places, ("element", identity))
    if value.kind in (v.DEVICE, v.TEXT) and not place.known:
        place = Place(key=("result", identity))
    if isinstance(node, ast.Call) and origin is not None:
        origin = Origin(f"given by {last_name(node.func)}()", node.lineno, node, node)
    # What follows an argument may have no dimensions, if the argument has none.
    follows = value.dims is None and value.place.key is not None and place != value.place
    return replace(
        value,
        place=place,
        dims=v.MAYBE_NONE if follows else value.dims,
        items=items,
        element=element,
        ids=frozenset([identity]),
        alternatives=(),
        keys=None,
        origin=origin,
    )
