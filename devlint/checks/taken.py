"""What a module takes from the host: tensors that its `forward` moves itself, or wants on the CPU, as lengths are."""

from __future__ import annotations

import ast
import re

from devlint.checks.context import Context
from devlint.syntax.trees import walk

_MOVES = frozenset({"to", "cuda", "xpu", "type_as"})
_ASKED = frozenset({"tolist", "item", "size", "shape", "dim", "ndim", "numel", "dtype", "device", "cpu", "numpy"})
_REDUCED = frozenset({"max", "min", "sum", "mean", "all", "any"})
"""These give a number: as a tensor without dimensions, which may meet any device."""
_HOST_CALLS = frozenset({"len", "int", "float", "list", "range", "max", "min", "print", "isinstance", "zip"})
_PACKING = "pack_padded_sequence"
_LENGTHS = re.compile(r"(^|_)(len|lens|length|lengths)(_|\d|$)|lengths?$|lens$")
_DEPTH = 4


def is_taken_from_host(context: Context, call: ast.AST, argument: ast.expr) -> bool:
    """Whether a module that is called with this argument may have it on the host.

    Where the file holds the module's `forward`, the reads of the parameter decide. Elsewhere the name does: lengths are
    wanted on the CPU by `pack_padded_sequence`, and what is called so is mostly meant for it.
    """
    return isinstance(call, ast.Call) and _is_taken(context, call, argument, _DEPTH)


def _is_taken(context: Context, call: ast.Call, argument: ast.expr, depth: int) -> bool:
    function = _function(context, call.func)
    parameter = _parameter(function, call, argument) if function is not None else None
    if function is None or parameter is None or depth == 0:
        return _is_named_as_lengths(call, argument)
    reads = [
        node
        for node in walk(function)
        if isinstance(node, ast.Name) and node.id == parameter and isinstance(node.ctx, ast.Load)
    ]
    uses = [_use(context, read, depth) for read in reads]
    return "moved" in uses or "met" not in uses


def _function(context: Context, called: ast.expr) -> ast.FunctionDef | None:
    """The function of this file that a call runs: the `forward` of a module, a method of `self`."""
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self":
        holder = next((above for above in context.inference.ancestors(called) if isinstance(above, ast.ClassDef)), None)
        found = _method(context, holder, called.attr)
        if found is not None:
            return found
    return _method(context, context.inference.value(called).node, "forward")


def _method(context: Context, holder: object, name: str) -> ast.FunctionDef | None:
    found = context.inference.classes.method(holder, name) if isinstance(holder, ast.ClassDef) else None
    return found if isinstance(found, ast.FunctionDef) else None


def _parameter(function: ast.FunctionDef, call: ast.Call, argument: ast.expr) -> str | None:
    """The name under which a method gets an argument; None where that is not certain."""
    names = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]][1:]
    for position, given in enumerate(call.args):
        if isinstance(given, ast.Starred):
            return None
        if given is argument:
            return names[position] if position < len(names) else None
    return next((keyword.arg for keyword in call.keywords if keyword.value is argument), None)


def _use(context: Context, read: ast.Name, depth: int) -> str:
    """What one read does: it is "moved", it is used on the "host", or it is "met" by others where they are."""
    parents = context.inference.parents
    above = parents.get(read)
    if isinstance(above, ast.Attribute):
        if above.attr in _MOVES:
            return "moved"
        return "host" if above.attr in _ASKED | _REDUCED else "met"
    if isinstance(above, ast.Subscript) and above.slice is read:
        return "host"
    if isinstance(above, ast.Compare):
        return "host" if all(isinstance(operator, ast.Is | ast.IsNot) for operator in above.ops) else "met"
    if isinstance(above, ast.If | ast.IfExp | ast.While) and above.test is read:
        return "host"
    call = parents.get(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call):
        return "met"
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if isinstance(call.func, ast.Name) and called in _HOST_CALLS:
        return "host"
    if called == _PACKING:
        return "met" if call.args and call.args[0] is read else "host"
    return "host" if _is_taken(context, call, read, depth - 1) else "met"


def _is_named_as_lengths(call: ast.Call, argument: ast.expr) -> bool:
    names = [keyword.arg or "" for keyword in call.keywords if keyword.value is argument]
    if isinstance(argument, ast.Name | ast.Attribute):
        names.append(argument.id if isinstance(argument, ast.Name) else argument.attr)
    return any(_LENGTHS.search(name.lower()) for name in names)
