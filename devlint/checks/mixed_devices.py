"""DEV601: two operands that are proven to live on different devices meet."""

from __future__ import annotations

import ast

from devlint.checks.apart import MIXED, defects, shown
from devlint.checks.base import Rule
from devlint.checks.worth_following import factories
from devlint.finding import Group, RuleInfo
from devlint.placement.effects import TRANSFERS
from devlint.placement.mismatch import Mismatch
from devlint.screen import Calls
from devlint.syntax.lazy import cst


class MixedDevices(Rule):
    info = RuleInfo(MIXED, "mixed-devices", (Group.BUG,), "tensors on different devices meet in one operation")
    screen = (Calls(TRANSFERS | factories()),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, Mismatch] = {}
        for mismatch in defects(self.context, self.info.code):
            self._found.setdefault(mismatch.meeting.node, mismatch)
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
        mismatch = self._found.get(self.context.ast_of(node))
        if mismatch is None:
            return
        one, other = mismatch.host[1].place, mismatch.device[1].place
        where = _named(one), _named(other)
        message = (
            f"{shown(self.context, *mismatch.host)} is on {where[0]} and meets {shown(self.context, *mismatch.device)}"
            f' on {where[1]}: torch raises "Expected all tensors to be on the same device"'
        )
        self.report(mismatch.host[0], message, no_fix="which of the two should move is yours to say")


def _named(place: object) -> str:
    device, index, text = getattr(place, "device", ""), getattr(place, "index", None), getattr(place, "text", "")
    if device:
        return f"`{device}`" if index is None else f"`{device}:{index}`"
    return f"`{text}`" if text else "another device"
