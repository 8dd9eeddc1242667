"""Which functions are worth following: those in which values can come apart, judged by what is written there.

Most functions make nothing and move all alike; following them would take longer than all the rest of a check.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.api import facts
from devlint.placement.calls import Row
from devlint.placement.effects import TRANSFERS
from devlint.syntax.trees import last_name, walk


@cache
def factories() -> frozenset[str]:
    """The last names of all that makes a tensor without being given one, as far as the facts that ship know."""
    # `range` is nearly always Python's own, and torch's is deprecated.
    return _makers(facts().calls) - {"range"}


def _makers(calls: Mapping[str, Row]) -> frozenset[str]:
    return frozenset(
        name.rsplit(".", 1)[-1]
        for name, row in calls.items()
        if row.get("returns") == v.TENSOR and (row.get("place") in ("factory", "host") or row.get("data"))
    )


def factory_calls(context: Context) -> list[ast.Call]:
    """The calls of the file that may make a tensor without being given one, wherever they put it."""
    known, calls = context.inference.facts.calls, context.seen.calls
    makers = factories() if known is facts().calls else _makers(known)  # a user has said of more
    makers |= _renamed(context, makers)
    return [call for name in makers & calls.keys() for call in calls[name] if not _is_numpys(context, call)]


def _made_calls(context: Context) -> list[ast.Call]:
    """The calls of the file that put something on the CPU, or may do so."""
    inference, calls = context.inference, context.seen.calls
    made = [call for call in factory_calls(context) if not _says_where(call)]
    every = (call for found in calls.values() for call in found)
    made += [call for call in every if any(keyword.arg == "return_tensors" for keyword in call.keywords)]
    # `x.cpu().numpy()` leaves nothing on the CPU that could meet a tensor.
    made += [call for call in calls.get("cpu", ()) if not isinstance(inference.parents.get(call), ast.Attribute)]
    return [call for call in made if not _is_gone_at_once(context, call)]


_READ_OUT = frozenset({"item", "tolist", "numpy"})
"""Methods of a tensor that give something without a device."""


def _is_gone_at_once(context: Context, call: ast.Call) -> bool:
    """Whether what a call makes meets nothing here: it is returned, read out, or moved to a device in a variable, at
    once or after methods that are told numbers only."""
    parents = context.inference.parents
    while True:
        above = parents[call]
        if isinstance(above, ast.Return):
            return True
        further = parents.get(above)
        if not (isinstance(above, ast.Attribute) and isinstance(further, ast.Call) and further.func is above):
            return False
        if above.attr in _READ_OUT:
            return True
        told = [*further.args, *(keyword.value for keyword in further.keywords)]
        if above.attr in TRANSFERS and above.attr != "cpu":
            return not any(_names_no_device(context, one) for one in told)
        if not all(isinstance(one, ast.Constant | ast.UnaryOp) for one in told):
            return False
        call = further


def _names_no_device(context: Context, argument: ast.expr) -> bool:
    """Whether an argument of `.to()` is a dtype, or a device that is written out."""
    name = context.names.name_of(argument)
    dtype = name is not None and context.inference.facts.constant(name) == "dtype"
    return dtype or isinstance(argument, ast.Constant) or last_name(argument) == "dtype"


def worth_following(context: Context) -> list[ast.AST]:
    """The functions of a file in which values can come apart, in its order.

    Something is put on the CPU there, or a part of what a loop gives is moved, or a module that is made there could be
    left behind, or a device is written out.
    """
    inference, calls = context.inference, context.seen.calls
    makers = {inference.owner(call) for call in _made_calls(context)}
    owners = {owner for owner in makers if not _builds_module(context, owner)}
    moved: dict[ast.AST, list[ast.Call]] = {}
    for call in (call for name in TRANSFERS & calls.keys() for call in calls[name] if not _is_cast(context, call)):
        moved.setdefault(inference.owner(call), []).append(call)
    for owner, moves in moved.items():
        if owner not in owners and (
            any(isinstance(argument, ast.Constant) for call in moves for argument in call.args)
            or _leaves_behind(context, owner, moves)
        ):
            owners.add(owner)
    return sorted(owners, key=lambda node: getattr(node, "lineno", 0))


def _builds_module(context: Context, owner: ast.AST) -> bool:
    """Whether a function is the constructor of a module and speaks of no device: all is on the CPU there, and meets no
    input."""
    inference = context.inference
    class_ = inference.parents.get(owner)
    if not (isinstance(owner, ast.FunctionDef) and owner.name == "__init__" and isinstance(class_, ast.ClassDef)):
        return False
    return inference.classes.kind(class_) in v.MODULE_KINDS and not any(
        isinstance(node, ast.Call)
        and (last_name(node.func) in TRANSFERS or any(keyword.arg == "device" for keyword in node.keywords))
        and inference.owner(node) is owner
        for node in walk(owner)
    )


def _leaves_behind(context: Context, owner: ast.AST, moves: list[ast.Call]) -> bool:
    """Whether some of what is taken apart here is moved and some is not, or something is made that may not be: a module
    by its class, or what a moved model is given by a function of the project."""
    moved = {_root(call.func) for call in moves}
    parts: set[str] = set()
    called: set[str] = set()
    makes = False
    for node in walk(owner):
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store):
            parts.update(map(last_name, node.elts))
        elif isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Name) and node.value.id in parts:
                parts.update(map(last_name, node.targets))
            elif isinstance(node.value, ast.Call) and not TRANSFERS.isdisjoint(_methods(node.value)):
                moved.update(map(last_name, node.targets))
        elif isinstance(node, ast.Call):
            if _makes_module(context, node):
                return True
            if isinstance(node.func, ast.Name):
                called.add(node.func.id)
                makes = makes or _is_projects(context, node.func)
    return any(_root(call.func) in parts for call in moves) or (makes and not moved.isdisjoint(called))


def _methods(node: ast.AST) -> Iterator[str]:
    """The methods in a chain of calls: `to` and `eval` of `make().to(device).eval()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield node.func.attr
        node = node.func.value


def _root(node: ast.AST) -> str:
    """The name at the root of `x.float().to`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return last_name(node)


def _makes_module(context: Context, call: ast.Call) -> bool:
    """Whether a call makes an instance of what is known to be a class of modules."""
    if not last_name(call.func)[:1].isupper():
        return False
    name = context.names.name_of(call.func)
    if name is not None:
        return (context.inference.facts.call(name) or {}).get("returns") in v.MODULE_KINDS
    made = context.inference.classes.of_file(call.func)
    return made is not None and context.inference.classes.kind(made) in v.MODULE_KINDS


def _is_projects(context: Context, function: ast.Name) -> bool:
    """Whether a function is one that the project defines, and which gives something."""
    home = context.names.homes[function].defining(function.id)
    bound = home.bound.get(function.id, []) if home is not None else []
    if len(bound) == 1 and isinstance(bound[0], ast.FunctionDef):
        return context.names.scope_of[bound[0]].returns
    name = context.names.name_of(function)
    beyond = context.inference.facts.beyond
    return name is not None and beyond is not None and beyond.is_function(name)


def _is_cast(context: Context, call: ast.Call) -> bool:
    """Whether a transfer changes the dtype alone: `x.to(torch.float32)`."""
    return (
        len(call.args) == 1
        and not call.keywords
        and not isinstance(call.args[0], ast.Constant)
        and _names_no_device(context, call.args[0])
    )


def _renamed(context: Context, names: frozenset[str]) -> frozenset[str]:
    """The names that the file's imports give to functions of these names: `from torch import zeros as noughts`."""
    return frozenset(
        alias
        for scope in context.names.scope_of.values()
        for alias, found in scope.imports.items()
        if any(name.rpartition(".")[2] in names for name in found)
    )


def _is_numpys(context: Context, call: ast.Call) -> bool:
    """`np.zeros(3)`, which makes an array."""
    return isinstance(call.func, ast.Attribute) and context.names.qualified(call.func.value) == {"numpy"}


def _says_where(call: ast.Call) -> bool:
    """Whether a call takes its device from a variable; a device that is written out may not be that of the others."""
    return any(keyword.arg == "device" and not isinstance(keyword.value, ast.Constant) for keyword in call.keywords)
