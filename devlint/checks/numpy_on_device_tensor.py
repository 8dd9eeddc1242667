"""DEV104: NumPy, scikit-learn or matplotlib is given a tensor that is on an accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.chosen import is_chosen
from devlint.checks.context import Context
from devlint.checks.guards import expects_error
from devlint.checks.host_code import is_guarded
from devlint.finding import Edit, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.calls import short
from devlint.placement.values import Value
from devlint.screen import Calls, Mentions
from devlint.syntax.lazy import cst

_PACKAGES = frozenset({"numpy", "sklearn", "matplotlib"})
_ERROR = (
    "on an accelerator this raises \"can't convert cuda:0 device type tensor to numpy. "
    'Use Tensor.cpu() to copy the tensor to host memory first"'
)
_PRIMARY = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A device tensor, and what takes it for an array."""

    value: Value
    method: bool
    """It is the receiver of `.numpy()`."""
    inside: bool = False
    """It is in a list or tuple that is given."""


class NumpyOnDeviceTensor(Rule):
    info = RuleInfo(
        "DEV104",
        "numpy-on-device-tensor",
        (Group.BUG,),
        "a tensor on an accelerator is handed to NumPy, scikit-learn or matplotlib",
    )
    screen = (Calls(frozenset({"numpy"})), Mentions(_PACKAGES))

    def suspects(self) -> bool:
        self._found = dict(self._takers())
        return bool(self._found)

    def _takers(self) -> Iterator[tuple[ast.expr, _Taken]]:
        """The expressions that are taken for arrays and are on an accelerator."""
        context = self.context
        for call in context.seen.calls.get("numpy", ()):
            if isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
                receiver = context.inference.value(call.func.value)
                if self._is_away(call, receiver):
                    yield call.func.value, _Taken(receiver, True)
        if not _PACKAGES & context.inference.packages or "array_api_dispatch" in context.source.text:
            return
        for calls in context.seen.calls.values():
            for call in calls:
                yield from self._arguments(call)

    def _arguments(self, call: ast.Call) -> Iterator[tuple[ast.expr, _Taken]]:
        context = self.context
        name = context.names.name_of(call.func)  # without the values of variables, which would have to be inferred
        if name is None or name.split(".")[0] not in _PACKAGES:
            return
        row = context.inference.facts.call(name)
        if row is None or not row.get("needs_host"):
            return
        for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
            value = context.inference.value(argument)
            if self._is_away(call, value):
                yield argument, _Taken(value, False)
            elif value.kind == v.SEQUENCE and name.startswith("numpy."):
                for item in value.items or ([value.element] if value.element is not None else []):
                    if item.dims != 0 and self._is_away(call, item):
                        yield argument, _Taken(item, False, True)
                        break

    def _is_away(self, call: ast.Call, value: Value) -> bool:
        return (
            value.is_tensor
            and is_chosen(self.context, value)
            and not is_guarded(self.context, call)
            and not expects_error(self.context, call)
        )

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        assert isinstance(call, ast.Call)
        if isinstance(node.func, cst.Attribute) and isinstance(call.func, ast.Attribute):
            taken = self._found.get(call.func.value)
            if taken is not None and taken.method:
                dot = _dot_of(self.context, call.func)
                fix = rewrite.safe("Copy it to the CPU first", Edit(dot, dot, ".cpu()"))
                self.report(
                    rewrite.callee_span(self.context, node),
                    f"`.numpy()` of a tensor that is not on the CPU{_origin(taken.value)}: {_ERROR}",
                    fix=fix,
                )
        for argument in node.args:
            self._argument(node, argument)

    def _argument(self, node: cst.Call, argument: cst.Arg) -> None:
        context = self.context
        given = context.ast_of(argument.value)
        taken = self._found.get(given) if isinstance(given, ast.expr) else None
        if taken is None or taken.method or argument.star:
            return
        name = context.name_of(node.func) or ""
        callee = "np." + name.removeprefix("numpy.") if name.startswith("numpy.") else short(name)
        what = "tensors that are not on the CPU" if taken.inside else "a tensor that is not on the CPU"
        message = f"`{callee}` is given {what}{_origin(taken.value)}: {_ERROR}"
        if taken.inside:
            self.report(argument.value, message, no_fix="each tensor of the list has to be copied where it is put in")
            return
        start, end = context.span(given)
        if isinstance(given, _PRIMARY):
            edits = [Edit(end, end, ".cpu()")]
        else:
            edits = [Edit(start, start, "("), Edit(end, end, ").cpu()")]
        self.report(argument.value, message, fix=rewrite.safe("Copy it to the CPU first", *edits))


def _origin(value: Value) -> str:
    return f" ({value.origin})" if value.origin is not None else ""


def _dot_of(context: Context, node: ast.Attribute) -> int:
    """The offset of an attribute's dot."""
    text = context.source.text
    _, position = context.span(node.value)
    while text[position] != ".":
        if text[position] == "#":
            while text[position] not in "\r\n":
                position += 1
        else:
            position += 1
    return position
