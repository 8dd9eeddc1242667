"""What a call does to what it is given: modules that move in place, attributes and contents that change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from devlint.placement import values as v
from devlint.placement.values import NOWHERE_KNOWN, Value
from devlint.syntax.trees import last_name, walk

if TYPE_CHECKING:
    from devlint.placement.calls import Arguments
    from devlint.placement.evaluate import Evaluator
    from devlint.placement.infer import Inference

Effect: TypeAlias = tuple[str, str]
"""A name that a function knows something by, and the first attribute of it that moves or is set anew; the attribute is
empty where it is the thing itself."""

TRANSFERS = frozenset({"to", "cuda", "cpu", "xpu", "mps", "npu"})
"""Methods that move a tensor (a copy) or a module (itself) to a device."""
_ROUNDS = 4
"""Through so many functions that call each other an effect is followed."""
_SAME = 8
"""Of a name that more functions of the file have than these, nobody can tell which of them a call means."""
_MOST = 64
"""Of so many effects of one function are kept."""
_TRANSPARENT = frozenset(
    """
    staticmethod classmethod no_grad inference_mode enable_grad set_grad_enabled cache lru_cache override final
    script script_if_tracing compile disable ignore unused export
    """.split()  # noqa: SIM905  a list of one a line would hide the code
)
"""Decorators that leave alone what a function gives."""
_WITH_ATTRIBUTES = frozenset({v.OBJECT, v.UNKNOWN, *v.MODULE_KINDS})
"""Kinds of values whose attributes a function that is given one may set."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Effects:
    """The effects of the functions of one file, worked out when they are first asked for."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._own: dict[Function, tuple[frozenset[Effect], list[tuple[ast.Call, Function]]]] = {}
        self._known: dict[tuple[Function, int], frozenset[Effect]] = {}

    def of(self, function: Function) -> frozenset[Effect]:
        """What calling a function moves or sets anew, by the names of its arguments and of the scopes around it."""
        return self._through(function, _ROUNDS)

    def _through(self, function: Function, rounds: int) -> frozenset[Effect]:
        """The effects of a function and of those that it calls, through so many functions that call each other."""
        own, calls = self._seen_in(function)
        if rounds == 0 or not calls:
            return own
        if (function, rounds) not in self._known:
            nearer = self._through(function, rounds - 1)
            more = {
                effect
                for call, callee in calls
                for effect in self._passed_on(call, callee, self._through(callee, rounds - 1))
            }
            self._known[function, rounds] = nearer if more <= nearer else frozenset(sorted(nearer | more)[:_MOST])
        return self._known[function, rounds]

    def _seen_in(self, function: Function) -> tuple[frozenset[Effect], list[tuple[ast.Call, Function]]]:
        """A function's own effects, and its calls of functions of the file."""
        if function not in self._own:
            own = _own_effects(list(walk(function))) if function in self._acting else ()
            calls = [(call, callee) for call, callee in self._calls.get(function, ()) if callee is not function]
            self._own[function] = frozenset(own), calls
        return self._own[function]

    @cached_property
    def _acting(self) -> set[ast.AST]:
        """The functions in which anything is moved or set."""
        names, seen = self._inference.names, self._inference.seen
        if not TRANSFERS.isdisjoint(seen.loose):  # `map(net.to, devices)`
            return set(names.scope_of)
        acts = [*names.stores, *(call for name in TRANSFERS & seen.calls.keys() for call in seen.calls[name])]
        return {function for act in acts for function in self._around(act)}

    @cached_property
    def _calls(self) -> dict[ast.AST, list[tuple[ast.Call, Function]]]:
        """The calls in each function that may mean functions of the file."""
        found: dict[ast.AST, list[tuple[ast.Call, Function]]] = {}
        calls = self._inference.seen.calls
        for name in self._meant.keys() & calls.keys():
            for call in calls[name]:
                for around in self._around(call):
                    found.setdefault(around, []).extend((call, callee) for callee in self._meant[name])
        return found

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The functions around a node."""
        return (above for above in self._inference.ancestors(node) if isinstance(above, _FUNCTIONS))

    @cached_property
    def _meant(self) -> dict[str, list[Function]]:
        """The functions that a call by this name may mean."""
        found: dict[str, list[Function]] = {}
        for node in self._inference.names.scope_of:
            if isinstance(node, _FUNCTIONS):
                found.setdefault(getattr(node, "name", "lambda"), []).append(node)
        return {name: functions for name, functions in found.items() if len(functions) <= _SAME}

    def _passed_on(self, call: ast.Call, callee: Function, effects: frozenset[Effect]) -> Iterator[Effect]:
        """A called function's effects, by the caller's names."""
        given = self.given(call, callee) if effects else {}
        for name, attribute in effects:
            if name in given:
                root, first = _path(given[name])
                if root:
                    yield root, first or attribute
            elif self.is_outer(callee, name):
                yield name, attribute

    def given(self, call: ast.Call, callee: Function) -> Mapping[str, ast.expr]:
        """The expressions that a call passes, by the names of the callee's arguments."""
        arguments = callee.args
        names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args]]
        found: dict[str, ast.expr] = {}
        if isinstance(call.func, ast.Attribute) and self._inference.is_bound(callee) and names:
            found[names.pop(0)] = call.func.value
        for name, expression in zip(names, call.args, strict=False):
            if isinstance(expression, ast.Starred):
                break
            found[name] = expression
        found.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None})
        return found

    def is_outer(self, function: ast.AST, name: str) -> bool:
        """Whether a name belongs to a scope around a function."""
        scope = self._inference.names.scope_of.get(function)
        return scope is not None and (name in scope.outer or name not in scope.bound)


def _path(node: ast.AST) -> Effect:
    """The name at the root of a chain of attributes and indices, and the first attribute; empty for anything else."""
    first = ""
    while isinstance(node, ast.Attribute | ast.Subscript):
        first = node.attr if isinstance(node, ast.Attribute) else ""
        node = node.value
    return (node.id, first) if isinstance(node, ast.Name) else ("", "")


def _own_effects(nodes: Sequence[ast.AST]) -> Iterator[Effect]:
    """What a function with these nodes itself moves or sets, by whatever names it goes there."""
    own: set[Effect] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if node.attr in TRANSFERS or not isinstance(node.ctx, ast.Load):
                # What is set is an attribute; what is moved, or has new data, is the thing itself.
                own.add(_path(node.value if node.attr in TRANSFERS or node.attr == "data" else node))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            own.add(_path(node.value))
    own.discard(("", ""))
    others = _other_names(nodes) if own else {}
    for root, first in own:
        yield root, first
        yield from ((other, attribute or first) for other, attribute in others.get(root, ()))


def _other_names(nodes: Sequence[ast.AST]) -> dict[str, set[Effect]]:
    """What else a name may stand for: `for net in nets`, `net = self.net`."""
    found: dict[str, set[Effect]] = {}
    for node in nodes:
        targets: list[ast.expr] = []
        source: ast.expr | None = None
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            targets, source = [node.target], node.iter
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call | ast.Constant):
            targets, source = node.targets, node.value
        if source is None:
            continue
        paths = {_path(part) for part in walk(source) if isinstance(part, ast.Name | ast.Attribute)} - {("", "")}
        paths |= {other for root, _ in list(paths) for other in found.get(root, ())}
        for part in (part for target in targets for part in walk(target)):
            if isinstance(part, ast.Name) and len(found.setdefault(part.id, set())) < _MOST:
                found[part.id] |= paths - {(part.id, "")}
    return found


def is_as_written(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function, with its decorators, gives what its `return` statements say."""
    calls = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return all(last_name(call) in _TRANSPARENT for call in calls)


# --- on what is believed --------------------------------------------------------------------------------------------


def moved_somewhere(evaluator: Evaluator, value: Value) -> None:
    """A module, or the modules in a container, are moved, nobody knows where to."""
    if value.is_module:
        evaluator.state.places.update(dict.fromkeys(value.ids, NOWHERE_KNOWN))
    for part in parts(value):
        moved_somewhere(evaluator, part)


def parts(value: Value) -> Iterator[Value]:
    """What a container holds."""
    if value.kind in (v.SEQUENCE, v.MAPPING):
        yield from value.items or ()
        yield from (value.keys or {}).values()
        if value.element is not None and not value.items:
            yield value.element


def hand_over(evaluator: Evaluator, arguments: Arguments) -> None:
    """Something that is not known is given modules and containers: it may move the former and change the latter."""
    for expression, value in arguments.all:
        if value.kind in (v.SEQUENCE, v.MAPPING):
            for part in parts(value):
                _may_move(evaluator, part)
            evaluator.state.changed(value)
        elif value.kind in _WITH_ATTRIBUTES:
            _may_move(evaluator, value)
            path = _dotted(expression)
            if path:
                evaluator.state.forget_attributes(path)


def _may_move(evaluator: Evaluator, value: Value) -> None:
    """A module on the CPU may be moved; one that was moved already stays where it is."""
    if value.is_module and evaluator.state.place_of(value).is_cpu:
        moved_somewhere(evaluator, value)


def happened(
    evaluator: Evaluator, effects: Effects, function: Function, call: ast.Call, resolve: Callable[[str], bool]
) -> None:
    """A function was called: what it moves is somewhere, and what it sets is something.

    `resolve` says whether a name that belongs to a scope around the function means the same where it is called.
    """
    given = effects.given(call, function)
    for name, attribute in effects.of(function):
        if name in given:
            expression = given[name]
            value = evaluator.values.get(expression, v.ANYTHING)
            path = _dotted(expression)
        elif effects.is_outer(function, name) and resolve(name):
            value, path = evaluator.state.names.get(name, v.ANYTHING), name
        else:
            continue
        if not attribute:
            moved_somewhere(evaluator, value)
            evaluator.state.changed(value)
            continue
        held = evaluator.state.names.get(f"{path}.{attribute}") if path else None
        if held is None or held.kind in (v.FUNCTION, v.NAME, v.CLASS):
            continue
        moved_somewhere(evaluator, held)
        if not held.is_module:
            evaluator.state.bind(f"{path}.{attribute}", Value(ids=frozenset([(call, path, attribute)])))


def _dotted(node: ast.AST | None) -> str:
    from devlint.placement.evaluate import path_of

    return (path_of(node) if isinstance(node, ast.expr) else None) or ""


def moves_what_it_is_given(value: Value) -> bool:
    """Whether a function of the file, or a lambda, moves something."""
    return isinstance(value.node, ast.AST) and any(
        isinstance(part, ast.Attribute) and part.attr in TRANSFERS for part in walk(value.node)
    )
