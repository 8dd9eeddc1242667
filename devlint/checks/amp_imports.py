"""Imports of deprecated names: who uses them, and how they go or change when all uses did."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

from devlint.checks.context import Context
from devlint.finding import Edit
from devlint.syntax.names import Scope
from devlint.syntax.trees import children, walk


@dataclass(frozen=True, slots=True)
class Binding:
    """A name that one import statement binds in one scope."""

    statement: ast.Import | ast.ImportFrom
    alias: ast.alias
    scope: Scope
    name: str


def binding_of(context: Context, root: ast.Name) -> Binding | None:
    """The one import that binds a name; None where several do, or none."""
    home = context.names.homes.get(root)
    scope = home.defining(root.id) if home is not None else None
    if scope is None or root.id in scope.bound:
        return None
    found = [
        Binding(statement, alias, scope, root.id)
        for statement in _imports(scope)
        for alias in statement.names
        if (alias.asname or alias.name.split(".")[0]) == root.id
    ]
    return found[0] if len(found) == 1 else None


def _imports(scope: Scope) -> list[ast.Import | ast.ImportFrom]:
    found: list[ast.Import | ast.ImportFrom] = []
    stack: list[ast.AST] = list(getattr(scope.node, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            stack.extend(children(node))
    return found


def uses_of(context: Context, binding: Binding) -> list[ast.Name]:
    """Every place where the name is read as this import's."""
    return [
        node
        for node, home in context.names.homes.items()
        if isinstance(node, ast.Name) and node.id == binding.name and home.defining(node.id) is binding.scope
    ]


def module_name(context: Context, module: str, at: ast.AST, root: ast.Name) -> str | None:
    """The name under which a top-level import gives this module (or what a module holds) at a place, or None."""
    home = context.names.homes.get(root)
    outer = context.names.module
    for statement in context.tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        for alias in statement.names:
            name = alias.asname or (alias.name.split(".")[0] if isinstance(statement, ast.Import) else alias.name)
            if isinstance(statement, ast.ImportFrom):
                full = f"{'.' * statement.level}{statement.module or ''}.{alias.name}"
            else:
                full = alias.name if alias.asname else name
            if (
                full == module
                and outer.imports.get(name) == {module}
                and name not in outer.bound
                and home is not None
                and home.defining(name) is outer
                and (statement.lineno, statement.col_offset) < (getattr(at, "lineno", 0), getattr(at, "col_offset", 0))
            ):
                return name
    return None


def is_wanted_elsewhere(context: Context, binding: Binding) -> bool:
    """Whether the import may serve more than this file's code: re-exported, marked, or named in a string."""
    path = context.source.path.replace("\\", "/")
    if path.endswith("__init__.py") or path.endswith(".pyi"):
        return True
    statement = binding.statement
    rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    if any("noqa" in context.source.line(row).lower() for row in rows):
        return True
    word = re.compile(rf"(?<![\w.]){re.escape(binding.name)}\b")
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and not re.search(r"\s", node.value)
        and word.search(node.value)
        for node in walk(context.tree)
    )


def stands_alone(context: Context, statement: ast.stmt) -> bool:
    """Whether nothing else stands on the statement's lines, no comment either."""
    start, end = context.span(statement)
    before, after = _line(context, start, end)
    text = context.source.text
    inside = any("#" in context.source.line(row) for row in range(statement.lineno, statement.end_lineno or 0))
    return not text[before:start].strip() and not text[end:after].strip() and not inside


def is_plain(context: Context, statement: ast.stmt) -> bool:
    """Whether it stands in the body of the module or of a function, not in a branch of anything."""
    above = context.inference.parents.get(statement)
    return isinstance(above, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) and len(above.body) > 1


def removal(context: Context, statement: ast.Import | ast.ImportFrom, gone: Collection[ast.alias]) -> list[Edit]:
    """Take names out of an import, or the whole statement with its line."""
    kept = [alias for alias in statement.names if alias not in gone]
    if not kept:
        start, end = context.span(statement)
        first, last = _line(context, start, end)
        text = context.source.text
        if text.startswith("\r\n", last):
            last += 2
        elif last < len(text):
            last += 1
        return [Edit(first, last, "")]
    edits: list[Edit] = []
    trailing: tuple[int, int] | None = None
    for position, alias in enumerate(statement.names):
        if alias in gone:
            start, end = context.span(alias)
            if any(other in kept for other in statement.names[position + 1 :]):
                edits.append(Edit(start, context.span(statement.names[position + 1])[0], ""))
            else:
                trailing = (trailing[0] if trailing else context.span(statement.names[position - 1])[1], end)
    if trailing is not None:
        edits.append(Edit(*trailing, ""))
    return _joined(edits)


def _joined(edits: list[Edit]) -> list[Edit]:
    """Edits that touch each other, as one."""
    found: list[Edit] = []
    for edit in edits:
        if found and found[-1].end == edit.start:
            found[-1] = Edit(found[-1].start, edit.end, "")
        else:
            found.append(edit)
    return found


def _line(context: Context, start: int, end: int) -> tuple[int, int]:
    text = context.source.text
    first = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    ends = [position for position in (text.find("\n", end), text.find("\r", end)) if position >= 0]
    return first, min(ends, default=len(text))
