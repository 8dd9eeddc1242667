"""How a fix can name the device of a value, at a given place in a function."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.mismatch import same_place
from devlint.placement.values import Place
from devlint.syntax.trees import walk


@dataclass(frozen=True, slots=True)
class Named:
    """An expression for a device; `certain` if it needs no reading of the code beyond what is proven."""

    text: str
    certain: bool


def device_expression(context: Context, place: Place, at: ast.AST) -> Named | None:
    """An expression for the device `place` that can stand at the node `at`; None where there is none.

    The tensor arguments of the function come first, then its local tensors, then the variable that holds the device.
    """
    owner = context.inference.owner(at)
    run = context.inference.run(owner)
    met = places_met(context, owner)
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        optional = _optional(owner)
        for argument in [*owner.args.posonlyargs, *owner.args.args, *owner.args.kwonlyargs]:
            here = Place(key=("at", argument))
            proven = _kind_of(context, owner, argument) == v.TENSOR
            if (
                proven
                and argument not in optional
                and same_place(met, here, place)
                and not _rebound(owner, argument.arg)
            ):
                return Named(f"{argument.arg}.device", True)
    for node, value in run.values.items():
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and value.is_tensor
            and same_place(met, value.place, place)
            and _holds_at(context, owner, node, at)
        ):
            return Named(f"{node.id}.device", True)
    if place.text and _readable(context, place.text, at):
        return Named(place.text, False)
    if place.device and place.device != "cpu":
        index = "" if place.index is None else f":{place.index}"
        return Named(f'"{place.device}{index}"', False)
    return None


def places_met(context: Context, owner: ast.AST) -> list[tuple[Place, Place]]:
    """Places that operations of the function brought together, those of the CPU apart."""
    found = []
    for meeting in context.inference.run(owner).meetings.values():
        places = [value.place for _, value in meeting.operands if value.place.key is not None]
        found += [(places[0], other) for other in places[1:]]
    return found


def _kind_of(context: Context, owner: ast.AST, argument: ast.arg) -> str:
    run = context.inference.run(owner)
    for node, value in run.values.items():
        if isinstance(node, ast.Name) and node.id == argument.arg and argument in value.ids:
            return value.kind
    return v.UNKNOWN


def _optional(owner: ast.FunctionDef | ast.AsyncFunctionDef) -> set[ast.arg]:
    """The arguments that may be None: by default, or by annotation."""
    arguments = owner.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = set(positional[len(positional) - len(arguments.defaults) :])
    found |= {a for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None}
    for argument in [*positional, *arguments.kwonlyargs]:
        if argument.annotation is not None and any(
            (isinstance(part, ast.Constant) and part.value is None) or getattr(part, "id", "") in ("Optional", "Union")
            for part in walk(argument.annotation)
        ):
            found.add(argument)
    return found


def _rebound(owner: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load) for part in walk(owner)
    )


def _holds_at(context: Context, owner: ast.AST, stored: ast.Name, at: ast.AST) -> bool:
    """Whether a local bound at `stored`, and nowhere else, is bound whenever `at` runs."""
    stores = [
        part
        for part in walk(owner)
        if isinstance(part, ast.Name) and part.id == stored.id and not isinstance(part.ctx, ast.Load)
    ]
    arguments = getattr(owner, "args", None)
    if len(stores) != 1 or (arguments and any(a.arg == stored.id for a in walk(arguments) if isinstance(a, ast.arg))):
        return False
    statement: ast.AST = stored
    for above in context.inference.ancestors(stored):
        if isinstance(above, ast.stmt):
            statement = above
            break
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return False
    block = context.inference.parents.get(statement)
    end = (statement.end_lineno or 0, statement.end_col_offset or 0)
    before = end <= (getattr(at, "lineno", 0), getattr(at, "col_offset", 0))
    return (
        before
        and block is not None
        and any(above is block for above in context.inference.ancestors(at))
        and (_same_arm(context, block, statement, at))
    )


def _same_arm(context: Context, block: ast.AST, statement: ast.AST, at: ast.AST) -> bool:
    """Whether both stand in one and the same list of statements of a block."""
    chain = [at, *context.inference.ancestors(at)]
    child = chain[next(i for i, node in enumerate(chain) if node is block) - 1]
    for _, field in ast.iter_fields(block):
        if isinstance(field, list) and any(part is statement for part in field):
            return any(part is child for part in field)
    return False


def _readable(context: Context, text: str, at: ast.AST) -> bool:
    """Whether the name that holds a device is a parameter, or bound before `at` in a block around it."""
    root = text.split(".")[0]
    owner = context.inference.owner(at)
    arguments = getattr(owner, "args", None)
    if arguments is not None and any(a.arg == root for a in walk(arguments) if isinstance(a, ast.arg)):
        return True
    scope = context.names.scope_of.get(owner)
    if scope is None:
        return False
    home = scope.defining(root)
    if home is None:
        return False
    if home is not scope:
        return True
    return any(isinstance(node, ast.Name) and _holds_at(context, owner, node, at) for node in home.bound.get(root, []))
