"""What a call is handed by `**`, where that is a dictionary of the same file whose keys are all known."""

from __future__ import annotations

import ast

from devlint.checks.context import Context
from devlint.syntax.trees import walk


def keyword_in_spread(context: Context, call: ast.Call, name: str) -> tuple[bool, ast.expr | None]:
    """Whether it is known if `**` hands a keyword to a call, and the keyword's value.

    It is known where each dictionary is written out, in the call or in assignments to a name that is used for nothing
    else than to be unpacked; the value, where there is one, stands there once and serves this call alone.
    """
    value: ast.expr | None = None
    for keyword in call.keywords:
        if keyword.arg is not None:
            continue
        written = _written(context, keyword.value)
        if written is None:
            return False, None
        values = [items[name] for items in written if name in items]
        if values and (len(written) > 1 or value is not None):
            return False, None
        value = values[0] if values else value
    return True, value


def _written(context: Context, node: ast.expr, named: bool = True) -> list[dict[str, ast.expr]] | None:
    """The dictionaries that may take part in what node is, each by its keys; None where that is not all written out.

    A name is followed to what it is bound to, once: `named` says whether it may be one.
    """
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        texts = [key for key in keys if isinstance(key, str)]
        return [dict(zip(texts, node.values, strict=True))] if len(texts) == len(keys) else None
    if isinstance(node, ast.IfExp):
        parts = [_written(context, branch, named) for branch in (node.body, node.orelse)]
        return None if None in parts else [items for part in parts for items in part or ()]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        written = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        return [written] if len(written) == len(node.keywords) else None
    return _of_name(context, node) if named and isinstance(node, ast.Name) else None


def _of_name(context: Context, name: ast.Name) -> list[dict[str, ast.expr]] | None:
    """What a name is bound to, and the items that are put into it."""
    scope = context.names.homes[name].defining(name.id)
    if scope is None or name.id in scope.imports:
        return None
    found: list[dict[str, ast.expr]] = []
    unpacked = 0
    parents = context.inference.parents
    for node in walk(context.tree):
        if (
            not isinstance(node, ast.Name)
            or node.id != name.id
            or context.names.homes[node].defining(node.id) is not scope
        ):
            continue
        above = parents.get(node)
        if isinstance(above, ast.keyword) and above.arg is None:
            unpacked += 1
        elif isinstance(above, ast.Assign) and above.targets == [node]:
            part = _written(context, above.value, named=False)
            if part is None:
                return None
            found += part
        elif isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store) and above.value is node:
            key, statement = above.slice, parents.get(above)
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(statement, ast.Assign)):
                return None
            found.append({key.value: statement.value})
        else:
            return None
    bound = scope.bound.get(name.id, [])
    if not all(isinstance(node, ast.Name) for node in bound):
        return None
    return found * 2 if unpacked > 1 else found  # a value in it would serve several calls
