"""Calls that read tensors from a file, and where they are told to put them.

A call loads if the fact tables say that its result lives where it was saved unless `map_location` says otherwise
(`torch.load`, `torch.jit.load`, `load_state_dict_from_url`, Lightning's `load_from_checkpoint`), or if it calls a
function of the same file that hands its own `map_location` parameter, or its `**` parameter, on to such a call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from devlint.checks.context import Context
from devlint.checks.spread import keyword_in_spread
from devlint.checks.uses import definitions
from devlint.placement import values as v
from devlint.syntax.trees import last_name, walk

NAMES = frozenset(
    ("load", "load_state_dict_from_url", "load_url", "load_from_checkpoint", "load_checkpoint", "_load_checkpoint")
)
"""The last parts of the names of what loads: a file without any of them has no load."""

_PARAMETER = "map_location"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEEP = 3
"""Helpers of helpers are followed so far."""


@dataclass(frozen=True, slots=True)
class Load:
    """One call that loads. `given` is what stands for `map_location`, None where nothing does.

    `keyword` is the name under which a fix adds it; `way` the calls from this one through the file's helpers down to
    the library's, where the tensors come from; `fills` the module that the library copies them into, if it does.
    """

    call: ast.Call
    name: str
    source: ast.expr | None
    given: ast.expr | None
    keyword: str = _PARAMETER
    way: tuple[ast.Call, ...] = ()
    fills: ast.expr | None = None

    @property
    def is_lightning(self) -> bool:
        return self.name.endswith(".load_from_checkpoint")

    @property
    def is_script(self) -> bool:
        return self.name == "torch.jit.load"

    @property
    def short(self) -> str:
        """The name as people write it."""
        return self.name.rsplit(".", 1)[-1] if not self.name.startswith("torch.") else self.name


def load_of(context: Context, call: ast.Call, depth: int = 0) -> Load | None:
    """What `call` loads; None where it is no load, or where what it is told about devices cannot be seen."""
    name = _name(context, call)
    if name is not None:
        row = _row(context, name)
        return _library_load(context, call, name, row) if row is not None else None
    return _helper_load(context, call, depth) if depth < _DEEP else None


def _row(context: Context, name: str) -> Mapping[str, Any] | None:
    """The facts of a function that loads, None for another."""
    row = context.inference.facts.call(name)
    loads = row is not None and row.get("device_param") == _PARAMETER and row.get("place") == "saved"
    return row if loads else None


def _name(context: Context, call: ast.Call) -> str | None:
    """The name of the library's function that is called; for `load_from_checkpoint` also of a class of the file.

    A name that is imported from two places, as in the branches of a `try`, is that of a load if both are.
    """
    function = call.func
    name = context.name_of(function)
    several = {context.inference.facts.canonical(found) for found in context.names.qualified(function)}
    if name is None and several and all(_row(context, found) is not None for found in several):
        return min(several)
    if name is not None or not isinstance(function, ast.Attribute) or function.attr != "load_from_checkpoint":
        return name
    receiver = context.value_of(function.value)
    if receiver.kind == v.CLASS and isinstance(receiver.node, ast.ClassDef):
        for base in context.inference.classes.lineage(receiver.node):
            row = context.inference.facts.cls(base) if isinstance(base, str) else None
            if row is not None and "lightning" in str(base):
                return f"{base}.load_from_checkpoint"
    return None


def _library_load(context: Context, call: ast.Call, name: str, row: Mapping[str, Any]) -> Load | None:
    position = row.get("device_position")
    filled = row.get("fills_position")
    first = 0 if filled is None else 1
    known, given = keyword_in_spread(context, call, _PARAMETER)
    bound = _partial(context, call)
    arguments = _all_arguments(call, bound)
    if not known or arguments is None:
        return None
    if given is None:
        given = _argument(call, arguments, _PARAMETER, position if isinstance(position, int) else None)
    if given is None and bound is not None:
        given = _argument(bound, (), _PARAMETER, None)
    source = _argument(call, arguments, "", first)
    if source is None:
        source = next((keyword.value for keyword in call.keywords if keyword.arg in _SOURCES), None)
    fills = None if filled is None else _argument(call, arguments, "model", filled)
    return Load(call, name, source, given, way=(call,), fills=fills)


_SOURCES = ("f", "url", "checkpoint_path", "filename")


def _all_arguments(call: ast.Call, bound: ast.Call | None) -> list[ast.expr] | None:
    """The positional arguments of a call, those that `partial` bound first; None where not all are seen."""
    arguments = [*(bound.args[1:] if bound is not None else ()), *call.args]
    hidden = any(isinstance(argument, ast.Starred) for argument in arguments)
    hidden |= bound is not None and any(keyword.arg is None for keyword in bound.keywords)
    return None if hidden else arguments


def _partial(context: Context, call: ast.Call) -> ast.Call | None:
    """The `functools.partial(...)` that made what is called."""
    found = list(definitions(context, call.func)) if isinstance(call.func, ast.Name) else []
    node: object = found[0] if len(found) == 1 else context.value_of(call.func).node
    if not isinstance(node, ast.Call) or context.name_of(node.func) != "functools.partial":
        return None
    return node if node.args else None


def _argument(call: ast.Call, arguments: Sequence[ast.expr], name: str, position: int | None) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return arguments[position] if position is not None and position < len(arguments) else None


def _helper_load(context: Context, call: ast.Call, depth: int) -> Load | None:
    """A call of a function of the file that leaves the device to its caller, and whose caller says nothing."""
    bound = _partial(context, call)
    function = context.value_of(call.func if bound is None else bound.args[0]).node
    if not isinstance(function, _FUNCTIONS) or not _binding(function) <= {"staticmethod", "classmethod"}:
        return None
    known, spread = keyword_in_spread(context, call, _PARAMETER)
    arguments = _all_arguments(call, bound)
    if not known or arguments is None:
        return None
    for inner in walk(function):
        if not isinstance(inner, ast.Call) or context.inference.owner(inner) is not function:
            continue
        found = _opens(context, function, inner, depth)
        if found is None:
            continue
        name, parameter, way = found
        position = _position(context, call, function, parameter) if parameter else None
        given = _argument(call, arguments, parameter or _PARAMETER, position)
        given = spread if given is None and parameter in (None, _PARAMETER) else given
        if given is None and bound is not None:
            given = _argument(bound, (), parameter or _PARAMETER, None)
        if given is None and parameter is not None and not _defaults_to_none(function, parameter):
            return None
        return Load(call, name, _argument(call, arguments, "", 0), given, parameter or _PARAMETER, (call, *way))
    return None


def _opens(
    context: Context, function: ast.FunctionDef | ast.AsyncFunctionDef, inner: ast.Call, depth: int
) -> tuple[str, str | None, tuple[ast.Call, ...]] | None:
    """What a helper's inner call is, with the helper's parameter that decides the device (None: its `**`)."""
    arguments = function.args
    stars = [keyword.value for keyword in inner.keywords if keyword.arg is None]
    only = stars[0] if len(stars) == 1 else None
    if arguments.kwarg is not None and isinstance(only, ast.Name) and only.id == arguments.kwarg.arg:
        name = _name(context, inner)
        if name is None or _row(context, name) is None:
            return None
        given = _argument(inner, (), _PARAMETER, None)
        if given is not None:
            parameter = _parameter(function, given)
            return (name, parameter, (inner,)) if parameter is not None else None
        return None if _touched(function, only) else (name, None, (inner,))
    load = load_of(context, inner, depth + 1)
    parameter = _parameter(function, load.given) if load is not None else None
    return (load.name, parameter, load.way) if load is not None and parameter is not None else None


def _parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.expr | None) -> str | None:
    """The parameter that an expression is, as it was handed over; None for anything else."""
    arguments = function.args
    parameters = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    if not isinstance(node, ast.Name) or node.id not in parameters:
        return None
    stored = (part for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    return None if any(part.id == node.id for part in stored) else node.id


def _touched(function: ast.AST, star: ast.expr | None) -> bool:
    """Whether the `**` dictionary is used for anything but handing it on: it may be filled."""
    assert isinstance(star, ast.Name)
    return sum(isinstance(node, ast.Name) and node.id == star.id for node in walk(function)) != 1


def _binding(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The decorators of a function, by their last names; "?" for one without."""
    return {last_name(decorator) or "?" for decorator in function.decorator_list}


def _position(
    context: Context, call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str
) -> int | None:
    positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(context.inference.parents.get(function), ast.ClassDef) and "staticmethod" not in _binding(function):
        positional = positional[1:]
    return positional.index(parameter) if parameter in positional else None


def _defaults_to_none(function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str) -> bool:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return any(a.arg == parameter and isinstance(d, ast.Constant) and d.value is None for a, d in pairs)


def is_nowhere(load: Load) -> bool:
    """Whether a load is told no place: no `map_location`, or a literal None."""
    return load.given is None or (isinstance(load.given, ast.Constant) and load.given.value is None)


def calls_of(context: Context) -> Iterator[Load]:
    """The loads of a file, those of a helper's callers included."""
    carriers = _carriers(context.tree)
    for node in walk(context.tree):
        if isinstance(node, ast.Call) and last_name(node.func) in carriers:
            load = load_of(context, node)
            if load is not None:
                yield load


def _carriers(tree: ast.Module) -> set[str]:
    """The names by which a load may be called: its own, what is bound to something that names one, and the functions
    that do. Asking the inference of every other call would cost more than all the rest."""
    found = set(NAMES)
    functions: list[tuple[str, set[str]]] = []
    partials: list[tuple[str, set[str]]] = []
    for node in walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(a.asname for a in node.names if a.asname and a.name.rsplit(".", 1)[-1] in NAMES)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not NAMES.isdisjoint(_names_in(node.value)):
                found.update(name for target in targets for name in _names_in(target))
            elif isinstance(node.value, ast.Call) and last_name(node.value.func) == "partial":
                partials += [(name, _names_in(node.value)) for target in targets for name in _names_in(target)]
        elif isinstance(node, _FUNCTIONS):
            functions.append((node.name, _names_in(node)))
    for _ in range(_DEEP):
        found.update([name for name, within in [*functions, *partials] if not found.isdisjoint(within)])
    return found


def _names_in(node: ast.AST) -> set[str]:
    return {last_name(part) for part in walk(node) if isinstance(part, ast.Name | ast.Attribute)}
