"""Tensors that only hold a name's place until a branch gives it another."""

from __future__ import annotations

import ast

from devlint.checks.context import Context
from devlint.placement.mismatch import Mismatch
from devlint.syntax.trees import walk


def is_placeholder(context: Context, mismatch: Mismatch) -> bool:
    """Whether the tensor on the CPU is what a name has before a chain of `if` and `elif` that tells all cases apart, or
    before the first turn of a loop, which sets it.

    ```
    weight = torch.tensor([0])
    if mode == "add": weight = a + b
    elif mode == "multiply": weight = a * b

    total, first = torch.zeros(1), True
    while True:
        if first: total, first = step(), False
        else: total = torch.cat([total, step()])
    ```

    That none of the cases holds, or that the first turn is another, can be written, but is not meant.
    """
    expression, value = mismatch.host
    while isinstance(expression, ast.Subscript | ast.Attribute | ast.Call):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    made = value.origin.node if value.origin is not None else None
    if not isinstance(expression, ast.Name) or not isinstance(made, ast.AST):
        return False
    if _is_shared(context, made) or _is_after_first_turn(context, mismatch.meeting.node, expression.id):
        return True
    child = made
    for above in context.inference.ancestors(made):
        if isinstance(child, ast.stmt):
            blocks = [getattr(above, field, None) for field in ("body", "orelse", "finalbody")]
            block = next((one for one in blocks if isinstance(one, list) and child in one), [])
            later = [one for one in block[block.index(child) :] if one.lineno < mismatch.meeting.node.lineno]
            return any(_tells_apart(one, expression.id) for one in later)
        child = above
    return False


def _is_shared(context: Context, made: ast.AST) -> bool:
    """`mask = scores = torch.empty(0)`: an empty tensor that several names hold, so that each of them is set."""
    statement = context.inference.parents.get(made)
    sizes = made.args if isinstance(made, ast.Call) else []
    empty = len(sizes) == 1 and isinstance(sizes[0], ast.Constant) and sizes[0].value == 0
    return empty and isinstance(statement, ast.Assign) and len(statement.targets) > 1


def _is_after_first_turn(context: Context, meeting: ast.AST, name: str) -> bool:
    """Whether a meeting stands in the other branch of an `if` in a loop that sets the name in the first turn: it asks
    for a flag that it then changes, or whether a count is 0."""
    child = meeting
    for above in context.inference.ancestors(meeting):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        if isinstance(above, ast.If) and child is not above.test:
            arms = [above.body, above.orelse]
            other = next(arm for arm in arms if child not in arm)
            in_loop = any(isinstance(one, ast.For | ast.While) for one in context.inference.ancestors(above))
            if in_loop and _sets(other, name) and _asks_for_first(above.test, other):
                return True
        child = above
    return False


def _asks_for_first(test: ast.expr, arm: list[ast.stmt]) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant):
        zero = test.comparators[0].value == 0 and isinstance(test.comparators[0].value, int)
        return zero and isinstance(test.left, ast.Name)
    return isinstance(test, ast.Name) and _sets(arm, test.id)


def _tells_apart(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is a chain of two or more comparisons of one thing, and sets the name in each case."""
    subjects: set[str] = set()
    cases = 0
    while isinstance(statement, ast.If):
        test = statement.test
        equal = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.In | ast.Is)
        if not equal or not isinstance(test, ast.Compare) or not _sets(statement.body, name):
            return False
        subjects.add(ast.dump(test.left))
        cases += 1
        if len(statement.orelse) != 1 or not isinstance(statement.orelse[0], ast.If):
            return cases > 1 and len(subjects) == 1 and not statement.orelse
        statement = statement.orelse[0]
    return False


def _sets(statements: list[ast.stmt], name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for statement in statements
        for node in walk(statement)
    )
