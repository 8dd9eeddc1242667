"""What stands around a place in the code and says that it knows what it does: probes, conditions, early exits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.checks.context import Context
from devlint.syntax.trees import last_name

_EXPECTS = frozenset({"raises", "assertRaises", "assertRaisesRegex", "suppress"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def main_block(tree: ast.Module) -> ast.If | None:
    """`if __name__ == "__main__":` at the top of a file."""
    for node in tree.body:
        test = node.test if isinstance(node, ast.If) else None
        if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__":
            return node  # type: ignore[return-value]
    return None


def expects_error(context: Context, node: ast.AST) -> bool:
    """Whether an error at node is caught or wanted: the body of a `try` with handlers, `pytest.raises`, a call that is
    handed to `assertRaises`."""
    child = node
    for above in context.inference.ancestors(node):
        if isinstance(above, ast.Try) and above.handlers and child in above.body:
            return True
        if isinstance(above, ast.With | ast.AsyncWith) and any(
            _names_one(i.context_expr, _EXPECTS) for i in above.items
        ):
            return True
        if isinstance(above, ast.Call) and _names_one(above.func, _EXPECTS):
            return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return False
        child = above
    return False


def _names_one(node: ast.AST, names: frozenset[str]) -> bool:
    return last_name(node.func if isinstance(node, ast.Call) else node) in names


def conditions(context: Context, node: ast.AST) -> Iterator[str]:
    """The texts of the conditions under which node runs, as far as its function shows them: those around it, and
    those of earlier statements that leave (`if not ...: return`) or assert."""
    child = node
    for above in context.inference.ancestors(node):
        if isinstance(above, ast.If | ast.IfExp | ast.While) and child is not above.test:
            yield ast.unparse(above.test)
        elif isinstance(above, ast.BoolOp):
            yield from (ast.unparse(operand) for operand in above.values if operand is not child)
        elif isinstance(above, ast.Match):
            yield ast.unparse(above.subject)
        for body in _bodies(above):
            if child in body:
                for statement in body[: body.index(child)]:
                    if isinstance(statement, ast.Assert) or (isinstance(statement, ast.If) and _leaves(statement)):
                        yield ast.unparse(statement.test)
        if isinstance(above, _FUNCTIONS):
            yield from (ast.unparse(d) for d in getattr(above, "decorator_list", []))
        child = above


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body


def _leaves(node: ast.If) -> bool:
    """Whether one of the branches always leaves: returns, raises, goes on with the loop, exits."""
    return any(body and _leaving(body[-1]) for body in (node.body, node.orelse))


def _leaving(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return True
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and bool(re.search(r"exit|skip|abort|fail", ast.unparse(statement.value.func)))
    )
