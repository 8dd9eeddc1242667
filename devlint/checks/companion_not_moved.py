"""DEV106: a loss with weights, a metric or a second network stays behind when the model moves."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.apart import COMPANION, defects, shown
from devlint.checks.base import Rule
from devlint.checks.placing import device_expression
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement.effects import TRANSFERS
from devlint.placement.mismatch import Mismatch
from devlint.screen import Calls
from devlint.syntax.lazy import cst


class CompanionNotMoved(Rule):
    info = RuleInfo(
        COMPANION,
        "companion-not-moved",
        (Group.BUG,),
        "a second module is used on the device and was never moved there",
    )
    screen = (Calls(TRANSFERS),)

    def suspects(self) -> bool:
        """Each module is reported once, where it is made."""
        self._found: dict[ast.AST, Mismatch] = {}
        for mismatch in defects(self.context, self.info.code):
            origin = mismatch.host[1].origin
            if origin is not None and isinstance(origin.node, ast.Call):
                self._found.setdefault(origin.node, mismatch)
        return bool(self._found)

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        mismatch = self._found.get(call)
        if mismatch is None:
            return
        name = self.context.text(mismatch.host[0])
        message = (
            f"`{name}` stays on the CPU, and is given {shown(self.context, *mismatch.device)} at line"
            f" {mismatch.meeting.node.lineno}: on an accelerator torch raises"
            ' "Expected all tensors to be on the same device"'
        )
        fix, no_fix = self._fix(call, mismatch)
        self.report(rewrite.callee_span(self.context, node), message, fix=fix, no_fix=no_fix)

    def _fix(self, call: ast.AST, mismatch: Mismatch) -> tuple[Fix | None, str | None]:
        place = mismatch.device[1].place
        named = device_expression(self.context, place, call)
        if named is None:
            return None, "no variable in reach names the device where it is made"
        _, end = self.context.span(call)
        return rewrite.unsafe(f"Move it to `{named.text}`", Edit(end, end, f".to({named.text})")), None
