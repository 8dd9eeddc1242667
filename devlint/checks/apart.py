"""Which rule speaks of a mismatch: one defect is one finding, and the most specific rule has the word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.checks.context import Context
from devlint.checks.host_code import is_guarded, is_host_code, is_host_program
from devlint.checks.own_tensors import METHODS, building_methods
from devlint.checks.placeholders import is_placeholder
from devlint.checks.rewrite import shortened
from devlint.checks.scalars import may_be_scalar
from devlint.checks.worth_following import worth_following
from devlint.placement import values as v
from devlint.placement.effects import TRANSFERS
from devlint.placement.mismatch import Mismatch, mismatches, table_mismatches
from devlint.placement.values import Value
from devlint.syntax.trees import last_name, walk

INPUT, FACTORY, COMPANION, ATTRIBUTE, TABLE, MIXED = "DEV103", "DEV201", "DEV106", "DEV202", "DEV602", "DEV601"
_ORDER = (INPUT, COMPANION, ATTRIBUTE, TABLE, FACTORY, MIXED)
"""The more specific rule first."""


def defects(context: Context, code: str) -> list[Mismatch]:
    """The mismatches of a file of which the rule with this code speaks."""
    if "defects" not in context.memo:
        found: dict[str, list[Mismatch]] = {}
        for owner in worth_following(context):
            for name, mismatch in _one_rule_each(list(_defects_in(context, owner))):
                found.setdefault(name, []).append(mismatch)
        context.memo["defects"] = found
    return list(context.memo["defects"].get(code, ()))


def _one_rule_each(defects: list[tuple[str, Mismatch]]) -> Iterator[tuple[str, Mismatch]]:
    """Of one tensor, only the most specific rule speaks."""
    best: dict[object, str] = {}
    for code, mismatch in defects:
        root = _root(mismatch.host[1])
        if root is not None and (root not in best or _ORDER.index(code) < _ORDER.index(best[root])):
            best[root] = code
    for code, mismatch in defects:
        if best.get(_root(mismatch.host[1]), code) == code:
            yield code, mismatch


def _root(value: Value) -> object:
    """The call that made a value."""
    return value.origin.root if value.origin is not None else None


def _defects_in(context: Context, owner: ast.AST) -> Iterator[tuple[str, Mismatch]]:
    if is_host_code(context, owner) or is_host_program(context, owner):
        return
    inference = context.inference
    dropped = _dropped(context, owner)
    for mismatch in mismatches(inference, owner):
        value = mismatch.host[1]
        root = _root(value)
        if (
            (root is not None and root in dropped)
            or (value.ids & dropped)
            or is_guarded(context, mismatch.meeting.node)
            or is_placeholder(context, mismatch)
        ):
            continue
        code = _code(context, owner, mismatch)
        if code:
            yield code, mismatch
    for mismatch in table_mismatches(inference, owner):
        if not is_guarded(context, mismatch.meeting.node) and not is_placeholder(context, mismatch):
            yield ATTRIBUTE if _is_own_attribute(context, mismatch) else TABLE, mismatch


def _dropped(context: Context, owner: ast.AST) -> set[object]:
    """What a discarded transfer should have moved: DEV101 speaks of it."""
    found: set[object] = set()
    run = context.inference.run(owner)
    for attribute in _discards(context).get(owner, ()):
        value = run.values.get(attribute.value)
        if value is not None and value.is_tensor:
            found |= value.ids
            if value.origin is not None and value.origin.root is not None:
                found.add(value.origin.root)
    return found


def _discards(context: Context) -> dict[ast.AST, list[ast.Attribute]]:
    """The discarded transfers of each function."""
    memo: dict[ast.AST, list[ast.Attribute]] | None = context.memo.get("discards")
    if memo is None:
        memo = context.memo["discards"] = {}
        for name in TRANSFERS & context.seen.discards.keys():
            for attribute in context.seen.discards[name]:
                memo.setdefault(context.inference.owner(attribute), []).append(attribute)
    return memo


def _code(context: Context, owner: ast.AST, mismatch: Mismatch) -> str:
    host, device = mismatch.host[1], mismatch.device[1]
    if mismatch.sibling:
        return INPUT
    call = host.origin.node if host.origin is not None else None
    if not isinstance(call, ast.Call) or is_guarded(context, call) or _is_pinned(call):
        return ""
    if mismatch.meeting.row.get("scalar_ok", True) and may_be_scalar(context, host, call, [mismatch.host[0]]):
        return ""
    here = context.inference.owner(call) is owner
    if host.is_module and host.place.device not in ("", "cpu"):
        return MIXED
    if host.is_module:
        # What an argument is given is on the device only where something says so: resampling is done on the host.
        return COMPANION if here and not device.is_module and not _is_given(device) else ""
    if _is_own_attribute(context, mismatch) and not here:
        return ATTRIBUTE
    if not here:
        return ""
    if _is_moved_module(device):
        # `x.cpu()` before a module that is given: whoever gives it knows that it runs on the host.
        kept = isinstance(device.place.key, tuple) and device.place.key[0] == "attribute" and not _is_moved(device)
        return "" if (_is_given(device) or kept) and last_name(call.func) == "cpu" else INPUT
    if device.is_module and mismatch.meeting.node in context.inference.run(owner).feedings:
        return ""  # a child whose forward is not known may move its input itself
    name = context.name_of(call.func)
    row = context.inference.facts.call(name) if name is not None else None
    makes = row is not None and row.get("returns") == v.TENSOR and row.get("place") in ("factory", "host", "like")
    told = any(keyword.arg in ("device", "generator", None) for keyword in call.keywords)
    if makes and not told:
        copied = row is not None and row.get("data") and _may_copy_input(context, owner, call)
        return "" if copied or _only_builds(context, owner) else FACTORY
    return (
        MIXED if device.place.device or not isinstance(device.place.key, tuple) or device.place.key[0] != "at" else ""
    )


def _may_copy_input(context: Context, owner: ast.AST, call: ast.Call) -> bool:
    """Whether `torch.tensor(x)` is given an argument of a module's method that has dimensions, as only a tensor or an
    array has: a copy of a tensor is where that is."""
    home = context.inference.parents.get(owner)
    if not (isinstance(home, ast.ClassDef) and context.inference.classes.kind(home) in v.MODULE_KINDS):
        return False
    data = call.args[0] if call.args else None
    if not isinstance(data, ast.Name) or not any(isinstance(i, ast.arg) for i in context.inference.value(data).ids):
        return False
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == data.id
        and isinstance(node.slice, ast.Tuple)
        for node in walk(owner)
    )


def _is_of_self(value: Value) -> bool:
    """Whether a value is where the module itself is."""
    return isinstance(value.place.key, tuple) and value.place.key[0] == "self"


def _only_builds(context: Context, owner: ast.AST) -> bool:
    """Whether a method fills a module's parameters as it is made, on the CPU, and nothing else in the file calls it."""
    home = context.inference.parents.get(owner)
    if not isinstance(owner, METHODS) or not isinstance(home, ast.ClassDef):
        return False
    building = building_methods(home)
    if owner.name not in building or not (owner.name.startswith("_") or _INITIALISES.search(owner.name)):
        return False
    callers = (context.inference.owner(call) for call in context.seen.calls.get(owner.name, ()))
    return all(getattr(one, "name", "") in building and context.inference.parents.get(one) is home for one in callers)


_INITIALISES = re.compile(r"init|reset")


def _is_pinned(call: ast.Call) -> bool:
    """Whether the caller decides if the tensor is in pinned memory, which is on the host: it is meant to be there."""
    return any(keyword.arg == "pin_memory" and not isinstance(keyword.value, ast.Constant) for keyword in call.keywords)


def _is_given(value: Value) -> bool:
    """Whether a value is where an argument of the function is."""
    return isinstance(value.place.key, tuple) and value.place.key[0] == "at"


def _is_moved(value: Value) -> bool:
    """Whether a call of this file put a value where it is."""
    return value.origin is not None and value.origin.node is not None


def _is_moved_module(value: Value) -> bool:
    """A module that this file moved, and not a child of the module that runs."""
    return value.is_module and not _is_of_self(value)


def _is_own_attribute(context: Context, mismatch: Mismatch) -> bool:
    """Whether the host operand is read from an attribute of the instance, which another method set."""
    expression = mismatch.host[0]
    while isinstance(expression, ast.Call | ast.Subscript | ast.Attribute):
        if isinstance(expression, ast.Attribute) and isinstance(expression.value, ast.Name):
            value = context.inference.value(expression.value)
            return isinstance(value.node, ast.ClassDef)
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return False


def shown(context: Context, expression: ast.expr, value: Value) -> str:
    """An operand for a message: how it is written, and how it came to its device."""
    text = shortened(" ".join(context.text(expression).split()), 30)
    return f"`{text}`" + (
        f" ({value.origin})" if value.origin is not None and str(value.origin) != f"the argument {text}" else ""
    )
