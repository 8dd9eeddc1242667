"""DEV103: what a moved model is given, or what meets its output, stayed on the host."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.apart import INPUT, defects, factories, shown
from devlint.checks.base import Rule
from devlint.checks.placing import device_expression
from devlint.checks.taken import is_taken_from_host
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.calls import TRANSFERS
from devlint.placement.mismatch import Mismatch
from devlint.screen import Calls
from devlint.syntax.lazy import cst


class InputNotMoved(Rule):
    info = RuleInfo(
        INPUT, "input-not-moved", (Group.BUG,), "the model is on the device, and what it is given is still on the host"
    )
    screen = (Calls(TRANSFERS | factories() | {"from_pretrained"}),)

    def suspects(self) -> bool:
        """Each host value is reported once, where it first meets the device; all its meetings are kept for the fix."""
        self._found: dict[ast.AST, list[Mismatch]] = {}
        by_value: dict[object, list[Mismatch]] = {}
        for mismatch in defects(self.context, self.info.code):
            if mismatch.device[1].is_module and is_taken_from_host(
                self.context, mismatch.meeting.node, mismatch.host[0]
            ):
                continue
            ids = mismatch.host[1].ids
            by_value.setdefault(ids or mismatch.host[0], []).append(mismatch)
        for group in by_value.values():
            group.sort(key=lambda one: (one.host[0].lineno, one.host[0].col_offset))
            self._found[group[0].meeting.node] = group
        return bool(self._found)

    def visit_Call(self, node: cst.Call) -> None:
        self._visit(node)

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> None:
        self._visit(node)

    def visit_Comparison(self, node: cst.Comparison) -> None:
        self._visit(node)

    def _visit(self, node: cst.BaseExpression) -> None:
        group = self._found.get(self.context.ast_of(node))
        if group is None:
            return
        mismatch = group[0]
        host = shown(self.context, *mismatch.host)
        if mismatch.sibling:
            why = f"{host} is still on the host, while `{mismatch.sibling}` of the same batch was moved"
        else:
            why = f"{host} is on the host"
        message = (
            f"{why}, and meets {shown(self.context, *mismatch.device)}: on an accelerator torch raises"
            ' "Expected all tensors to be on the same device"'
        )
        fix, no_fix = self._fix(group)
        self.report(mismatch.host[0], message, fix=fix, no_fix=no_fix)

    def _fix(self, group: list[Mismatch]) -> tuple[Fix | None, str | None]:
        context, mismatch = self.context, group[0]
        if mismatch.sibling:
            how = self._sibling_transfer(mismatch)
            reads = [one.host[0] for one in group]
            if how is None or not all(isinstance(read, ast.Name) for read in reads):
                return None, "how its sibling was moved cannot be repeated here"
            edits = dict.fromkeys(Edit(end, end, how) for _, end in map(context.span, reads))
            return rewrite.safe(f"Move it as `{mismatch.sibling}`", *edits), None
        origin = mismatch.host[1].origin
        made = origin.node if origin is not None else None
        module, value = mismatch.device
        if mismatch.host[1].kind == v.BATCH and isinstance(made, ast.Call):
            text = (
                f"{module.id}.device" if isinstance(module, ast.Name) and value.type.startswith("transformers.") else ""
            )
            named = device_expression(context, value.place, made)
            if not text and named is None:
                return None, "no variable in reach names the model's device"
            _, end = context.span(made)
            text = text or (named.text if named is not None else "")
            return rewrite.safe("Move the batch to the model's device", Edit(end, end, f".to({text})")), None
        named = device_expression(context, value.place, mismatch.host[0])
        if named is None or not isinstance(mismatch.host[0], ast.Name | ast.Call | ast.Attribute | ast.Subscript):
            return None, "no variable in reach names the model's device"
        edits = dict.fromkeys(
            Edit(end, end, f".to({named.text})") for _, end in [context.span(one.host[0]) for one in group]
        )
        return rewrite.unsafe(f"Move it to `{named.text}`", *edits), None

    def _sibling_transfer(self, mismatch: Mismatch) -> str | None:
        """The text of the call that moved the sibling: `.to(device, non_blocking=True)`."""
        context = self.context
        run = context.inference.run(context.inference.owner(mismatch.meeting.node))
        for call, value in run.values.items():
            if not (
                isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in TRANSFERS
            ):
                continue
            receiver = call.func.value
            if (
                isinstance(receiver, ast.Name)
                and receiver.id == mismatch.sibling
                and value.place.same(mismatch.device[1].place)
            ):
                if any(keyword.arg == "dtype" for keyword in call.keywords) or len(call.args) > 1:
                    return None
                return context.source.text[context.span(receiver)[1] : context.span(call)[1]]
        return None
