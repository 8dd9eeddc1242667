"""Whether a tensor made from data may have no dimensions: then it may meet tensors on any device."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from devlint.checks.context import Context
from devlint.checks.uses import definitions
from devlint.placement import values as v
from devlint.placement.values import Value
from devlint.syntax.trees import walk

_FROM_DATA = frozenset({"tensor", "as_tensor", "scalar_tensor", "asarray"})
_OF_SIZES = frozenset({"rand", "randn", "zeros", "ones", "empty"})
_SHAPES = frozenset(
    {
        "view",
        "reshape",
        "unsqueeze",
        "expand",
        "repeat",
        "flatten",
        "ravel",
        "t",
        "transpose",
        "permute",
        "tile",
        "size",
    }
)
"""Methods that give dimensions, or that only a tensor with some has a use for."""
_SHAPED = frozenset({"shape", "T", "mT"})
_ARRAYS_TEXT = "array asarray arange linspace zeros ones eye full load concatenate stack loadtxt meshgrid outer tile"
_ARRAYS = frozenset(f"numpy.{name}" for name in _ARRAYS_TEXT.split())
_MANY = frozenset({"List", "list", "Tuple", "tuple", "Sequence", "Iterable", "ndarray", "ArrayLike", "Collection"})


def may_be_scalar(context: Context, value: Value, made_by: ast.expr, reads: Iterable[ast.expr]) -> bool:
    """Whether the tensor that `made_by` gives, and that `reads` read, may have no dimensions: `torch.tensor(scale)`."""
    call = value.origin.node if value.origin is not None else None
    if not isinstance(call, ast.Call):
        return False
    name = context.name_of(call.func) or ""
    if not name.startswith("torch."):
        return False
    reads = list(reads)
    if name.rsplit(".", 1)[-1] in _OF_SIZES and _is_one(call):
        return any(_is_squeezed(context, read) for read in reads)
    if name.rsplit(".", 1)[-1] not in _FROM_DATA:
        return False
    data = next(iter([*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "data")]), None)
    if data is None or _has_several(context, data):
        return False
    return not _is_shaped(made_by) and not any(_is_shaped_at(context, read) for read in reads)


def _is_one(call: ast.Call) -> bool:
    """Whether a factory is told sizes that are all 1: `torch.rand(1)`, `torch.zeros((1, 1))`."""
    sizes = [item for size in call.args for item in (size.elts if isinstance(size, ast.Tuple | ast.List) else [size])]
    return bool(sizes) and all(isinstance(size, ast.Constant) and size.value == 1 for size in sizes)


def _is_squeezed(context: Context, read: ast.expr) -> bool:
    """Whether all dimensions of size 1 are taken away from what is read, there or where its name is bound."""
    sources = [read, *(definitions(context, read) if isinstance(read, ast.Name) else ())]
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr == "squeeze"
        and not part.args
        for source in sources
        for part in walk(source)
    )


def _is_shaped(node: ast.expr) -> bool:
    """Whether the chain of calls at the end of an expression gives a tensor dimensions."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute):
            if node.attr in _SHAPES or node.attr in _SHAPED:
                return True
            node = node.value
        else:
            return True
    return False


def _is_shaped_at(context: Context, read: ast.expr) -> bool:
    """Whether a read takes a part of the tensor, or asks for a shape."""
    above = context.inference.parents.get(read)
    if isinstance(above, ast.Subscript):
        return above.value is read
    return isinstance(above, ast.Attribute) and (above.attr in _SHAPES or above.attr in _SHAPED)


def _has_several(context: Context, data: ast.expr) -> bool:
    """Whether data is a sequence or an array with dimensions."""
    value = context.inference.value(data)
    if isinstance(data, ast.List | ast.Tuple | ast.ListComp) or value.kind == v.SEQUENCE:
        return True
    if isinstance(data, ast.Call):
        return context.name_of(data.func) in (*_ARRAYS, "builtins.list", "builtins.sorted", "builtins.range")
    if isinstance(data, ast.Subscript):
        return isinstance(data.slice, ast.Slice)
    return isinstance(data, ast.Name) and _used_as_several(context, data)


def _used_as_several(context: Context, name: ast.Name) -> bool:
    """Whether the function treats a name as a sequence: by its annotation or default, `len(x)`, `x[0]`, a loop."""
    owner = context.inference.owner(name)
    arguments = getattr(owner, "args", None)
    if isinstance(arguments, ast.arguments):
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip([a.arg for a in reversed(positional)], reversed(arguments.defaults), strict=False))
        defaults |= {
            a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
        }
        if isinstance(defaults.get(name.id), ast.List | ast.Tuple):
            return True
        for argument in [*positional, *arguments.kwonlyargs]:
            if argument.arg == name.id and argument.annotation is not None:
                words = {getattr(n, "id", getattr(n, "attr", "")) for n in walk(argument.annotation)}
                return bool(words & _MANY) and not words & {"float", "int"} - _inside(argument.annotation)
    for node in walk(owner):
        if not (isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load)):
            continue
        above = context.inference.parents.get(node)
        if isinstance(above, ast.Call) and context.name_of(above.func) == "builtins.len":
            return True
        if isinstance(above, ast.Subscript) and above.value is node:
            return True
        if isinstance(above, ast.For | ast.comprehension) and above.iter is node:
            return True
    return False


def _inside(annotation: ast.expr) -> set[str]:
    """The names in the brackets of an annotation: the elements of `List[float]`, not the other side of a union."""
    if isinstance(annotation, ast.Subscript):
        outer = getattr(annotation.value, "id", getattr(annotation.value, "attr", ""))
        if outer == "Union":
            return set()
        if outer == "Optional":
            return _inside(annotation.slice)
        return {getattr(n, "id", getattr(n, "attr", "")) for n in walk(annotation.slice)}
    return set()
