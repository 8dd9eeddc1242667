"""DEV105: lengths that are on an accelerator are handed to `pack_padded_sequence`, which wants them on the CPU."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.chosen import is_chosen
from devlint.checks.guards import expects_error
from devlint.checks.host_code import is_guarded, is_host_code
from devlint.checks.placing import places_met
from devlint.finding import Edit, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.mismatch import is_elsewhere, same_place
from devlint.screen import Mentions
from devlint.syntax.lazy import cst

_PACK = "torch.nn.utils.rnn.pack_padded_sequence"
_PRIMARY = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


class LengthsOnDevice(Rule):
    info = RuleInfo(
        "DEV105", "lengths-on-device", (Group.BUG,), "`pack_padded_sequence` is given lengths that are not on the CPU"
    )
    screen = (Mentions(frozenset({"pack_padded_sequence"})),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, ast.expr] = {}
        for calls in self.context.seen.calls.values():
            for call in calls:
                if self.context.name_of(call.func) == _PACK:
                    lengths = _argument(call, "lengths", 1)
                    if lengths is not None and self._is_away(call, lengths):
                        self._found[call] = lengths
        return bool(self._found)

    def _is_away(self, call: ast.Call, lengths: ast.expr) -> bool:
        """Whether the lengths are on an accelerator, or wherever the packed sequence is: then that is the CPU alone."""
        context = self.context
        value = context.inference.value(lengths)
        owner = context.inference.owner(call)
        if is_host_code(context, owner) or is_guarded(context, call) or expects_error(context, call):
            return False
        if (value.kind == v.UNKNOWN or value.is_tensor) and is_chosen(context, value):
            return True  # what was moved there and gives lengths is a tensor
        if not value.is_tensor:
            return False
        packed = _argument(call, "input", 0)
        if packed is None or not is_elsewhere(context.inference, context.inference.run(owner), value):
            return False
        other = context.inference.value(packed)
        return other.is_tensor and same_place(places_met(context, owner), value.place, other.place)

    def visit_Call(self, node: cst.Call) -> None:
        context = self.context
        call = context.ast_of(node)
        lengths = self._found.get(call)
        if lengths is None:
            return
        value = context.inference.value(lengths)
        origin = f" ({value.origin})" if value.origin is not None else ""
        message = (
            f"these lengths are not on the CPU{origin}: on an accelerator `pack_padded_sequence` raises"
            " \"'lengths' argument should be a 1D CPU int64 tensor\""
        )
        start, end = context.span(lengths)
        if isinstance(lengths, _PRIMARY):
            edits = [Edit(end, end, ".cpu()")]
        else:
            edits = [Edit(start, start, "("), Edit(end, end, ").cpu()")]
        self.report(lengths, message, fix=rewrite.safe("Copy them to the CPU", *edits))


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    before = call.args[: position + 1]
    if len(before) <= position or any(isinstance(one, ast.Starred) for one in before):
        return None
    return before[-1]
