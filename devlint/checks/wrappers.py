"""What the wrappers of data parallelism are given: `DataParallel` and `DistributedDataParallel`."""

from __future__ import annotations

import ast

from devlint.checks.context import Context
from devlint.checks.processes import argument
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.placement.values import Place, Value
from devlint.syntax.trees import is_none, walk

DATA_PARALLEL = "torch.nn.DataParallel"
DISTRIBUTED = "torch.nn.parallel.DistributedDataParallel"
WRAPPERS = frozenset({DATA_PARALLEL, DISTRIBUTED})
MOVERS = frozenset({"to", "cuda", "cpu", "to_empty"})


def first_device(context: Context, call: ast.Call) -> Place | None:
    """The GPU that `DataParallel` keeps the model on, `device_ids[0]`; None where that is not known."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(keyword.arg is None for keyword in call.keywords):
        return None
    ids = argument(call, "device_ids", 1)
    if ids is None or is_none(ids):
        return Place("cuda", 0)
    inner = (
        ids.args[0] if isinstance(ids, ast.Call) and ids.args and context.name_of(ids.func) == "builtins.list" else ids
    )
    if isinstance(inner, ast.Call) and context.name_of(inner.func) == "builtins.range":
        start = context.value_of(inner.args[0]).const if len(inner.args) > 1 else 0
        return Place("cuda", start) if isinstance(start, int) else None
    items = context.value_of(ids).items
    return _device(items[0]) if items else None


def _device(value: Value) -> Place | None:
    """The GPU that an id names: a number, a string, a device."""
    if isinstance(value.const, int) and not isinstance(value.const, bool):
        return Place("cuda", value.const)
    place = v.named_place(value.const) if isinstance(value.const, str) else value.place
    return place if place is not None and place.device == "cuda" and place.index is not None else None


def accelerators(context: Context, place: Place) -> list[Place]:
    """The devices that a place can be where there are GPUs: those that a choice writes out, the CPU left out; else
    itself."""
    if not (isinstance(place.key, tuple) and place.key[0] == "choice" and isinstance(place.key[1], ast.AST)):
        return [place]
    possible = context.value_of(place.key[1]).possibilities()
    named = [v.named_place(one.const) if isinstance(one.const, str) else one.place for one in possible]
    return [one for one in named if one is not None and not one.is_cpu]


def wrapping(context: Context, value: Value) -> list[ast.Call]:
    """The calls that wrap a model, among those that a value can stem from."""
    return [one for one in value.ids if isinstance(one, ast.Call) and context.name_of(one.func) in WRAPPERS]


def may_be_bare(context: Context, value: Value) -> bool:
    """Whether a value can be a model that is not wrapped and is proven to have no attribute `module`."""
    for one in value.ids:
        if not isinstance(one, ast.Call) or context.name_of(one.func) in WRAPPERS:
            continue
        made = context.value_of(one)
        if isinstance(made.node, ast.ClassDef) and made.is_module:
            classes = context.inference.classes
            if classes.complete(made.node) and not _sets_module(made.node):
                return True
        elif made.is_module and made.type.startswith("torch.nn.") and made.type not in WRAPPERS:
            return True
    return False


def _sets_module(class_: ast.ClassDef) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "module" and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.FunctionDef) and node.name in ("module", "__getattr__"))
        or (isinstance(node, ast.Constant) and node.value == "module")
        for node in walk(class_)
    )


def may_be_moved(context: Context, model: str, at: ast.AST) -> bool:
    """Whether a model that an object keeps (`self.net`) may be moved by a method of that object: one that the function
    of `at` calls, or one of the file that moves what goes by this name."""
    root, dot, _ = model.partition(".")
    if not dot:
        return False
    owner = context.inference.owner(at)
    for name, calls in context.seen.calls.items():
        for call in calls:
            path = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
            calls_own = path == root and f"{root}.{name}" != model and context.inference.owner(call) is owner
            if calls_own or (path == model and name in MOVERS):
                return True
    return False
