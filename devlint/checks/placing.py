"""How a fix can name the device of a value, at a given place in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from devlint.checks.context import Context
from devlint.checks.guards import expects_error
from devlint.placement import values as v
from devlint.placement.mismatch import same_place
from devlint.placement.state import State
from devlint.placement.values import Place
from devlint.syntax.trees import walk

_TRIED = 16
"""Names that are tried for one device."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.ExceptHandler, ast.match_case)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PARTIAL = (ast.IfExp, ast.BoolOp, *_SCOPES)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class Named:
    """An expression for a device; `certain` if it needs no reading of the code beyond what is proven."""

    text: str
    certain: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What one function offers for naming devices."""

    arguments: list[tuple[ast.arg, list[Place]]] = field(default_factory=list)
    """Arguments that are proven tensors, never None, and the places of all that their names are bound to."""
    locals: list[tuple[ast.Name, Place]] = field(default_factory=list)
    """Locals that are tensors, where they are bound."""
    devices: list[tuple[ast.Name, Place]] = field(default_factory=list)
    """Locals that hold devices of a known name, where they are bound."""
    met: list[tuple[Place, Place, ast.AST]] = field(default_factory=list)
    """Places that an operation brought together, those of the CPU apart."""


def device_expression(context: Context, place: Place, at: ast.AST) -> Named | None:
    """An expression for the device `place` that can stand at the node `at`; None where there is none.

    Tensors proven to be there come first: arguments of the function, then locals. Next are those that met such a tensor
    whenever `at` runs; then the variable that holds the device.
    """
    owner = context.inference.owner(at)
    known = _known(context, owner)
    for exact in (True, False):
        met = [] if exact else [(one, other) for one, other, node in known.met if _runs_with(context, node, at)]
        for argument, places in known.arguments:
            there = all(where.same(place) if exact else same_place(met, where, place) for where in places)
            if there and not _shadowed(context, argument.arg, at):
                return Named(f"{argument.arg}.device", True)
        near = [node for node, where in known.locals if (where.same(place) if exact else same_place(met, where, place))]
        for node in near[:_TRIED]:
            if _holds_at(context, owner, node, at) and not _shadowed(context, node.id, at):
                return Named(f"{node.id}.device", True)
    if (
        place.text
        and _names_device(context, place)
        and _readable(context, place.text, at)
        and not _shadowed(context, place.text.split(".")[0], at)
    ):
        return Named(place.text, False)
    for node, where in known.devices:
        if where.same(place) and _holds_at(context, owner, node, at) and not _shadowed(context, node.id, at):
            return Named(node.id, False)
    if place.device and place.device != "cpu":
        index = "" if place.index is None else f":{place.index}"
        return Named(f'"{place.device}{index}"', False)
    return None


def repeatable(context: Context, expression: ast.expr, at: ast.AST) -> bool:
    """Whether an expression of `at`'s function would give at the node `at` what it gives where it stands.

    It does where it is made of constants, and of names and attributes that are bound once and are bound by then.
    """
    owner = context.inference.owner(at)
    scope = context.names.scope_of.get(owner)
    for node in walk(expression):
        if isinstance(node, ast.Call) and context.name_of(node.func) != "torch.device":
            return False
        if isinstance(node, ast.Attribute) and node.attr in _set_attributes(context, owner):
            return False
        if isinstance(node, ast.NamedExpr | ast.Subscript | ast.Await | ast.Yield | ast.YieldFrom | ast.Starred):
            return False
        if not isinstance(node, ast.Name):
            continue
        home = scope.defining(node.id) if scope is not None else None
        if home is None or scope is None or _shadowed(context, node.id, at):
            return False
        bound = home.bound.get(node.id, [])
        if len(bound) > 1 or (bound and node.id in home.imports) or node.id in context.inference.shared(home.node):
            return False
        if home is scope and bound and not isinstance(bound[0], ast.arg):
            store = bound[0]
            if not isinstance(store, ast.Name) or not _holds_at(context, owner, store, at):
                return False
    return True


def _set_attributes(context: Context, owner: ast.AST) -> set[str]:
    """The attributes that a function sets, of whatever."""
    memo: dict[ast.AST, set[str]] = context.memo.setdefault("set attributes", {})
    if owner not in memo:
        memo[owner] = {
            node.attr for node in walk(owner) if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
    return memo[owner]


def _names_device(context: Context, place: Place) -> bool:
    """Whether the text of a place is that of a device, and not of a tensor or module that is there."""
    if not isinstance(place.key, tuple):
        return True
    inference = context.inference
    if place.key[0] == "at":
        argument = place.key[1]
        annotation = argument.annotation if isinstance(argument, ast.arg) else None
        value = inference.annotated(annotation, argument) if annotation is not None else None
        return value is not None and value.kind in (v.DEVICE, v.TEXT)
    if place.key[0] == "attribute":
        owner = v.Value(kind=v.OBJECT, node=place.key[1])
        held = inference.attribute(owner, str(place.key[2]), State())
        return held is None or not (held.is_tensor or held.is_module or held.kind in (v.TENSORS, v.BATCH))
    return bool(place.key[0] != "self")


def _known(context: Context, owner: ast.AST) -> _Known:
    memo: dict[ast.AST, _Known] = context.memo.setdefault("placing", {})
    if owner not in memo:
        bound = [
            (node, value)
            for node, value in context.inference.run(owner).values.items()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        memo[owner] = _Known(
            list(_tensor_arguments(context, owner)),
            [(node, value.place) for node, value in bound if value.is_tensor],
            [(node, value.place) for node, value in bound if value.kind == v.DEVICE and value.place.device],
            list(_places_met(context, owner)),
        )
    return memo[owner]


def places_met(context: Context, owner: ast.AST) -> list[tuple[Place, Place]]:
    """Places that operations of the function brought together, those of the CPU apart."""
    return [(one, other) for one, other, _ in _known(context, owner).met]


def _places_met(context: Context, owner: ast.AST) -> Iterator[tuple[Place, Place, ast.AST]]:
    seen: dict[tuple[Place, Place], int] = {}
    for meeting in context.inference.run(owner).meetings.values():
        places = [value.place for _, value in meeting.operands if value.place.key is not None]
        for other in places[1:]:
            pair = (places[0], other)
            seen[pair] = seen.get(pair, 0) + 1
            if not places[0].same(other) and seen[pair] <= _TRIED:
                yield places[0], other, meeting.node


def _tensor_arguments(context: Context, owner: ast.AST) -> Iterator[tuple[ast.arg, list[Place]]]:
    if not isinstance(owner, _FUNCTIONS):
        return
    values = context.inference.run(owner).values
    kinds: dict[str, str] = {}
    for node, value in values.items():
        if isinstance(node, ast.Name) and any(isinstance(one, ast.arg) and one.arg == node.id for one in value.ids):
            kinds.setdefault(node.id, value.kind)
    optional = _optional(owner)
    scope = context.names.scope_of[owner]
    for argument in [*owner.args.posonlyargs, *owner.args.args, *owner.args.kwonlyargs]:
        bound = [node for node in scope.bound.get(argument.arg, ()) if not _in_place(context, node)]
        later = [values.get(node, v.ANYTHING) for node in bound if node is not argument]
        rebound = argument.arg in scope.imports or _rebound_within(context, owner, argument.arg)
        if kinds.get(argument.arg) != v.TENSOR or argument in optional or rebound:
            continue
        if all(value.is_tensor for value in later):
            yield argument, [Place(key=("at", argument)), *(value.place for value in later)]


def _in_place(context: Context, node: ast.AST) -> bool:
    """Whether a binding is `x += ...`, which leaves a tensor where it is."""
    above = context.inference.parents.get(node)
    return isinstance(above, ast.AugAssign) and above.target is node


def _rebound_within(context: Context, owner: ast.AST, name: str) -> bool:
    """Whether a function inside owner declares the name `nonlocal`."""
    memo: dict[ast.AST, set[str]] = context.memo.setdefault("nonlocals", {})
    if owner not in memo:
        memo[owner] = {name for node in walk(owner) if isinstance(node, ast.Nonlocal) for name in node.names}
    return name in memo[owner]


def _shadowed(context: Context, name: str, at: ast.AST) -> bool:
    """Whether a lambda or comprehension around `at` has a name of its own like this."""
    for above in context.inference.ancestors(at):
        if isinstance(above, _FUNCTIONS):
            return False
        scope = context.names.scope_of.get(above) if isinstance(above, _SCOPES) else None
        if scope is not None and name in scope.bound:
            return True
    return False


def _optional(owner: ast.FunctionDef | ast.AsyncFunctionDef) -> set[ast.arg]:
    """The arguments that may be None: by default, or by annotation."""
    arguments = owner.args
    positional = [*arguments.posonlyargs, *arguments.args]
    found = set(positional[len(positional) - len(arguments.defaults) :])
    found |= {a for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None}
    for argument in [*positional, *arguments.kwonlyargs]:
        words = ast.unparse(argument.annotation) if argument.annotation is not None else ""
        if any(word in words for word in ("None", "Optional", "Union")):
            found.add(argument)
    return found


def surely_fails(context: Context, meeting: ast.AST, at: ast.AST) -> bool:
    """Whether a program in which the operands of a meeting are apart ends there whenever it comes to the node `at`.

    Then whatever is done at `at` to bring them together changes nothing that worked. Loops are taken to turn at least
    once.
    """
    return _runs_with(context, meeting, at, True) and not expects_error(context, meeting)


def _runs_with(context: Context, node: ast.AST, at: ast.AST, turns: bool = False) -> bool:
    """Whether node runs whenever `at` does: before it, or after it with nothing between that leaves.

    `turns`: `for` loops and comprehensions over something turn at least once.
    """
    path = {id(at): at, **{id(above): above for above in context.inference.ancestors(at)}}
    child = node
    for above in context.inference.ancestors(node):
        if id(child) in path:
            return True  # one is part of the other
        if isinstance(above, _PARTIAL) and id(above) not in path and not (turns and _is_filled(above)):
            return False
        body = _body_with(above, child)
        if body is not None:
            mine = next((part for part in body if id(part) in path), None)
            if mine is not None:
                first, last = sorted((body.index(mine), body.index(child)))
                between = body[first : last + 1] if child is not body[first] else []
                return not any(isinstance(part, _LEAVES) for one in between for part in walk(one) if one is not child)
            if isinstance(above, _BRANCHES) and not (turns and _is_first_turn(above, child)):
                return False
        if isinstance(above, _FUNCTIONS):
            return False
        child = above
    return False


def _is_filled(node: ast.AST) -> bool:
    """Whether a comprehension evaluates its element at least once, where there is something to loop over."""
    return isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp) and not any(one.ifs for one in node.generators)


def _is_first_turn(loop: ast.AST, child: ast.AST) -> bool:
    """Whether child runs in the first turn of a `for` loop: nothing before it leaves."""
    if not isinstance(loop, ast.For | ast.AsyncFor) or child not in loop.body:
        return False
    before = loop.body[: loop.body.index(child)]
    return not any(isinstance(part, _LEAVES) for one in before for part in walk(one))


def _body_with(above: ast.AST, child: ast.AST) -> list[ast.AST] | None:
    """The list of statements of a node in which child stands."""
    if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
        return None
    for _, part in ast.iter_fields(above):
        if isinstance(part, list) and any(one is child for one in part):
            return part
    return None


def _holds_at(context: Context, owner: ast.AST, stored: ast.Name, at: ast.AST) -> bool:
    """Whether a local bound at `stored`, and nowhere else, is bound whenever `at` runs."""
    scope = context.names.scope_of.get(owner)
    if scope is None or context.names.homes.get(stored) is not scope:
        return False  # a comprehension's own name, or one that is declared elsewhere
    if scope.bound.get(stored.id) != [stored] or stored.id in scope.imports or stored.id in scope.outer:
        return False
    if _rebound_within(context, owner, stored.id):
        return False
    statement = context.inference.parents.get(stored)
    while isinstance(statement, ast.Tuple | ast.List | ast.Starred):
        statement = context.inference.parents.get(statement)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or (
        isinstance(statement, ast.AnnAssign) and statement.value is None
    ):
        return False
    block = context.inference.parents.get(statement)
    end = (statement.end_lineno or 0, statement.end_col_offset or 0)
    if block is None or end > (getattr(at, "lineno", 0), getattr(at, "col_offset", 0)):
        return False
    chain = [at, *context.inference.ancestors(at)]
    position = next((i for i, node in enumerate(chain) if node is block), 0)
    body = _body_with(block, statement)
    return position > 0 and body is not None and any(part is chain[position - 1] for part in body)


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
