"""What the turns of a loop hand on: the names that a turn may read before it has set them itself."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.syntax.trees import walk

_GROWS = frozenset({"append", "extend"})


def carried(loop: ast.For | ast.AsyncFor | ast.While) -> frozenset[str]:
    """The names of which a turn of a loop may read what an earlier one has left.

    A list that is only added to is none of them, and neither is a name that each turn sets first.
    """
    reads: set[str] = set()
    if isinstance(loop, ast.While):
        _read(loop.test, set(), reads)
        _follow(loop.body, set(), reads)
    else:
        _follow(loop.body, _names(loop.target), reads)
    return frozenset(reads)


def _follow(body: Sequence[ast.stmt], own: set[str], reads: set[str]) -> None:
    """Add to `reads` what statements read that is not in `own`; to `own` what they set for sure."""
    for statement in body:
        if isinstance(statement, ast.Assign):
            _read(statement, own, reads)
            own.update(*map(_names, statement.targets))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            _read(statement, own, reads)
            own.update(_names(statement.target))
        elif isinstance(statement, ast.Expr) and _grows(statement.value):
            call: ast.Call = statement.value  # type: ignore[assignment]
            for argument in [*call.args, *call.keywords]:
                _read(argument, own, reads)
        elif isinstance(statement, ast.If):
            _read(statement.test, own, reads)
            branches = [set(own), set(own)]
            _follow(statement.body, branches[0], reads)
            _follow(statement.orelse, branches[1], reads)
            own |= branches[0] & branches[1]
        elif isinstance(statement, ast.For | ast.AsyncFor):
            _read(statement.iter, own, reads)
            _follow(statement.body, own | _names(statement.target), reads)
            _follow(statement.orelse, set(own), reads)
        elif isinstance(statement, ast.With | ast.AsyncWith):
            for item in statement.items:
                _read(item, own, reads)
                own.update(_names(item.optional_vars) if item.optional_vars is not None else ())
            _follow(statement.body, own, reads)
        else:
            _read(statement, own, reads)


def _grows(node: ast.expr) -> bool:
    """Whether an expression is `outputs.append(x)`."""
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _GROWS and isinstance(function.value, ast.Name)


def _read(node: ast.AST, own: set[str], reads: set[str]) -> None:
    """Add the names that a node reads; `x += 1` and `del x` need x as well."""
    sets_what_it_needs = isinstance(node, ast.AugAssign | ast.Delete)
    for part in walk(node):
        if isinstance(part, ast.Name) and (sets_what_it_needs or isinstance(part.ctx, ast.Load)):
            reads |= {part.id} - own


def _names(target: ast.AST) -> set[str]:
    """The names that a target sets."""
    return {part.id for part in walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
