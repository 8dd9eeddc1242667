"""Which of the meetings in a function bring together what is proven to live apart."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from devlint.placement import values as v
from devlint.placement.calls import Operand
from devlint.placement.effects import TRANSFERS
from devlint.placement.evaluate import Evaluator, Meeting
from devlint.placement.infer import FUNCTIONS, Inference
from devlint.placement.values import Place, Value

_CHOSEN = frozenset({"self", "named by", "choice", "device", "result", "property", "attribute", "text", "named"})
"""Symbolic places that stem from a chosen device, or are where a module is; other unknown places prove nothing."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Two operands of one operation that are proven to live on different devices.

    `host` is the one on the CPU (of two accelerators: the first), `device` the other; both as that one of their
    possible values that proves it. `sibling` is the name beside which the host operand was unpacked, where that one was
    moved and this one was not.
    """

    meeting: Meeting
    host: Operand
    device: Operand
    sibling: str = ""


def mismatches(inference: Inference, owner: ast.AST) -> Iterator[Mismatch]:
    """The mismatches of operations and calls in one function or in the module's own body."""
    run = inference.run(owner)
    moved = _moved_items(inference, run)
    for meeting in [*run.meetings.values(), *run.feedings.values()]:
        yield from _apart(inference, run, meeting, moved)


def table_mismatches(inference: Inference, owner: ast.AST) -> Iterator[Mismatch]:
    """Tables on the CPU that are indexed by a tensor elsewhere."""
    run = inference.run(owner)
    for meeting in run.indexings.values():
        table, index = meeting.operands
        fixed = next(iter(_fixed_on_host(inference, meeting, table[1])), None)
        one_hot = fixed is not None and fixed.origin is not None and fixed.origin.node is table[0]
        if one_hot and index[1].kind == v.UNKNOWN:
            # A table made to be indexed at once, `torch.eye(k)[labels]`: an argument in there is a tensor.
            index = (index[0], replace(index[1], kind=v.TENSOR))
        if fixed is not None and is_elsewhere(inference, run, index[1]):
            yield Mismatch(meeting, (table[0], fixed), index)


def _apart(
    inference: Inference, run: Evaluator, meeting: Meeting, moved: Mapping[Hashable, tuple[str, Place]]
) -> Iterator[Mismatch]:
    operands = list(_checked(meeting))
    away = next((operand for operand in operands if is_elsewhere(inference, run, operand[1])), None)
    for expression, value in operands:
        if away is None or away[0] is expression:
            continue
        fixed = _fixed_on_host(inference, meeting, value)
        if fixed:
            yield from (Mismatch(meeting, (expression, one), away) for one in fixed)
            continue
        sibling, place = next((moved[i] for i in value.ids if i in moved and len(value.ids) == 1), ("", None))
        if place is not None and away[1].place.same(place) and not value.is_module:
            yield Mismatch(meeting, (expression, value), away, sibling)
    first = operands[0] if operands else None
    for operand in operands[1:]:
        if first is not None and _on_two_accelerators(first[1], operand[1]):
            yield Mismatch(meeting, first, operand)


def _moved_items(inference: Inference, run: Evaluator) -> dict[Hashable, tuple[str, Place]]:
    """For each part of a batch that is nowhere moved: the name of a sibling that is, and where to."""
    places: dict[Hashable, Place] = {}
    for node, value in run.values.items():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TRANSFERS:
            receiver = run.values.get(node.func.value)
            for identity in receiver.ids if receiver is not None else ():
                places[identity] = value.place
    found: dict[Hashable, tuple[str, Place]] = {}
    for identity, place in places.items():
        target = identity[1] if isinstance(identity, tuple) and identity[0] == "unpacked" else None
        above = inference.parents.get(target) if isinstance(target, ast.AST) else None
        for other in above.elts if isinstance(above, ast.Tuple | ast.List) else ():
            if ("unpacked", other) not in places and isinstance(target, ast.Name):
                found["unpacked", other] = (target.id, place)
    return found


def _checked(meeting: Meeting) -> Iterator[Operand]:
    """The operands that must agree: parameters whose tensors may be anywhere do not take part."""
    free = {*meeting.row.get("free", ()), *meeting.row.get("strict", ())}
    if not free or not isinstance(meeting.node, ast.Call):
        yield from meeting.operands
        return
    at = meeting.row.get("at", {})
    named = {keyword.value for keyword in meeting.node.keywords if keyword.arg in free}
    placed = {meeting.node.args[at[name]] for name in free if name in at and at[name] < len(meeting.node.args)}
    exempt = named | placed
    exempt |= {item for part in exempt if isinstance(part, ast.Tuple | ast.List) for item in part.elts}
    for expression, value in meeting.operands:
        if expression not in exempt:
            yield expression, value


def _fixed_on_host(inference: Inference, meeting: Meeting, value: Value) -> list[Value]:
    """The possibilities of a value that are proven to be on the CPU, put there by a call in this file."""
    possible = [other for other in value.possibilities() if other.kind != v.NOTHING]
    fixed = []
    for one in possible:
        if not one.place.is_cpu or one.origin is None or one.origin.node is None:
            continue
        if one.dims in (0, v.MAYBE_NONE) and meeting.row.get("scalar_ok", True):
            continue
        others = [other for other in possible if not other.place.is_cpu]
        if any(_decided_with(inference, one, other, meeting.node) for other in others):
            return []
        fixed.append(one)
    return fixed


def _decided_with(inference: Inference, one: Value, other: Value, meeting: ast.AST) -> bool:
    """Whether a branch decided that it is this value, on the CPU, or the other, elsewhere; and had done so before both
    meet: where they meet in that branch, they came there by a loop."""
    if other.origin is None or other.origin.node is None or one.origin is None:
        return False
    first, second = one.origin.node, other.origin.node
    if not isinstance(first, ast.AST) or not isinstance(second, ast.AST):
        return False
    ways = [_arms(inference, node) for node in (first, second, meeting)]
    return any(
        ways[0].get(branch) is not ways[1].get(branch) and branch not in ways[2] for branch in {**ways[0], **ways[1]}
    )


def _arms(inference: Inference, node: ast.AST) -> dict[ast.AST, ast.AST | None]:
    """For each branch around node: the first node of the arm in which it stands; None for its test."""
    found: dict[ast.AST, ast.AST | None] = {}
    child = node
    for above in inference.ancestors(node):
        arms: list[object] = []
        if isinstance(above, ast.If | ast.IfExp):
            arms = [above.body, above.orelse]
        elif isinstance(above, ast.Try):
            arms = [[*above.body, *above.orelse], above.handlers]
        elif isinstance(above, ast.Match):
            arms = [above.cases]
        if arms:
            found[above] = None
        for arm in arms:
            parts = arm if isinstance(arm, list) else [arm]
            if any(part is child for part in parts):
                first = child if isinstance(above, ast.Match) else parts[0]
                found[above] = first if isinstance(first, ast.AST) else None
        child = above
    return found


def is_elsewhere(inference: Inference, run: Evaluator, value: Value) -> bool:
    """Whether a value is, in all its possibilities, on an accelerator or where its caller's device is."""
    possible = [other for other in value.possibilities() if other.kind != v.NOTHING]
    return bool(possible) and all(_is_away(inference, run, one) for one in possible) and value.dims != 0


def _is_away(inference: Inference, run: Evaluator, value: Value) -> bool:
    place = value.place
    if place.device:
        return not place.is_cpu and place.device != "meta"
    if place.key is None or place.key in run.on_host:
        return False
    tag, of = place.key[:2] if isinstance(place.key, tuple) else ("", None)
    if tag != "at":
        return tag in _CHOSEN
    function = run.owner
    if not (isinstance(of, ast.arg) and value.is_tensor and isinstance(function, FUNCTIONS)):
        return False
    return not any(_on_host(one) for one in inference.passed(of, function))


def _on_host(value: Value) -> bool:
    """Whether a value, in one of its possibilities, is on the CPU."""
    return any(one.place.is_cpu for one in value.possibilities())


def _on_two_accelerators(one: Value, other: Value) -> bool:
    first, second = one.place, other.place
    both = first.device not in ("", "cpu", "meta") and second.device not in ("", "cpu", "meta")
    if not both or one.dims == 0 or other.dims == 0:
        return False
    if first.device != second.device:
        return True
    return first.index is not None and second.index is not None and first.index != second.index


def same_place(places: list[tuple[Place, Place]], one: Place, other: Place) -> bool:
    """Whether two places are the same wherever the program runs at all: they are, or their tensors met."""
    if one.same(other):
        return True
    reached, stack = {one}, [one]
    while stack:
        here = stack.pop()
        for first, second in places:
            for near, far in ((first, second), (second, first)):
                if near.same(here) and far not in reached:
                    if far.same(other):
                        return True
                    reached.add(far)
                    stack.append(far)
    return False
