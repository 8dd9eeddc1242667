"""DEV403: a torch.device compared with a string, which is never equal, or with a device that lacks the index."""

from __future__ import annotations

import ast

from devlint.checks import guards, rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.device_texts import Texts
from devlint.checks.rewrite import shortened
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.device_text import TYPES, near_miss, read
from devlint.placement.values import Value
from devlint.screen import Comparisons
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

_EQUAL = (ast.Eq, ast.NotEq)
_MEMBER = (ast.In, ast.NotIn)
_NEVER_TEXT = frozenset({"type"})
_WITHOUT_INDEX = frozenset({"cpu", "meta", "vulkan", "lazy", "mkldnn"})
"""Types whose tensors have no index; all others give theirs one."""


def _is_device_text(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return False
    found = read(node.value)
    return found is not None and (found.type in TYPES or near_miss(found.type) is not None)


def _items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]


def _may_be_wrong(node: ast.Compare) -> bool:
    """Screen: `... == "cuda"`, but not of `x.type`; `x.device == ...`, but not of another constant."""
    operands = [node.left, *node.comparators]
    if any(isinstance(one, ast.Attribute) and one.attr in _NEVER_TEXT for one in operands):
        return False
    if not any(isinstance(op, (*_EQUAL, *_MEMBER)) for op in node.ops):
        return False
    if any(_is_device_text(item) for one in operands for item in _items(one)):
        return True
    return any(isinstance(one, ast.Attribute) and one.attr == "device" for one in operands) and not any(
        isinstance(one, ast.Constant) for one in operands
    )


class DeviceComparison(Rule):
    info = RuleInfo("DEV403", "device-comparison", (Group.BUG,), "this comparison of a torch.device is never true")
    screen = (Comparisons(_may_be_wrong),)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._texts = Texts(context)

    def suspects(self) -> bool:
        for compare in self.context.seen.comparisons:
            self._look_at(compare)
        found = bool(self.findings)
        self.findings.clear()
        return found

    def visit_Comparison(self, node: cst.Comparison) -> None:
        compare = self.context.ast_of(node)
        if isinstance(compare, ast.Compare):
            self._look_at(compare)

    def _look_at(self, compare: ast.Compare) -> None:
        if len(compare.ops) != 1 or not _may_be_wrong(compare):
            return
        operator, left, right = compare.ops[0], compare.left, compare.comparators[0]
        if guards.expects_error(self.context, compare):
            return
        if isinstance(operator, _EQUAL):
            for device, other in ((left, right), (right, left)):
                if _is_device_text(other) and self._is_device(device):
                    self._with_text(device, [other], isinstance(operator, ast.NotEq), "==")
                    return
            self._with_device(compare, left, right)
        elif isinstance(operator, _MEMBER):
            members = _items(right) if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
            if members and all(map(_is_device_text, members)) and self._is_device(left):
                self._with_text(left, members, isinstance(operator, ast.NotIn), "in")
            elif _is_device_text(left) and self._is_device(right):
                self._in_device(left, right)

    def _is_device(self, node: ast.expr) -> bool:
        """Whether a value is proven a torch.device. An annotation proves it of an argument only without a default
        that is a string."""
        value = self.value_of(node)
        if value.kind != v.DEVICE:
            return False
        return not any(isinstance(source, ast.arg) and self._is_annotated_only(source) for source in value.ids)

    def _is_annotated_only(self, argument: ast.arg) -> bool:
        arguments = self.context.inference.parents.get(argument)
        if not isinstance(arguments, ast.arguments):
            return True
        defaults = [*arguments.defaults, *arguments.kw_defaults]
        return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in defaults)

    # --- with strings -----------------------------------------------------------------------------------------

    def _with_text(self, device: ast.expr, texts: list[ast.expr], negated: bool, operator: str) -> None:
        written = shortened(ast.unparse(device))
        outcome = "true" if negated else "false"
        text = ast.unparse(texts[0]) if len(texts) == 1 and operator == "==" else "strings"
        fix, no_fix = self._text_fix(device, texts)
        self.report(
            texts[0] if operator == "==" else device,
            f"`{written}` is a torch.device, which equals no string: the comparison with {text} is always {outcome}",
            fix=fix,
            no_fix=no_fix,
        )

    def _text_fix(self, device: ast.expr, texts: list[ast.expr]) -> tuple[Fix | None, str | None]:
        found = [read(str(text.value)) for text in texts if isinstance(text, ast.Constant)]
        if any(one is None or one.type not in TYPES for one in found):
            return None, "the string names no device that torch knows"
        if all(one is not None and one.index is None for one in found):
            if not isinstance(device, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
                return None, "the device is not a plain expression"
            _, end = self.context.span(device)
            return rewrite.unsafe("Compare its type", Edit(end, end, ".type")), None
        maker = self._torch_device(device)
        if maker is None:
            return None, "torch is not imported under a name of its own"
        edits = [rewrite.replace(self.context, text, f"{maker}({self.context.text(text)})") for text in texts]
        return rewrite.unsafe("Compare with a torch.device", *edits), None

    def _torch_device(self, at: ast.expr) -> str | None:
        """How torch.device is written at this place, by the file's imports at the top."""
        names = self.context.names
        owner = names.scope_of.get(self.context.inference.owner(at))
        for name, meant in names.module.imports.items():
            spelled = (
                {"torch": f"{name}.device", "torch.device": name}.get(next(iter(meant))) if len(meant) == 1 else None
            )
            if spelled is None or name in names.module.bound:
                continue
            if owner is None or owner is names.module or (name not in owner.bound and name not in owner.imports):
                return spelled
        return None

    def _in_device(self, text: ast.expr, device: ast.expr) -> None:
        assert isinstance(text, ast.Constant)
        written = self.context.text(device)
        fix = rewrite.unsafe("Search its text", rewrite.replace(self.context, device, f"str({written})"))
        self.report(
            device,
            f"`{shortened(written)}` is a torch.device: `in` raises TypeError: argument of type 'torch.device' is not "
            "iterable",
            fix=fix,
        )

    # --- with a device ----------------------------------------------------------------------------------------

    def _with_device(self, compare: ast.Compare, left: ast.expr, right: ast.expr) -> None:
        for tensors, chosen in ((left, right), (right, left)):
            if not self._is_tensors_device(tensors):
                continue
            lacking = self._lacks_index(chosen)
            if lacking is None or self._asks_for_index(compare, chosen) or self._only_moves(compare):
                continue
            outcome = "true" if isinstance(compare.ops[0], ast.NotEq) else "false"
            kind, default = lacking
            by = f", as {default} is by default," if default else ""
            self.report(
                chosen,
                f"`{shortened(ast.unparse(chosen))}` lacks the index where it is '{kind}'{by}"
                f" and a tensor's device has "
                f"one: the comparison is always {outcome} there",
                no_fix="which index is meant is yours to say; where none is, compare the types",
            )
            return

    def _is_tensors_device(self, node: ast.expr) -> bool:
        """`x.device` of a tensor, or of what goes into a module as its input."""
        if not (isinstance(node, ast.Attribute) and node.attr == "device"):
            return False
        owner = self.value_of(node.value)
        if owner.is_tensor:
            return not owner.place.is_cpu
        if owner.kind != v.UNKNOWN or not owner.ids:
            return False
        inference = self.context.inference
        return any(
            value.ids == owner.ids
            and isinstance(call := inference.parents.get(read), ast.Call)
            and read in call.args
            and inference.value(call.func).is_module
            for read, value in inference.run(inference.owner(node)).values.items()
            if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load)
        )

    def _lacks_index(self, node: ast.expr) -> tuple[str, str] | None:
        """The type that a torch.device has without an index, and whose default that is; None where not proven."""
        value: Value = self.value_of(node)
        if value.kind != v.DEVICE:
            return None
        for text in self._texts.of_device(value):
            found = read(text.text)
            if found is not None and found.index is None and found.type in TYPES and found.type not in _WITHOUT_INDEX:
                return found.type, text.default
        return None

    def _asks_for_index(self, compare: ast.Compare, chosen: ast.expr) -> bool:
        """Whether the code knows of the index: it reads `.index` near by, or compares the types beside this."""
        inference = self.context.inference
        makers = [one for one in self.value_of(chosen).ids if isinstance(one, ast.AST)]
        owners = [inference.owner(compare), *map(inference.owner, makers)]
        if any(
            isinstance(part, ast.Attribute) and part.attr == "index"
            for owner in owners
            if not isinstance(owner, ast.Module)
            for part in walk(owner)
        ):
            return True
        return any(".type" in condition for condition in guards.conditions(self.context, compare))

    def _only_moves(self, compare: ast.Compare) -> bool:
        """Whether all that hangs on the comparison is a transfer, which does nothing where it is not needed."""
        inference = self.context.inference
        above = inference.parents.get(compare)
        while isinstance(above, ast.BoolOp | ast.UnaryOp):
            above = inference.parents.get(above)
        if isinstance(above, ast.IfExp):
            branches: list[ast.AST] = [above.body, above.orelse]
        elif isinstance(above, ast.If):
            branches = [*above.body, *above.orelse]
        else:
            return False
        return any(
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in ("to", "cuda", "cpu")
            for branch in branches
            for part in walk(branch)
        )
