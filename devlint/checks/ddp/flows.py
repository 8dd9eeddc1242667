"""Which variable holds what: assignments, arguments and results followed through the functions of one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from devlint.checks.ddp.script import Script
from devlint.placement.infer import FUNCTIONS

Variable: TypeAlias = tuple[ast.AST, str]
"""A name of a scope, an attribute of `self` (its class and `self.NAME`), or a result of a function (`return`)."""

SAME = frozenset({"to", "cuda", "cpu", "train", "eval", "float", "double", "half", "requires_grad_"})
"""Methods of modules that give back the module."""


class Flows:
    """What flows into which variable, the order of statements left aside."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._sources: dict[Variable, set[Variable]] = {}
        self.values: dict[Variable, list[ast.expr]] = {}
        """The expressions assigned to a variable that are no variables themselves."""
        for node in script.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._assign(node.target, node.value)
            elif isinstance(node, ast.Call):
                self._pass(node)
            elif isinstance(node, ast.Return) and node.value is not None:
                self._return(node)

    def variable(self, node: ast.AST) -> Variable | None:
        """The variable that an expression is, `.to(...)` and its like looked through."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME:
            node = node.func.value
        if isinstance(node, ast.Name):
            home = self._script.context.names.homes.get(node)
            scope = home.defining(node.id) if home is not None else None
            return (scope.node, node.id) if scope is not None else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            class_ = self._script.class_of(node)
            return (class_, f"self.{node.attr}") if class_ is not None else None
        if isinstance(node, ast.Call):
            function = self._script.called(node)
            return (function, "return") if function is not None and function.name != "__init__" else None
        return None

    def sources(self, variable: Variable | None) -> set[Variable]:
        """The variable and all those whose values may flow into it."""
        return self._closure(variable, self._sources)

    def origins(self, node: ast.AST) -> Iterator[ast.expr]:
        """The expressions whose values node may have, variables followed."""
        for variable in self.sources(self.variable(node)):
            yield from self.values.get(variable, ())

    @staticmethod
    def _closure(variable: Variable | None, edges: dict[Variable, set[Variable]]) -> set[Variable]:
        found: set[Variable] = set()
        waiting = [variable] if variable is not None else []
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += edges.get(one, ())
        return found

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._assign(one, other)
            elif isinstance(value, ast.Call) and (function := self._script.called(value)) is not None:
                for index, one in enumerate(target.elts):
                    self._flow((function, f"return {index}"), self.variable(one))
            return
        self._bind(self.variable(target), value)

    def _bind(self, target: Variable | None, value: ast.expr) -> None:
        source = self.variable(value)
        if source is not None:
            self._flow(source, target)
        elif target is not None:
            self.values.setdefault(target, []).append(value)

    def _flow(self, source: Variable, target: Variable | None) -> None:
        if target is not None:
            self._sources.setdefault(target, set()).add(source)

    def _pass(self, call: ast.Call) -> None:
        function = self._script.called(call)
        if function is not None:
            for parameter, value in self._script.passed(call, function):
                self._bind((function, parameter.arg), value)

    def _return(self, node: ast.Return) -> None:
        function = self._script.owner(node)
        assert node.value is not None
        if not isinstance(function, FUNCTIONS):
            return
        if isinstance(node.value, ast.Tuple):
            for index, one in enumerate(node.value.elts):
                self._bind((function, f"return {index}"), one)
        else:
            self._bind((function, "return"), node.value)
