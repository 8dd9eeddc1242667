"""Where a value is read after a statement, and whether all that it meets there lives on one device."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from devlint.checks.context import Context
from devlint.checks.guards import expects_error
from devlint.placement import values as v
from devlint.placement.values import Place, Value
from devlint.syntax.names import Scope
from devlint.syntax.trees import walk


def reads_after(context: Context, statement: ast.AST, receiver: ast.AST) -> list[ast.Name]:
    """The reads of a local name that the definitions reaching `statement` reach too, after it.

    In a loop whose body binds the name anew at each turn, only those later in the body count.
    """
    assert isinstance(receiver, ast.Name)
    inference = context.inference
    owner = inference.owner(statement)
    ids = inference.value(receiver).ids
    end = (getattr(statement, "end_lineno", 0), getattr(statement, "end_col_offset", 0))
    loop = next(
        (
            above
            for above in inference.ancestors(statement)
            if isinstance(above, ast.For | ast.AsyncFor | ast.While) and not _binds(above, receiver.id)
        ),
        None,
    )
    found = []
    for node, value in inference.run(owner).values.items():
        if not (isinstance(node, ast.Name) and node.id == receiver.id and isinstance(node.ctx, ast.Load)):
            continue
        later = (node.lineno, node.col_offset) >= end
        again = loop is not None and node is not receiver and any(above is loop for above in inference.ancestors(node))
        if (later or again) and (value.ids & ids or not ids):
            found.append(node)
    return found


def read_elsewhere(context: Context, statement: ast.AST, name: str) -> bool:
    """Whether a function, class or lambda inside the function reads its local `name`: when that runs is not known."""
    scope = context.names.scope_of.get(context.inference.owner(statement))
    if scope is None:
        return True
    memo: dict[ast.AST, set[str]] = context.memo.setdefault("read inside", {})
    if scope.node not in memo:
        memo[scope.node] = {
            node.id
            for node in walk(scope.node)
            if isinstance(node, ast.Name) and _is_inside(context, node, scope) and isinstance(node.ctx, ast.Load)
        }
    return name in memo[scope.node]


def _is_inside(context: Context, node: ast.Name, scope: Scope) -> bool:
    home = context.names.homes.get(node)
    while home is not None and isinstance(home.node, _COMPREHENSIONS) and home.parent is not None:
        home = home.parent
    return home is not None and home is not scope and home.defining(node.id) is scope


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_HOST_PACKAGES = ("numpy.", "matplotlib.", "sklearn.", "scipy.", "pandas.", "PIL.", "cv2.")
_HOST_ARGUMENTS = {"torch.nn.utils.rnn.pack_padded_sequence": 1}
"""Functions of torch that want one argument on the CPU, and its position."""


def wanted_on_host(context: Context, call: ast.Call) -> bool:
    """Whether what a call makes is, somewhere in its function, used as only a CPU tensor can be: handed to NumPy, given
    as lengths, pinned."""
    inference = context.inference
    return any(_only_host(context, node) for node in _stemming(context, inference.owner(call)).get(call, ()))


def ends_on_host(context: Context, node: ast.AST) -> bool:
    """Whether the chain of calls and attributes that begins with node ends in one that only the CPU has: `.numpy()`."""
    above = context.inference.parents.get(node)
    while isinstance(above, ast.Attribute | ast.Call | ast.Subscript):
        if isinstance(above, ast.Attribute) and _only_host(context, node):
            return True
        inner = above.func if isinstance(above, ast.Call) else above.value
        if inner is not node:
            return False
        node, above = above, context.inference.parents.get(above)
    return False


def _stemming(context: Context, owner: ast.AST) -> dict[object, list[ast.AST]]:
    """The expressions of a function by the call that made their values."""
    memo: dict[ast.AST, dict[object, list[ast.AST]]] = context.memo.setdefault("stemming", {})
    if owner not in memo:
        found: dict[object, list[ast.AST]] = {}
        for node, value in context.inference.run(owner).values.items():
            for one in value.possibilities():
                if one.origin is not None and isinstance(one.origin.node, ast.Call) and one.place.is_cpu:
                    found.setdefault(one.origin.node, []).append(node)
        memo[owner] = found
    return memo[owner]


def _only_host(context: Context, node: ast.AST) -> bool:
    above = context.inference.parents.get(node)
    if isinstance(above, ast.Attribute):
        row = context.inference.facts.method(v.TENSOR, above.attr) or {}
        return bool(row.get("needs_host")) or above.attr in ("numpy", "pin_memory", "__array__")
    if isinstance(above, ast.keyword):
        above = context.inference.parents.get(above)
    if not isinstance(above, ast.Call):
        return False
    name = context.name_of(above.func) or ""
    position = _HOST_ARGUMENTS.get(name)
    if position is not None:
        return above.args[position : position + 1] == [node] or any(k.value is node for k in above.keywords)
    return name.startswith(_HOST_PACKAGES)


def _binds(loop: ast.AST, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in walk(loop)
    )


def settled_at(context: Context, place: Place, reads: Sequence[ast.Name]) -> bool:
    """Whether each read meets a value proven to be at `place`, or a module there, and nothing else.

    Reads of a shape or dtype meet nothing; what is made of the answer to "on which device" may meet anything.
    """
    return place.known and all(_meets(context, place, read) and not expects_error(context, read) for read in reads)


_ASKING = frozenset({"shape", "dtype", "ndim", "requires_grad", "layout", "names"})


def _meets(context: Context, place: Place, read: ast.Name) -> bool:
    inference = context.inference
    above = inference.parents.get(read)
    if isinstance(above, ast.Attribute):
        call = inference.parents.get(above)
        if isinstance(call, ast.Call) and call.func is above:
            result = inference.value(call)
            return result.kind in (v.NUMBER, v.NOTHING) or above.attr in ("size", "dim", "numel", "item", "tolist")
        return above.attr in _ASKING
    if isinstance(above, ast.Call) and above.func is not read:
        if inference.value(above).kind == v.NUMBER:
            return True
        return _call_is_at(context, place, above, read)
    if isinstance(above, ast.BinOp | ast.Compare):
        operands = [above.left, above.right] if isinstance(above, ast.BinOp) else [above.left, *above.comparators]
        others = [context.inference.value(operand) for operand in operands if operand is not read]
        return all(_is_at(place, other) for other in others)
    return False


def _call_is_at(context: Context, place: Place, call: ast.Call, read: ast.AST) -> bool:
    inference = context.inference
    function = inference.value(call.func) if not isinstance(call.func, ast.Attribute) else v.ANYTHING
    if isinstance(call.func, ast.Attribute):
        receiver = inference.value(call.func.value)
        function = receiver if receiver.is_module else inference.value(call.func)
    others = [inference.value(argument) for argument in call.args if argument is not read]
    others += [inference.value(keyword.value) for keyword in call.keywords if keyword.value is not read]
    if function.is_module:
        where = module_place_at(context, call, function)
        return where.same(place) and all(_is_at(place, other) for other in others)
    return bool(others) and any(other.place.same(place) for other in others) and all(_is_at(place, o) for o in others)


def module_place_at(context: Context, call: ast.Call, module: Value) -> Place:
    """Where a module is when `call` calls it: its output's place says so."""
    return context.inference.module_places.get(call, module.place)


def _is_at(place: Place, value: Value) -> bool:
    if value.kind in (v.NUMBER, v.TEXT, v.NOTHING):
        return True
    return value.place.same(place)


def definitions(context: Context, name: ast.Name) -> Iterator[ast.expr]:
    """The expressions that are assigned to a name in its scope, `with ... as name` included."""
    home = context.names.homes.get(name)
    scope = home.defining(name.id) if home is not None else None
    for bound in scope.bound.get(name.id, []) if scope is not None else []:
        above = context.inference.parents.get(bound)
        if isinstance(above, ast.Assign):
            yield above.value
        elif isinstance(above, ast.withitem):
            yield above.context_expr
