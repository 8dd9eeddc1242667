"""Which qualified names a name can stand for, by Python's scoping rules and the file's imports.

It answers as LibCST's QualifiedNameProvider does for imported names (tested), from the `ast` tree and in one pass.
It does not follow the flow: a name bound by an import and by an assignment in the same scope is unknown.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

from devlint.syntax.trees import children

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
SCOPED = (ast.Module, ast.Lambda, ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)


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
    ]
)
"""The nodes that bind a name other than by assignment."""


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
        self.homes: dict[ast.AST, Scope] = {}
        """The scope of each Name node and of each function, class and lambda."""
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

    def _fill(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(tree, self.module)]
        while stack:
            node, scope = stack.pop()
            kind = type(node)
            if kind is ast.Name:
                self.homes[node] = scope
                if type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
                    scope.bound.setdefault(node.id, []).append(node)  # type: ignore[attr-defined]
                continue
            if kind in _BINDING:
                self._bind(node, scope)
            if isinstance(node, SCOPED):
                self.homes[node] = scope
                inner = self.module if isinstance(node, ast.Module) else Scope(node, scope)
                self.scope_of[node] = inner
                pieces = self._split(node, scope, inner)
            elif isinstance(node, ast.NamedExpr):
                target = scope
                while isinstance(target.node, _COMPREHENSIONS) and target.parent is not None:
                    target = target.parent
                pieces = [(node.target, target), (node.value, scope)]
            else:
                pieces = [(child, scope) for child in children(node)]
            stack += pieces

    @staticmethod
    def _split(node: Scoped, outer: Scope, inner: Scope) -> list[tuple[ast.AST, Scope]]:
        """The children of a node that opens a scope, each with the scope that it is evaluated in."""
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
            for argument in every:
                inner.bound.setdefault(argument.arg, []).append(argument)
            outside: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults]
            outside += [argument.annotation for argument in every]
            body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
            if not isinstance(node, ast.Lambda):
                outside += [*node.decorator_list, node.returns]
            return [(n, outer) for n in outside if n is not None] + [(n, inner) for n in body]
        if isinstance(node, ast.ClassDef):
            outside = [*node.bases, *node.keywords, *node.decorator_list]
            return [(n, outer) for n in outside if n is not None] + [(n, inner) for n in node.body]
        if isinstance(node, _COMPREHENSIONS):
            first = node.generators[0]
            pieces: list[tuple[ast.AST, Scope]] = [(first.iter, outer)]
            for generator in node.generators:
                pieces.append((generator.target, inner))
                pieces += [(condition, inner) for condition in generator.ifs]
                if generator is not first:
                    pieces.append((generator.iter, inner))
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            return pieces + [(result, inner) for result in results]
        return [(n, inner) for n in node.body]

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
