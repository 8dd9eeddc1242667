"""DEV201: a tensor made without a device meets tensors that are where their caller's device is."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.apart import defects, shown
from devlint.checks.base import Rule
from devlint.checks.placing import device_expression, surely_fails
from devlint.checks.uses import wanted_on_host
from devlint.checks.worth_following import factories
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.mismatch import Mismatch
from devlint.placement.values import Value
from devlint.screen import Calls
from devlint.syntax.lazy import cst

_SIZES_ONLY = {"torch.Tensor": "", "torch.FloatTensor": "torch.float32", "torch.LongTensor": "torch.long"}


class FactoryWithoutDevice(Rule):
    info = RuleInfo(
        "DEV201",
        "factory-without-device",
        (Group.BUG,),
        "a tensor made on the CPU meets tensors that need not be there",
    )
    screen = (Calls(factories(), frozenset({"device"})),)

    def suspects(self) -> bool:
        """Each factory call to report is kept with the operations in which its tensor fails."""
        self._found: dict[ast.AST, list[Mismatch]] = {}
        for mismatch in defects(self.context, self.info.code):
            origin = mismatch.host[1].origin
            if origin is not None and isinstance(origin.node, ast.Call):
                self._found.setdefault(origin.node, []).append(mismatch)
        return bool(self._found)

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        mismatches = self._found.get(call)
        if mismatches is None or not isinstance(call, ast.Call):
            return
        mismatch = mismatches[0]
        fix, no_fix = self._fix(node, call, mismatches)
        name = self.context.text(call.func)
        message = (
            f"`{name}()` without a device makes a CPU tensor, which meets {shown(self.context, *mismatch.device)}"
            f" at line {mismatch.meeting.node.lineno}: on an accelerator torch raises"
            ' "Expected all tensors to be on the same device"'
        )
        self.report(rewrite.callee_span(self.context, node), message, fix=fix, no_fix=no_fix)

    def _fix(self, node: cst.Call, call: ast.Call, mismatches: list[Mismatch]) -> tuple[Fix | None, str | None]:
        device = device_expression(self.context, mismatches[0].device[1].place, call)
        if device is None:
            return None, "no tensor or variable in reach names the device"
        name = self.name_of(call.func) or ""
        row = self.context.inference.facts.call(name) or {}
        if any(keyword.arg in ("out", "pin_memory") for keyword in call.keywords):
            return None, "what it is made into, or for, is on the CPU"
        title = f"Make it on `{device.text}`"
        if row.get("legacy"):
            return self._legacy(node, call, name, device.text)
        if row.get("place") == "host":
            _, end = self.context.span(call)
            edit: Edit | None = Edit(end, end, f".to({device.text})")
        else:
            edit = rewrite.add_keyword(self.context, node, "device", device.text)
        if edit is None:
            return None, "its keywords are not all written here"
        # What meets on one way only may have worked on the others as it is.
        fails = any(surely_fails(self.context, one.meeting.node, call) for one in mismatches)
        certain = device.certain and fails and not wanted_on_host(self.context, call)
        return (rewrite.safe if certain else rewrite.unsafe)(title, edit), None

    def _legacy(self, node: cst.Call, call: ast.Call, name: str, device: str) -> tuple[Fix | None, str | None]:
        """A legacy constructor takes sizes or data; only where the syntax tells which can it be rewritten."""
        dtype = _SIZES_ONLY.get(name)
        sizes = len(call.args) > 1 or (len(call.args) == 1 and _is_number(self.value_of(call.args[0])))
        if dtype is None or call.keywords or not sizes or any(isinstance(a, ast.Starred) for a in call.args):
            return None, "whether a legacy constructor is given sizes or data cannot be seen"
        added = rewrite.add_keyword(self.context, node, "device", device)
        path = self.context.text(call.func).rpartition(".")[0]
        if added is None or not path:
            return None, "the constructor's new form is not certain"
        text = added.text if not dtype else added.text.replace("device=", f"dtype={dtype}, device=", 1)
        edits = (
            rewrite.replace(self.context, call.func, f"{path}.empty"),
            Edit(added.start, added.end, text),
        )
        return rewrite.unsafe(f"Make it with `{path}.empty` on `{device}`", *edits), None


def _is_number(value: Value) -> bool:
    return value.kind == v.NUMBER
