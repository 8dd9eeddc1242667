"""DEV208: a device kept at construction of a module, and new tensors made there that meet the module's input."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.host_code import is_guarded
from devlint.checks.own_tensors import Method, methods, module_classes, self_name, set_elsewhere, stores
from devlint.checks.placing import device_expression, places_met
from devlint.checks.uses import settled_at
from devlint.finding import Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.calls import Operand, short
from devlint.placement.evaluate import path_of
from devlint.placement.mismatch import same_place
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk


@dataclass(frozen=True, slots=True)
class _Stale:
    """A factory told the stored device, and the operand that its tensor meets."""

    call: ast.Call
    device: ast.Attribute
    meeting: ast.expr
    other: Operand


class StaleSelfDevice(Rule):
    info = RuleInfo(
        "DEV208",
        "stale-self-device",
        (Group.BUG,),
        "a module makes tensors on the device that it was built with, which `.to()` does not change",
    )
    screen = (Mentions(frozenset({"Module", "nn", "torch"})),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, _Stale] = {}
        for class_ in module_classes(self.context):
            for stale in self._of_class(class_):
                self._found.setdefault(stale.call, stale)
        return bool(self._found)

    def _of_class(self, class_: ast.ClassDef) -> Iterator[_Stale]:
        """What a module makes on a device that only its constructor sets."""
        inference = self.context.inference
        if any(
            isinstance(base, str) and (inference.facts.cls(base) or {}).get("live_device")
            for base in inference.classes.lineage(class_)
        ):
            return
        stored = {
            name
            for name, every in stores(self.context, class_).items()
            if all(store.method.name == "__init__" and isinstance(store.statement, ast.Assign) for store in every)
            and not inference.classes.defines(class_, name)
        }
        stored &= self._named
        for method in methods(class_) if stored else ():
            if method.name == "__init__" or isinstance(inference.parents.get(method), ast.FunctionDef):
                continue
            for call, device in _told(method, stored):
                if not is_guarded(self.context, call) and not set_elsewhere(self.context, class_, device.attr):
                    yield from self._meeting(method, call, device)

    @cached_property
    def _named(self) -> set[str]:
        """The attributes that calls of the file take as a device."""
        calls = self.context.seen.calls
        every = (keyword for found in calls.values() for call in found for keyword in call.keywords)
        given = [keyword.value for keyword in every if keyword.arg == "device"]
        given += [call.args[0] for call in calls.get("to", ()) if call.args]
        return {device.attr for device in given if isinstance(device, ast.Attribute)}

    def _meeting(self, method: Method, call: ast.Call, device: ast.Attribute) -> Iterator[_Stale]:
        """The first operation in which what the factory makes meets the method's input."""
        context = self.context
        name = context.name_of(_factory(call).func)
        row = context.inference.facts.call(name) if name is not None else None
        makes = row is not None and row.get("returns") == v.TENSOR and row.get("place") in ("factory", "like")
        if row is None or not makes or row.get("data"):
            return
        run = context.inference.run(method)
        met = places_met(context, method)
        inputs = [v.Place(key=("at", argument)) for argument in [*method.args.posonlyargs, *method.args.args][1:]]
        for meeting in run.meetings.values():
            made = [one for one in meeting.operands if one[1].origin is not None and one[1].origin.node is call]
            others = [one for one in meeting.operands if one not in made and one[1].dims != 0]
            if not made or not made[0][1].place.known or made[0][1].place.device:
                continue
            place = made[0][1].place
            apart = [(a, b) for a, b in met if not a.same(place) and not b.same(place)]
            for other in others:
                if any(same_place(apart, other[1].place, here) for here in inputs) and other[1].is_tensor:
                    yield _Stale(call, device, meeting.node, other)
                    return

    def visit_Call(self, node: cst.Call) -> None:
        context = self.context
        stale = self._found.get(context.ast_of(node))
        if stale is None:
            return
        stored = context.text(stale.device)
        other = " ".join(context.text(stale.other[0]).split())
        other = other if len(other) <= 30 else other[:27] + "..."
        made = short(context.name_of(_factory(stale.call).func) or "")
        fix, no_fix = self._fix(stale)
        self.report(
            rewrite.attribute_span(context, stale.device),
            f"`{stored}` was stored when the module was built, and `.to()` does not change it: what `{made}()` makes"
            f" there meets `{other}` at line {stale.meeting.lineno}, and once the module has moved torch raises"
            ' "Expected all tensors to be on the same device"',
            fix=fix,
            no_fix=no_fix,
        )

    def _fix(self, stale: _Stale) -> tuple[Fix | None, str | None]:
        context = self.context
        device = device_expression(context, stale.other[1].place, stale.call)
        if device is None or not device.certain:
            return None, "no tensor that is made before names the device of the input"
        edit = rewrite.replace(context, stale.device, device.text)
        title = f"Make it on `{device.text}`"
        return (rewrite.safe if self._meets_input_only(stale) else rewrite.unsafe)(title, edit), None

    def _meets_input_only(self, stale: _Stale) -> bool:
        """Whether the new tensor goes nowhere else than into operations with what is where the input is."""
        inference = self.context.inference
        above = inference.parents.get(stale.call)
        if isinstance(above, ast.BinOp):
            other = above.right if above.left is stale.call else above.left
            value = inference.value(other)
            return value.is_tensor and value.place.same(stale.other[1].place)
        if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
            reads = _reads(self.context, above)
            return bool(reads) and settled_at(self.context, stale.other[1].place, reads)
        return False


def _reads(context: Context, statement: ast.Assign) -> list[ast.Name]:
    """All reads of the local name that a statement sets; none where it is set elsewhere as well."""
    target = statement.targets[0]
    assert isinstance(target, ast.Name)
    found = []
    for node in walk(context.inference.owner(statement)):
        if isinstance(node, ast.Name) and node.id == target.id and node is not target:
            if not isinstance(node.ctx, ast.Load):
                return []
            found.append(node)
    return found


def _told(method: Method, stored: set[str]) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """The calls that are given `device=self.NAME`, and those of `.to(self.NAME)` on what a call has just made."""
    own = self_name(method)
    for node in walk(method):
        if not isinstance(node, ast.Call):
            continue
        devices = [keyword.value for keyword in node.keywords if keyword.arg == "device"]
        if _factory(node) is not node:
            devices += node.args[:1]
        for device in devices:
            if isinstance(device, ast.Attribute) and path_of(device.value) == own and device.attr in stored:
                yield node, device


def _factory(call: ast.Call) -> ast.Call:
    """The call that made what `call` gives: itself, or what its `.to()` stands behind."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "to" and isinstance(function.value, ast.Call):
        return function.value
    return call
