"""DEV101: the result of `.to()`, `.cuda()` and their like on a tensor is thrown away."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.uses import read_elsewhere, reads_after, settled_at
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.effects import TRANSFERS
from devlint.placement.values import Value
from devlint.screen import Discards
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

_CASTS = frozenset(
    {"half", "float", "double", "bfloat16", "long", "int", "short", "bool", "byte", "char", "type", "type_as"}
)
_COPIES = TRANSFERS | _CASTS
_NAMES_ONLY = frozenset({"cuda", "cpu"})
"""Methods that nobody means as a value: without parentheses they do nothing."""

_PROBES = frozenset({"raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns", "suppress"})
_TIMERS = ("timer", "time", "profile", "profiler", "record_function", "benchmark", "Timer", "timeit", "elapsed")


class DiscardedTransfer(Rule):
    info = RuleInfo("DEV101", "discarded-transfer", (Group.BUG,), "the moved or cast copy of a tensor is thrown away")
    screen = (Discards(_COPIES),)

    def suspects(self) -> bool:
        seen = self.context.seen.discards
        return any(
            (name in _NAMES_ONLY or self._is_called(node)) and self._copies(node.value, name)
            for name in _COPIES & seen.keys()
            for node in seen[name]
        )

    def _is_called(self, node: ast.Attribute) -> bool:
        """Whether an attribute is called, and not merely named: `dtype=torch.float` discards nothing."""
        above = self.context.inference.parents[node]
        return isinstance(above, ast.Call) and above.func is node

    def visit_Expr(self, node: cst.Expr) -> None:
        call = node.value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            name = call.func.attr.value
            if name in _COPIES and self._copies(call.func.value, name) and not self._deliberate(node, call.func.value):
                self._report(node, call.func, name)
        elif isinstance(call, cst.Attribute) and call.attr.value in _NAMES_ONLY and self._copies(call.value, "cuda"):
            self._named_only(call, call.attr.value, "the tensor stays where it is")

    def visit_Return(self, node: cst.Return) -> None:
        value = node.value
        if (
            isinstance(value, cst.Attribute)
            and value.attr.value in _NAMES_ONLY
            and self.value_of(value.value).is_tensor
        ):
            self._named_only(value, value.attr.value, "the caller gets the method, not a tensor")

    def visit_Arg(self, node: cst.Arg) -> None:
        value = node.value
        if (
            isinstance(value, cst.Attribute)
            and value.attr.value in _NAMES_ONLY
            and self.value_of(value.value).is_tensor
        ):
            self._named_only(value, value.attr.value, "the function gets the method, not a tensor")

    def _copies(self, receiver: cst.BaseExpression | ast.expr, name: str) -> bool:
        """Whether the method gives a new object and leaves the receiver alone."""
        value = self.value_of(receiver)
        if value.is_tensor:
            return True
        facts = self.context.inference.facts
        row = (facts.cls(value.type) if value.type else None) or {}
        method = facts.method(value.kind, name) or {}
        return name in TRANSFERS and (row.get("to") == "copy" or method.get("copy") is True)

    def _deliberate(self, node: cst.Expr, receiver: cst.BaseExpression) -> bool:
        """Statements that want the effect and not the result: starting CUDA, timing, expecting an error."""
        context = self.context
        statement = context.ast_of(node)
        if isinstance(receiver, cst.Call) and self._is_fresh(receiver):
            return True
        child = statement
        for above in context.ancestors(statement):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                return False
            if isinstance(above, ast.Try) and child in above.body and above.handlers:
                return True
            if isinstance(above, ast.With | ast.AsyncWith) and any(
                _is_probe_or_timer(item.context_expr) for item in above.items
            ):
                return True
            child = above
        return False

    def _is_fresh(self, receiver: cst.Call) -> bool:
        """A tensor that this very statement makes: nobody else could use it, so the effect is what is wanted."""
        node: ast.AST = self.context.ast_of(receiver)
        while isinstance(node, ast.Call):
            function = node.func
            name = self.name_of(function)
            if name is not None:
                row = self.context.inference.facts.call(name)
                return row is not None and row.get("place") in ("factory", "host", "like")
            if not isinstance(function, ast.Attribute):
                return False
            node = function.value
        return False

    def _report(self, node: cst.Expr, function: cst.Attribute, name: str) -> None:
        receiver = function.value
        written = rewrite.shortened(" ".join(self.context.text(receiver).split()))
        span = rewrite.attribute_span(self.context, function)
        message = f"`.{name}()` gives a copy, which is thrown away: `{written}` stays as it is"
        fix, no_fix = self._fix(node, function, name)
        self.report(span, message, fix=fix, no_fix=no_fix)

    def _fix(self, node: cst.Expr, function: cst.Attribute, name: str) -> tuple[Fix | None, str | None]:
        context = self.context
        receiver = function.value
        if not isinstance(receiver, cst.Name):
            return None, "the receiver is not a plain name, so where the copy belongs is yours to say"
        variable = receiver.value
        statement = context.ast_of(node)
        if self._is_outer(statement, variable) or isinstance(context.inference.parents.get(statement), ast.ClassDef):
            return None, f"`{variable}` belongs to an outer scope"
        reads = reads_after(context, statement, context.ast_of(receiver))
        if not reads:
            return None, f"`{variable}` is not read afterwards"
        title = f"Assign the result to `{variable}`"
        edit = rewrite.before(context, node, f"{variable} = ")
        call = context.ast_of(node)
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        result = self.value_of(call.value)
        settled = settled_at(context, result.place, reads) and not read_elsewhere(context, statement, variable)
        if name in TRANSFERS and not _casts(call.value, self) and settled:
            return rewrite.safe(title, edit), None
        return rewrite.unsafe(title, edit), None

    def _is_outer(self, statement: ast.AST, variable: str) -> bool:
        """An assignment would make a new local of what is a name of an outer scope."""
        owner = self.context.inference.owner(statement)
        scope = self.context.names.scope_of.get(owner)
        if scope is None:
            return True
        return variable not in scope.bound and variable not in scope.imports

    def _named_only(self, attribute: cst.Attribute, name: str, effect: str) -> None:
        fix = None
        _, end = self.context.span(attribute)
        if name == "cpu":
            fix = rewrite.unsafe("Call it", Edit(end, end, "()"))
        self.report(
            rewrite.attribute_span(self.context, attribute),
            f"`.{name}` is named and not called: {effect}",
            fix=fix,
            no_fix=None if fix else "which device is meant is yours to say",
        )


def _casts(call: ast.Call, rule: Rule) -> bool:
    """Whether a transfer changes the dtype as well, or may."""
    if any(keyword.arg in ("dtype", None) for keyword in call.keywords) or len(call.args) > 1:
        return True
    if not call.args:
        return False
    first = rule.value_of(call.args[0])
    return first.kind in (v.TENSOR, v.PARAMETER, "dtype") or _is_dtype(first)


def _is_dtype(value: Value) -> bool:
    return value.kind == v.NAME and value.type.startswith("torch.")


def _is_probe_or_timer(node: ast.expr) -> bool:
    names = [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in walk(node)
        if isinstance(part, ast.Attribute | ast.Name)
    ]
    return any(name in _PROBES or name.lower().endswith(_TIMERS) for name in names)
