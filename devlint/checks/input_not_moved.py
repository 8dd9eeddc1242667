"""DEV103: what a moved model is given, or what meets its output, stayed on the host."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devlint.checks import rewrite
from devlint.checks.apart import INPUT, defects, shown
from devlint.checks.base import Rule
from devlint.checks.guards import expects_error
from devlint.checks.placing import Named, device_expression, repeatable, surely_fails
from devlint.checks.taken import is_taken_from_host
from devlint.checks.worth_following import factories
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.effects import TRANSFERS
from devlint.placement.mismatch import Mismatch
from devlint.screen import Calls
from devlint.syntax.lazy import cst

_PRIMARY = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)


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

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._visit(node.target)

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
            reads = [one.host[0] for one in group]
            how = self._sibling_transfer(mismatch, reads)
            if how is None or not all(isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load) for read in reads):
                return None, "how its sibling was moved cannot be repeated here"
            edits = dict.fromkeys(Edit(end, end, how) for _, end in map(context.span, reads))
            caught = any(expects_error(context, one.meeting.node) for one in group)
            return (rewrite.unsafe if caught else rewrite.safe)(f"Move it as `{mismatch.sibling}`", *edits), None
        origin = mismatch.host[1].origin
        made = origin.node if origin is not None else None
        module, value = mismatch.device
        if isinstance(made, ast.Call) and self.value_of(made).kind == v.BATCH:
            if isinstance(module, ast.Name) and value.type.startswith("transformers.") and self._settled(module, made):
                named: Named | None = Named(f"{module.id}.device", True)
            else:
                named = device_expression(context, value.place, made)
            if named is None:
                return None, "no variable in reach names the model's device"
            _, end = context.span(made)
            edit = Edit(end, end, f".to({named.text})")
            certain = named.certain or repeatable(context, ast.parse(named.text, mode="eval").body, made)
            certain = certain and any(surely_fails(context, one.meeting.node, made) for one in group)
            return (rewrite.safe if certain else rewrite.unsafe)("Move the batch to the model's device", edit), None
        named = device_expression(context, value.place, mismatch.host[0])
        if named is None or not all(isinstance(one.host[0], _PRIMARY) and not _is_stored(one.host[0]) for one in group):
            return None, "no variable in reach names the model's device"
        edits = dict.fromkeys(
            Edit(end, end, f".to({named.text})") for _, end in [context.span(one.host[0]) for one in group]
        )
        return rewrite.unsafe(f"Move it to `{named.text}`", *edits), None

    def _settled(self, module: ast.Name, at: ast.AST) -> bool:
        """Whether a model has its name, and is where it stays, by the time that the node `at` runs."""
        context = self.context
        if not repeatable(context, module, at):
            return False
        run = context.inference.run(context.inference.owner(at))
        start = (getattr(at, "lineno", 0), getattr(at, "col_offset", 0))
        return not any(
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in TRANSFERS
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == module.id
            and (call.lineno, call.col_offset) > start
            for call in run.values
        )

    def _sibling_transfer(self, mismatch: Mismatch, reads: Sequence[ast.expr]) -> str | None:
        """The text of the call that moved the sibling, `.to(device)`, if it does the same at all these reads."""
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
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                casts = len(call.args) > 1 or any(keyword.arg in ("dtype", "other") for keyword in call.keywords)
                if casts or any(self.value_of(one).is_tensor for one in given):
                    return None
                if not all(repeatable(context, one, read) for one in given for read in reads):
                    return None
                start, _ = rewrite.attribute_span(context, call.func)
                return "." + context.source.text[start : context.span(call)[1]]
        return None


def _is_stored(node: ast.expr) -> bool:
    """Whether a node is the target of `x += ...`."""
    return not isinstance(getattr(node, "ctx", None), ast.Load | None)
