"""DEV201: a tensor made without a device meets tensors that are where their caller's device is."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.host_code import is_guarded, is_host_code
from devlint.checks.placing import device_expression
from devlint.finding import Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.api import facts
from devlint.placement.mismatch import Mismatch, mismatches
from devlint.placement.values import Value
from devlint.screen import Calls
from devlint.syntax.lazy import cst


def _factories() -> frozenset[str]:
    """The last names of all that makes a tensor without being given one."""
    rows = facts().calls.items()
    return frozenset(
        name.rsplit(".", 1)[-1]
        for name, row in rows
        if row.get("returns") == v.TENSOR and (row.get("place") in ("factory", "host") or row.get("data"))
    )


_SIZES_ONLY = {"torch.Tensor": "", "torch.FloatTensor": "torch.float32", "torch.LongTensor": "torch.long"}


class FactoryWithoutDevice(Rule):
    info = RuleInfo(
        "DEV201", "factory-without-device", (Group.BUG,), "a tensor made on the CPU meets tensors that need not be there"
    )
    screen = (Calls(_factories(), frozenset({"device"})),)

    def suspects(self) -> bool:
        return bool(self.blamed())

    def blamed(self) -> dict[ast.AST, Mismatch]:
        """The factory calls to report, each with the first operation in which its tensor fails."""
        context = self.context
        found: dict[ast.AST, Mismatch] = {}
        owners = {
            context.inference.owner(call)
            for name in _factories() & context.seen.calls.keys()
            for call in context.seen.calls[name]
            if not any(keyword.arg in ("device", None) for keyword in call.keywords)
        }
        for owner in sorted(owners, key=lambda node: getattr(node, "lineno", 0)):
            if is_host_code(context, owner):
                continue
            for mismatch in mismatches(context.inference, owner):
                origin = mismatch.host[1].origin
                call = origin.node if origin is not None else None
                if isinstance(call, ast.Call) and call not in found and self._speaks(mismatch, call, owner):
                    found[call] = mismatch
        return found

    def _speaks(self, mismatch: Mismatch, call: ast.Call, owner: ast.AST) -> bool:
        inference = self.context.inference
        name = self.name_of(call.func)
        row = inference.facts.call(name) if name is not None else None
        if any(keyword.arg in ("device", "generator", None) for keyword in call.keywords):
            return False
        makes = row is not None and row.get("returns") == v.TENSOR and row.get("place") in ("factory", "host", "like")
        other = mismatch.device[1]
        moved_model = other.is_module and not (isinstance(other.place.key, tuple) and other.place.key[0] == "self")
        return makes and not moved_model and inference.owner(call) is owner and not is_guarded(self.context, call)

    def visit_Call(self, node: cst.Call) -> None:
        if not hasattr(self, "_found"):
            self._found = self.blamed()
        call = self.context.ast_of(node)
        mismatch = self._found.get(call)
        if mismatch is None or not isinstance(call, ast.Call):
            return
        fix, no_fix = self._fix(node, call, mismatch)
        name = self.context.text(call.func)
        message = (
            f"`{name}()` without a device makes a CPU tensor, which meets {self._other(mismatch)}"
            f" at line {mismatch.meeting.node.lineno}: on an accelerator torch raises"
            " \"Expected all tensors to be on the same device\""
        )
        self.report(rewrite.callee_span(self.context, node), message, fix=fix, no_fix=no_fix)

    def _other(self, mismatch: Mismatch) -> str:
        expression, value = mismatch.device
        text = " ".join(self.context.text(expression).split())
        text = text if len(text) <= 30 else text[:27] + "..."
        return f"`{text}`" + (f" ({value.origin})" if value.origin is not None else "")

    def _fix(self, node: cst.Call, call: ast.Call, mismatch: Mismatch) -> tuple[Fix | None, str | None]:
        device = device_expression(self.context, mismatch.device[1].place, call)
        if device is None:
            return None, "no tensor or variable in reach names the device"
        name = self.name_of(call.func) or ""
        row = self.context.inference.facts.call(name) or {}
        title = f"Make it on `{device.text}`"
        if row.get("legacy"):
            return self._legacy(node, call, name, device.text)
        if row.get("place") == "host":
            _, end = self.context.span(call)
            edit: rewrite.Edit | None = rewrite.Edit(end, end, f".to({device.text})")
        else:
            edit = rewrite.add_keyword(self.context, node, "device", device.text)
        if edit is None:
            return None, "its keywords are not all written here"
        return (rewrite.safe if device.certain else rewrite.unsafe)(title, edit), None

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
            rewrite.Edit(added.start, added.end, text),
        )
        return rewrite.unsafe(f"Make it with `{path}.empty` on `{device}`", *edits), None


def _is_number(value: Value) -> bool:
    return value.kind == v.NUMBER
