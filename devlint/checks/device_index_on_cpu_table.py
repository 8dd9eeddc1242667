"""DEV602: a table on the CPU is indexed by a tensor on a device."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.apart import TABLE, defects, shown
from devlint.checks.base import Rule
from devlint.checks.guards import expects_error
from devlint.checks.uses import ends_on_host
from devlint.checks.worth_following import factories
from devlint.finding import Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.mismatch import Mismatch
from devlint.screen import Calls
from devlint.syntax.lazy import cst


class DeviceIndexOnCpuTable(Rule):
    info = RuleInfo(
        TABLE, "device-index-on-cpu-table", (Group.BUG,), "a table on the CPU is indexed by a tensor on a device"
    )
    screen = (Calls(factories()),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, Mismatch] = {}
        for mismatch in defects(self.context, self.info.code):
            if ends_on_host(self.context, mismatch.meeting.node):
                continue
            self._found.setdefault(mismatch.meeting.node, mismatch)
        return bool(self._found)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        subscript = self.context.ast_of(node)
        mismatch = self._found.get(subscript)
        if mismatch is None:
            return
        table, index = shown(self.context, *mismatch.host), shown(self.context, *mismatch.device)
        message = (
            f"{table} is a table on the CPU, indexed by {index}: on an accelerator torch raises"
            ' "indices should be either on cpu or on the same device as the indexed tensor"'
        )
        fix, no_fix = self._fix(node, mismatch)
        self.report(mismatch.host[0], message, fix=fix, no_fix=no_fix)

    def _fix(self, node: cst.Subscript, mismatch: Mismatch) -> tuple[Fix | None, str | None]:
        index = mismatch.device[0]
        if not isinstance(node.value, cst.Call) or not isinstance(index, ast.Name):
            return None, "where the table should be made is yours to say"
        edit = rewrite.add_keyword(self.context, node.value, "device", f"{index.id}.device")
        if edit is None:
            return None, "the factory's keywords are not all written here"
        proven = self.value_of(index).kind == v.TENSOR and not expects_error(self.context, mismatch.meeting.node)
        return (rewrite.safe if proven else rewrite.unsafe)("Make the table where its index is", edit), None
