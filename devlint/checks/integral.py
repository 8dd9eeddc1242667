"""Whether an expression is proven to give a tensor of integers or booleans, whatever it is given."""

from __future__ import annotations

import ast

from devlint.checks.context import Context
from devlint.checks.own_tensors import only_source
from devlint.placement import values as v
from devlint.syntax.trees import walk

_DTYPES_TEXT = "bool uint8 int8 int16 int32 int64 long int short uint16 uint32 uint64"
_DTYPES = frozenset(f"torch.{name}" for name in _DTYPES_TEXT.split())
_CASTS = frozenset({"long", "int", "bool", "short", "byte", "char"})
_ALWAYS_TEXT = """
    randperm randint triu_indices tril_indices argsort argmax argmin nonzero bincount searchsorted bucketize one_hot
    LongTensor IntTensor BoolTensor ByteTensor ShortTensor CharTensor eq ne gt lt ge le isnan isinf isfinite
    logical_not logical_and logical_or logical_xor
"""
_ALWAYS = frozenset(_ALWAYS_TEXT.split())
_KEEP_TEXT = """
    view view_as reshape triu tril unsqueeze squeeze expand expand_as repeat t transpose permute flatten contiguous
    clone flip roll repeat_interleave detach cat stack concat hstack vstack flatten unflatten movedim swapaxes
    broadcast_to cumsum diag index_select
"""
_KEEP = frozenset(_KEEP_TEXT.split())
"""Operations whose result has the dtype of what they are given, or int64 for booleans."""
_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)


def is_integral(context: Context, node: ast.expr, depth: int = 20) -> bool:
    """Whether `node`, which gives a tensor, gives one of integers or booleans."""
    if depth == 0:
        return False

    def inner(part: ast.expr) -> bool:
        return is_integral(context, part, depth - 1)

    if isinstance(node, ast.Compare):
        return all(isinstance(op, ast.Eq | ast.NotEq | ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
    if isinstance(node, ast.UnaryOp):
        return inner(node.operand)
    if isinstance(node, ast.Subscript):
        return inner(node.value)
    if isinstance(node, ast.IfExp):
        return inner(node.body) and inner(node.orelse)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return isinstance(node.op, _WHOLE) and all(_whole_number(context, side) or inner(side) for side in sides)
    if isinstance(node, ast.List | ast.Tuple):
        return bool(node.elts) and all(inner(item) for item in node.elts)
    if isinstance(node, ast.Name):
        source = only_source(context, node)
        return source is not None and inner(source)
    return isinstance(node, ast.Call) and _call(context, node, depth)


def _call(context: Context, node: ast.Call, depth: int) -> bool:
    dtypes = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
    if any(keyword.arg is None for keyword in node.keywords):
        return False
    if dtypes:
        return context.name_of(dtypes[0]) in _DTYPES
    name = context.name_of(node.func)
    last = (name or "").rsplit(".", 1)[-1]
    if name is not None and name.startswith("torch."):
        if last in _ALWAYS:
            return True
        if last in ("arange", "range"):
            return last == "arange" and bool(node.args) and all(_whole_number(context, a) for a in node.args)
        if last in ("tensor", "as_tensor"):
            return bool(node.args) and _whole_data(context, node.args[0])
        return last in _KEEP and bool(node.args) and is_integral(context, node.args[0], depth - 1)
    if name is not None or not isinstance(node.func, ast.Attribute):
        return False
    method = node.func.attr
    if method in _CASTS or method in _ALWAYS:
        return True
    if method in ("to", "type"):
        return any(context.name_of(argument) in _DTYPES for argument in node.args) or (
            bool(node.args) and is_integral(context, node.func.value, depth - 1) and _is_device(context, node.args[0])
        )
    return method in _KEEP and is_integral(context, node.func.value, depth - 1)


def _is_device(context: Context, node: ast.expr) -> bool:
    return context.value_of(node).kind in (v.DEVICE, v.TEXT)


def _whole_data(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Tuple):
        return bool(node.elts) and all(_whole_data(context, item) for item in node.elts)
    return _whole_number(context, node) or (isinstance(node, ast.Constant) and isinstance(node.value, bool))


def _whole_number(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.UnaryOp):
        return _whole_number(context, node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _WHOLE) and _whole_number(context, node.left) and _whole_number(context, node.right)
    if isinstance(node, ast.Call):
        return context.name_of(node.func) in ("builtins.len", "builtins.int") or (
            isinstance(node.func, ast.Attribute) and node.func.attr in ("numel", "dim")
        )
    if isinstance(node, ast.Name):
        return _is_int_argument(context, node)
    return False


def _is_int_argument(context: Context, name: ast.Name) -> bool:
    """Whether a name is an argument that is annotated as an int and not set anew."""
    owner = context.inference.owner(name)
    arguments = getattr(owner, "args", None)
    found = [a for a in walk(arguments) if isinstance(a, ast.arg) and a.arg == name.id] if arguments else []
    annotation = found[0].annotation if len(found) == 1 else None
    return (
        isinstance(annotation, ast.Name)
        and annotation.id == "int"
        and not any(
            isinstance(n, ast.Name) and n.id == name.id and not isinstance(n.ctx, ast.Load) for n in walk(owner)
        )
    )
