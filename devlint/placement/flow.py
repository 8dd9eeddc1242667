"""Follows the statements of one function, or of the module's own body, in the order in which they run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from devlint.placement import calls
from devlint.placement import values as v
from devlint.placement.evaluate import Evaluator, path_of
from devlint.placement.state import State
from devlint.placement.values import ANYTHING, Value
from devlint.syntax.trees import walk

if TYPE_CHECKING:
    from devlint.placement.evidence import Evidence
    from devlint.placement.infer import Inference

Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_TURNS = 4
"""A loop's body is followed until its state no longer changes; the lattice is flat, so few turns suffice."""
_LOOPS = 3
"""A loop in so many others is followed once, knowing nothing of what it binds: turns multiply."""


class Flow:
    """One pass over a body. The outcome is in `evaluator.values` and in the final `evaluator.state`."""

    def __init__(self, inference: Inference, owner: ast.AST, evidence: Evidence) -> None:
        self.inference = inference
        self.evaluator = Evaluator(inference, owner, evidence)
        self._loops: list[tuple[State, State]] = []
        """For each enclosing loop: the joined states at its `break`s and at its `continue`s."""

    def run(self, body: Sequence[ast.stmt], state: State) -> Evaluator:
        """Follow a body from a state."""
        self.evaluator.state = state
        self.block(body)
        return self.evaluator

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, "_" + type(statement).__name__, None)
            if method is not None:
                method(statement)

    # --- simple statements ------------------------------------------------------------------------------------

    def _Expr(self, node: ast.Expr) -> None:
        self.evaluator.value(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        value = self.evaluator.value(node.value)
        for target in node.targets:
            self.evaluator.bind(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        annotated = self.inference.annotated(node.annotation, node.target)
        if node.value is not None:
            value = self.evaluator.value(node.value)
            self.evaluator.bind(node.target, value if value.kind != v.UNKNOWN or annotated is None else annotated)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        evaluator = self.evaluator
        reading = _as_load(node.target)
        left, right = evaluator.value(reading), evaluator.value(node.value)
        evaluator.values[node.target] = left
        if left.is_tensor:
            calls.operate(evaluator, node.target, [(node.target, left), (node.value, right)])
            return  # in place: the same tensor, where it was
        if (
            left.kind == v.SEQUENCE
            and isinstance(node.op, ast.Add)
            and isinstance(node.target, ast.Name | ast.Attribute)
        ):
            element = right.element if left.items == () else v.join_all(x.element for x in (left, right) if x.element)
            evaluator.bind(node.target, replace(left, items=None, element=element))
            return
        result = calls.operate(evaluator, node.target, [(node.target, left), (node.value, right)])
        if isinstance(node.target, ast.Name | ast.Attribute):
            evaluator.bind(node.target, result)

    def _Return(self, node: ast.Return) -> None:
        value = self.evaluator.value(node.value) if node.value is not None else Value(kind=v.NOTHING)
        self.evaluator.returned.append(self._as_left(value))
        self.evaluator.state.dead = True

    def _as_left(self, value: Value) -> Value:
        """A result with its modules where the function has moved them."""
        if value.items is not None:
            return replace(value, items=tuple(map(self._as_left, value.items)))
        return replace(value, place=self.evaluator.state.place_of(value)) if value.is_module else value

    def _Raise(self, node: ast.Raise) -> None:
        self.evaluator.value(node.exc)
        self.evaluator.value(node.cause)
        self.evaluator.state.dead = True

    def _Assert(self, node: ast.Assert) -> None:
        self.evaluator.value(node.test)
        self.evaluator.value(node.msg)
        self.inference.narrow(self.evaluator, node.test, True)

    def _Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            path = path_of(target)
            if path is not None:
                self.evaluator.state.forget(path)
            elif isinstance(target, ast.Subscript):
                self.evaluator.value(target.value)

    def _Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.evaluator.state.bind(name, self.inference.named(alias.name if alias.asname else name))

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        source = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name != "*":
                joined = f"{source}{alias.name}" if source.endswith(".") else f"{source}.{alias.name}"
                self.evaluator.state.bind(alias.asname or alias.name, self.inference.named(joined))

    def _Break(self, node: ast.Break) -> None:
        self._leave(0)

    def _Continue(self, node: ast.Continue) -> None:
        self._leave(1)

    def _leave(self, way: int) -> None:
        if self._loops:
            self._loops[-1][way].merge(self.evaluator.state)
        self.evaluator.state.dead = True

    def _Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.evaluator.state.names[name] = self.evaluator.unknown("global", name)

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        evaluator = self.evaluator
        for decorator in node.decorator_list:
            evaluator.value(decorator)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            evaluator.value(default)
        evaluator.state.bind(node.name, Value(kind=v.FUNCTION, node=node, ids=frozenset([node])))

    _AsyncFunctionDef = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef) -> None:
        evaluator = self.evaluator
        for expression in [*node.decorator_list, *node.bases, *[keyword.value for keyword in node.keywords]]:
            evaluator.value(expression)
        outer = evaluator.state
        evaluator.state = outer.copy()
        self.block(node.body)
        evaluator.state = outer
        outer.bind(node.name, Value(kind=v.CLASS, node=node, ids=frozenset([node])))

    # --- branches ---------------------------------------------------------------------------------------------

    def _If(self, node: ast.If) -> None:
        evaluator = self.evaluator
        evaluator.value(node.test)
        before = evaluator.state
        evaluator.state = before.copy()
        self.inference.narrow(evaluator, node.test, True)
        self.block(node.body)
        after = evaluator.state
        evaluator.state = before
        self.inference.narrow(evaluator, node.test, False)
        self.block(node.orelse)
        _choose(evaluator, node, evaluator.state.merge(after))

    def _Match(self, node: ast.Match) -> None:
        evaluator = self.evaluator
        evaluator.value(node.subject)
        before = evaluator.state
        joined = State(dead=True, stems=before.stems)
        exhaustive = False
        changed: set[str] = set()
        for case in node.cases:
            evaluator.state = before.copy()
            for part in walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    evaluator.state.bind(name, evaluator.unknown(part))
            evaluator.value(case.guard)
            exhaustive |= case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            self.block(case.body)
            changed.update(joined.merge(evaluator.state))
        if not exhaustive:
            changed.update(joined.merge(before))
        evaluator.state = joined
        _choose(evaluator, node, changed)

    def _Try(self, node: ast.Try) -> None:
        evaluator = self.evaluator
        before = evaluator.state.copy()
        self.block(node.body)
        interrupted = evaluator.state.copy()
        interrupted.dead = False
        interrupted.merge(before)
        self.block(node.orelse)
        joined = evaluator.state
        changed: set[str] = set()
        for handler in node.handlers:
            evaluator.state = interrupted.copy()
            evaluator.value(handler.type)
            if handler.name:
                evaluator.state.bind(handler.name, evaluator.unknown(handler))
            self.block(handler.body)
            changed.update(joined.merge(evaluator.state))
        evaluator.state = joined
        _choose(evaluator, node, changed)
        if node.finalbody:
            dead, joined.dead = joined.dead, False
            self.block(node.finalbody)
            evaluator.state.dead |= dead

    _TryStar = _Try

    def _With(self, node: ast.With | ast.AsyncWith) -> None:
        evaluator = self.evaluator
        default = evaluator.state.default
        for item in node.items:
            value = evaluator.value(item.context_expr)
            if value.kind == v.DEVICE:
                evaluator.state.default = value.place
            elif _may_set_device(item.context_expr, value):
                evaluator.state.default = v.NOWHERE_KNOWN
            if item.optional_vars is not None:
                evaluator.bind(item.optional_vars, evaluator.unknown(item.optional_vars))
        self.block(node.body)
        evaluator.state.default = default

    _AsyncWith = _With

    # --- loops ------------------------------------------------------------------------------------------------

    def _For(self, node: ast.For | ast.AsyncFor) -> None:
        evaluator = self.evaluator
        iterable = evaluator.value(node.iter)

        def head() -> None:
            evaluator.bind(node.target, evaluator.element_of(iterable, node))

        self._loop(node, head)

    _AsyncFor = _For

    def _While(self, node: ast.While) -> None:
        def head() -> None:
            self.evaluator.value(node.test)
            self.inference.narrow(self.evaluator, node.test, True)

        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self._loop(node, head, endless)

    def _loop(self, node: Loop, head: object, endless: bool = False) -> None:
        evaluator = self.evaluator
        entry = evaluator.state
        assert callable(head)
        exits = State(dead=True, stems=entry.stems)
        turns = _TURNS
        if len(self._loops) >= _LOOPS:
            turns = 1
            _forget_bound(evaluator, node)
        for _ in range(turns):
            exits, continues = State(dead=True, stems=entry.stems), State(dead=True, stems=entry.stems)
            self._loops.append((exits, continues))
            evaluator.state = entry.copy()
            head()
            self.block(node.body)
            self._loops.pop()
            evaluator.state.merge(continues)
            turned = entry.copy()
            changed = turned.merge(evaluator.state)
            settled = self._is_settled(node, entry, turned, changed)
            entry = turned
            if settled:
                break
        evaluator.state = entry
        if endless:
            evaluator.state.dead = True
        self.block(node.orelse)
        evaluator.state.merge(exits)

    def _is_settled(self, loop: Loop, before: State, after: State, changed: Iterable[str]) -> bool:
        """Whether another turn of a loop would find what the last one found: nothing that it reads is another now."""
        reads = self.inference.carried(loop)
        if any(name.partition(".")[0] in reads and before.names.get(name) != after.names.get(name) for name in changed):
            return False
        first, last = loop.lineno, loop.end_lineno or 0
        for what, place in after.places.items():
            made_here = isinstance(what, ast.AST) and first <= getattr(what, "lineno", 0) <= last
            if not made_here and before.places.get(what) != place:
                return False
        return True


def _forget_bound(evaluator: Evaluator, loop: ast.AST) -> None:
    """Know nothing of what a loop binds or moves."""
    state = evaluator.state
    for node in ast.walk(loop):
        path = path_of(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if path is not None and not isinstance(getattr(node, "ctx", None), ast.Load):
            state.bind(path, evaluator.unknown("loop", loop, path))
    state.places = dict.fromkeys(state.places, v.NOWHERE_KNOWN)


def _may_set_device(node: ast.expr, value: Value) -> bool:
    """Whether an unknown context manager may say where factories put tensors, as `init_empty_weights()` does."""
    if any(other.kind == v.DEVICE for other in value.alternatives):
        return True
    function = node.func if isinstance(node, ast.Call) else node
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return value.kind == v.UNKNOWN and any(word in name.lower() for word in ("device", "empty_weights", "init"))


def _as_load(target: ast.expr) -> ast.expr:
    """An augmented target is read before it is written."""
    return target


def _choose(evaluator: Evaluator, node: ast.stmt, changed: Iterable[str]) -> None:
    """A device or device string that two branches chose differently is one symbolic place from here on."""
    names = evaluator.state.names
    for name in changed:
        value = names.get(name, ANYTHING)
        if value.kind in (v.DEVICE, v.TEXT) and value.alternatives and not value.place.known:
            names[name] = replace(value, place=v.Place(key=("choice", node, name), text=name))


__all__ = ["ANYTHING", "Flow"]
