"""Which qualified names a name can stand for, by Python's scoping rules and the file's imports.

It answers as LibCST's QualifiedNameProvider does for imported names (tested), from the `ast` tree and in one pass.
It does not follow the flow: a name bound by an import and by an assignment in the same scope is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from devlint.syntax.trees import children, fields

Scoped: TypeAlias = (
    ast.Module
    | ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.Lambda
    | ast.ClassDef
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NAMED = (*_FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchStar, ast.MatchAs)
_OPENING = frozenset((ast.Lambda, ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS, ast.comprehension, ast.NamedExpr))
"""The nodes whose children are not all evaluated in the scope that they stand in."""


_BINDING = frozenset(
    [
        ast.Import,
        ast.ImportFrom,
        *_FUNCTIONS,
        ast.ClassDef,
        ast.ExceptHandler,
        ast.Global,
        ast.Nonlocal,
        ast.MatchStar,
        ast.MatchAs,
        ast.MatchMapping,
        ast.Return,
        ast.Yield,
        ast.YieldFrom,
    ]
)
"""The nodes that bind a name other than by assignment, or say of what kind a function is."""


@dataclass(slots=True, eq=False)
class Scope:
    """One scope: what its names are bound to."""

    node: Scoped
    parent: Scope | None
    imports: dict[str, set[str]] = field(default_factory=dict)
    """Names bound by an import, with the qualified names that they can stand for."""
    bound: dict[str, list[ast.AST]] = field(default_factory=dict)
    """Names bound in another way, with the binding nodes."""
    outer: dict[str, bool] = field(default_factory=dict)
    """Names declared `global` (True) or `nonlocal` (False)."""
    star_import: bool = False
    yields: bool = False
    """Whether it is that of a generator function."""
    returns: bool = False
    """Whether it is that of a function with `return` and a value."""

    def defining(self, name: str) -> Scope | None:
        """The scope that `name`, read here, belongs to; None for a builtin or an unknown name."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if name in scope.outer:
                scope, first = (scope.module if scope.outer[name] else scope.parent), False
                continue
            visible = first or not isinstance(scope.node, ast.ClassDef)
            if visible and (name in scope.bound or name in scope.imports):
                return scope
            scope, first = scope.parent, False
        return None

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


class Names:
    """Scopes of one file. `scope_of` holds the scope that each scoped node opens; `within` the one it stands in."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self.scope_of: dict[ast.AST, Scope] = {tree: self.module}
        self.homes: dict[ast.AST, Scope] = {tree: self.module}
        """The scope of each Name node and of each function, class and lambda."""
        self.parents: dict[ast.AST, ast.AST] = {}
        """Each node's parent; operators and contexts have none."""
        self.stores: list[ast.Attribute | ast.Subscript] = []
        """The attributes and items that are set or deleted."""
        self._fill(tree)

    def qualified(self, node: ast.AST) -> frozenset[str]:
        """The imported names that a Name, or a chain of attributes on one, can stand for; empty if unknown."""
        tail: list[str] = []
        while isinstance(node, ast.Attribute):
            tail.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node not in self.homes:
            return frozenset()
        scope = self.homes[node].defining(node.id)
        if scope is None or not all(map(_deletes, scope.bound.get(node.id, ()))):
            return frozenset()
        suffix = "".join(f".{part}" for part in reversed(tail))
        return frozenset(name + suffix for name in scope.imports.get(node.id, ()))

    def name_of(self, node: ast.AST) -> str | None:
        """The one imported name that node stands for, or None."""
        names = self.qualified(node)
        return next(iter(names)) if len(names) == 1 else None

    def is_free(self, node: ast.Name) -> bool:
        """Whether no scope of the file binds a name: it is a builtin, or unknown."""
        home = self.homes.get(node)
        return home is not None and home.defining(node.id) is None

    def may_rename(self, node: ast.AST) -> bool:
        """Whether a name, or an attribute on one, may stand for an imported name that a variable was given.

        `make = torch.zeros`, `self.make = torch.zeros` and `for make in (torch.zeros, torch.ones)` give it one; what
        most calls give, arguments and the functions of the file are none.
        """
        attribute = ""
        while isinstance(node, ast.Attribute):
            attribute, node = node.attr, node.value
        home = self.homes.get(node)
        scope = home.defining(node.id) if home is not None and isinstance(node, ast.Name) else None
        if scope is None or not isinstance(node, ast.Name):
            return False
        if attribute in self._set_attributes:
            return True
        return any(isinstance(bound, ast.Name) and self._takes_name(bound) for bound in scope.bound.get(node.id, ()))

    @cached_property
    def _set_attributes(self) -> set[str]:
        return {store.attr for store in self.stores if isinstance(store, ast.Attribute)}

    def _takes_name(self, target: ast.Name) -> bool:
        """Whether a variable is set to what may be an imported name, as far as its statement shows."""
        above = self.parents[target]
        while isinstance(above, ast.Tuple | ast.List | ast.Starred):
            above = self.parents[above]
        loops = isinstance(above, ast.For | ast.AsyncFor | ast.comprehension)
        source = above.iter if loops else getattr(above, "value", None)  # type: ignore[attr-defined]
        if isinstance(source, ast.Call):  # `partial(torch.load, weights_only=True)`
            return any(map(self.qualified, source.args))
        return not isinstance(source, ast.Constant | ast.BinOp | ast.Subscript | ast.Compare | ast.UnaryOp)

    def _fill(self, tree: ast.Module) -> None:
        parents, homes = self.parents, self.homes
        stack: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        push, pop = stack.append, stack.pop
        while stack:
            node, scope = pop()
            kind = type(node)
            if kind is ast.Name:
                homes[node] = scope
                if type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
                    scope.bound.setdefault(node.id, []).append(node)  # type: ignore[attr-defined]
                continue
            if kind in _BINDING:
                self._bind(node, scope)
            elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                self.stores.append(node)
            if kind in _OPENING:
                for parent, child, inner in self._parts(node, scope):
                    parents[child] = parent
                    push((child, inner))
                continue
            for name in fields[kind]:
                value = getattr(node, name, None)
                if type(value) is list:
                    for child in value:
                        if child is not None:
                            parents[child] = node
                            push((child, scope))
                elif value is not None:
                    parents[value] = node
                    push((value, scope))

    def _parts(self, node: ast.AST, outer: Scope) -> Iterator[tuple[ast.AST, ast.AST, Scope]]:
        """The parts of a node that opens a scope, or binds in another one: parent, child, where that is evaluated."""
        if isinstance(node, ast.NamedExpr):
            target = outer
            while isinstance(target.node, _COMPREHENSIONS) and target.parent is not None:
                target = target.parent
            yield node, node.target, target
            yield node, node.value, outer
            return
        if isinstance(node, ast.comprehension):
            first = self.parents[node].generators[0] is node  # type: ignore[attr-defined]
            for child in children(node):
                yield node, child, (outer.parent or outer) if first and child is node.iter else outer
            return
        inner = Scope(node, outer)  # type: ignore[arg-type]
        self.homes[node], self.scope_of[node] = outer, inner
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            for argument in [*every, arguments.vararg, arguments.kwarg]:
                if argument is not None:
                    inner.bound.setdefault(argument.arg, []).append(argument)
        for child in children(node):
            if isinstance(node, ast.Lambda):
                inside = child is node.body
            else:
                inside = isinstance(child, ast.stmt) or isinstance(node, _COMPREHENSIONS)
            yield node, child, inner if inside else outer

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                full = alias.name if alias.asname else name
                scope.imports.setdefault(name, set()).add(full)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    scope.star_import = True
                    continue
                joined = f"{source}{alias.name}" if source.endswith(".") else f"{source}.{alias.name}"
                scope.imports.setdefault(alias.asname or alias.name, set()).add(joined)
        elif isinstance(node, _NAMED):
            if node.name:
                scope.bound.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            scope.yields = True
        elif isinstance(node, ast.Return):
            scope.returns |= node.value is not None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bound.setdefault(node.rest, []).append(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                if scope is not self.module:  # there `global` changes nothing
                    scope.outer[name] = isinstance(node, ast.Global)
                if isinstance(node, ast.Global):
                    self.module.bound.setdefault(name, []).append(node)


def _deletes(binding: ast.AST) -> bool:
    """`del x` makes x a name of its scope, and gives it no other value."""
    return isinstance(binding, ast.Name) and isinstance(binding.ctx, ast.Del)
