"""DEV402: the number of a GPU stands in the code as a literal."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from devlint.checks import guards, rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.device_texts import argument
from devlint.checks.rewrite import shortened
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.device_text import read
from devlint.placement.values import Value
from devlint.screen import Strings, Where
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

_NUMBERED = frozenset({"cuda", "xpu", "hip", "hpu", "npu", "mlu", "musa", "mtia", "xla", "privateuseone"})
"""Types of which a machine can hold several; `mps:0` is the only one of its kind."""
_OF_INTS = frozenset({"cuda", "set_device", "xpu"})
_LISTS = frozenset({"device_ids"})
_DEFAULTING = frozenset({"get", "getattr", "pop", "setdefault", "getenv"})
"""Calls whose last argument is what holds where the user chose nothing."""
_DECLARING = frozenset(
    {
        "add_argument",
        "option",
        "Option",
        "Argument",
        "argument",
        "field",
        "Field",
        "parametrize",
        "param",
        "Literal",
        "DEFINE_string",
        "add_param",
        "add_option",
        "instantiate_parametrized_tests",
        "subtest",
    }
)
"""Calls that declare what a user can choose, or what a test runs over."""
_TALKING = frozenset(
    {"print", "debug", "info", "warning", "warn", "error", "critical", "log", "exception", "warn_once"}
)
_NOTHING_CHOSEN = re.compile(r"\w*(device|gpu)\w*\s+is\s+(not\s+)?None|not\s+[\w.]*(device|gpu)\w*$")
"""A condition that asks whether the caller named a device."""
_TEXT_METHODS = frozenset(
    {
        "startswith",
        "endswith",
        "replace",
        "split",
        "strip",
        "removeprefix",
        "find",
        "index",
        "count",
        "format",
        "join",
        "match",
        "fullmatch",
        "search",
        "sub",
        "compile",
    }
)


def _numbered(text: str) -> bool:
    found = read(text) if len(text) < 20 else None
    return found is not None and found.index is not None and found.type in _NUMBERED


def _is_int(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0


def _ids(node: ast.AST | None) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and bool(node.elts) and all(map(_is_int, node.elts))


def _last(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _holds_index(call: ast.Call) -> bool:
    """Screen: an integer where a device may be wanted."""
    name = _last(call)
    if any(_ids(keyword.value) for keyword in call.keywords if keyword.arg in _LISTS):
        return True
    if name in ("DataParallel", "DistributedDataParallel"):
        return any(map(_ids, call.args))
    if name in _OF_INTS:
        return _is_int(argument(call, "device", 0))
    return name == "device" and any(map(_is_int, [*call.args, *[keyword.value for keyword in call.keywords]]))


class HardcodedDeviceIndex(Rule):
    info = RuleInfo("DEV402", "hardcoded-device-index", (Group.PORTABILITY,), "the number of a GPU stands in the code")
    screen = (Strings(_numbered), Where(_holds_index))

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._said: set[ast.AST] = set()

    def suspects(self) -> bool:
        for node in walk(self.context.tree):
            if isinstance(node, ast.Constant):
                self._look_at(node)
            elif isinstance(node, ast.Call):
                self._look_at_call(node)
        found = bool(self.findings)
        self.findings.clear()
        self._said.clear()
        return found

    # --- strings ----------------------------------------------------------------------------------------------

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        constant = self.context.ast_of(node) if self.context.knows(node) else None
        if isinstance(constant, ast.Constant):
            self._look_at(constant)

    def _look_at(self, constant: ast.Constant) -> None:
        if not (isinstance(constant.value, str) and _numbered(constant.value)):
            return
        if constant in self._said or self._is_exempt(constant) or self._is_no_choice(constant):
            return
        self._said.add(constant)
        fix, no_fix = self._fix(constant)
        self.report(
            constant,
            f"'{constant.value}' fixes the number of the GPU: everyone who runs this gets that one",
            fix=fix,
            no_fix=no_fix,
        )

    def _is_no_choice(self, node: ast.Constant) -> bool:
        """Whether the string is not what the code runs on: a default that a caller can change, a key, something to
        compare with, a text to print, a test's parameter."""
        inference = self.context.inference
        if any(_NOTHING_CHOSEN.search(condition) for condition in guards.conditions(self.context, node)):
            return True
        if self._is_renumbered and str(node.value).endswith(":0"):
            return True
        child: ast.AST = node
        for above in inference.ancestors(node):
            if isinstance(above, ast.Compare | ast.JoinedStr | ast.FormattedValue | ast.arguments | ast.Assert):
                return True
            if isinstance(above, ast.Expr) and child is node:
                return True  # a docstring
            if isinstance(above, ast.MatchValue | ast.Subscript) and child is not getattr(above, "value", None):
                return True
            if isinstance(above, ast.Dict) and any(child is key for key in above.keys):
                return True
            if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.Or) and child is above.values[-1]:
                return True
            if isinstance(above, ast.IfExp) and _defaults(above, child):
                return True
            if isinstance(above, ast.Call) and child is not above.func and self._takes_text(above, child):
                return True
            if isinstance(above, ast.AnnAssign) and (
                child is above.annotation or isinstance(inference.parents.get(above), ast.ClassDef)
            ):
                return True
            if isinstance(above, ast.If) and _fills_in(above, child, node):
                return True
            if (
                isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and child in above.decorator_list
            ):
                return True
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                return False
            child = above
        return False

    def _takes_text(self, call: ast.Call, child: ast.AST) -> bool:
        name = _last(call)
        if name in _DECLARING or name in _TALKING or (name in _TEXT_METHODS and isinstance(call.func, ast.Attribute)):
            return True
        if "pop" in name or "default" in name:
            return True
        return name in _DEFAULTING and len(call.args) > 1 and child is call.args[-1]

    @cached_property
    def _is_renumbered(self) -> bool:
        """Whether the file chooses the GPUs by the environment: 0 is the first of the chosen then."""
        return any(
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value == "CUDA_VISIBLE_DEVICES"
            for node in walk(self.context.tree)
        )

    def _is_exempt(self, node: ast.AST) -> bool:
        """Tests name the devices that they need; a fallback in an `except` stands for what could not be read; an error
        that is expected is no choice."""
        if guards.expects_error(self.context, node):
            return True
        return any(
            isinstance(above, ast.ExceptHandler)
            or (
                isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and above.name.lower().startswith("test")
            )
            for above in self.context.ancestors(node)
        )

    # --- numbers ----------------------------------------------------------------------------------------------

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        if isinstance(call, ast.Call):
            self._look_at_call(call)

    def _look_at_call(self, call: ast.Call) -> None:
        if not _holds_index(call) or self._is_exempt(call):
            return
        for keyword in call.keywords:
            if keyword.arg in _LISTS and _ids(keyword.value):
                self._report_ids(keyword.value)
                return
        name = self.name_of(call.func)
        last = _last(call)
        if last in ("DataParallel", "DistributedDataParallel"):
            if name is not None and name.startswith("torch."):
                for one in call.args:
                    if _ids(one):
                        self._report_ids(one)
            return
        given = self._number(call, name, last)
        if given is None or (given.value == 0 and self._is_renumbered):
            return
        if any(_NOTHING_CHOSEN.search(condition) for condition in guards.conditions(self.context, call)):
            return
        fix, no_fix = self._fix(given)
        self.report(
            given,
            f"GPU {given.value!r} is fixed here: everyone who runs this gets that one",
            fix=fix,
            no_fix=no_fix,
        )

    def _number(self, call: ast.Call, name: str | None, last: str) -> ast.Constant | None:
        given: ast.expr | None = None
        if name in ("torch.cuda.set_device", "torch.xpu.set_device", "torch.cuda.device", "torch.xpu.device"):
            given = argument(call, "device", 0)
        elif name == "torch.device":
            first = argument(call, "device", 0) or argument(call, "type")
            given = argument(call, "index", 1) if first is not None and not _is_int(first) else first
            if given is not first and not (isinstance(first, ast.Constant) and first.value in _NUMBERED):
                return None  # `torch.device(other.type, 0)` writes an index out, or the type is the caller's
        elif name is None and last in ("cuda", "xpu") and isinstance(call.func, ast.Attribute):
            receiver = self.value_of(call.func.value)
            if receiver.is_tensor or receiver.is_module or receiver.kind == v.UNKNOWN:
                given = argument(call, "device", 0)
        return given if isinstance(given, ast.Constant) and _is_int(given) else None

    def _report_ids(self, node: ast.expr) -> None:
        self.report(
            node,
            f"the GPUs {shortened(ast.unparse(node))} are fixed here:"
            " a machine without them fails, and others go unused",
            no_fix="which GPUs there are is the caller's to say",
        )

    # --- the fix ----------------------------------------------------------------------------------------------

    def _fix(self, literal: ast.Constant) -> tuple[Fix | None, str | None]:
        """The device variable instead of the literal, where exactly one is in scope and can be the same device."""
        context, inference = self.context, self.context.inference
        call = inference.parents.get(literal)
        if isinstance(call, ast.keyword):
            call = inference.parents.get(call)
        if not isinstance(call, ast.Call):
            return None, "it is no argument of a call"
        name = self.name_of(call.func)
        owner = inference.owner(literal)
        if len(self._indices(owner)) > 1:
            return None, "the function uses several GPUs"
        variables = self._variables(literal, owner)
        if len(variables) != 1:
            return None, "no device variable is in scope" if not variables else "several device variables are in scope"
        variable, value = variables[0]
        if value.place.device and not _can_be(value, literal):
            return None, f"`{variable}` is another device"
        title = f"Use `{variable}`"
        if name == "torch.device":
            if value.kind != v.DEVICE or len(call.args) + len(call.keywords) != 1:
                return None, "the call is not a plain one"
            return rewrite.unsafe(title, rewrite.replace(context, call, variable)), None
        method = call.func.attr if isinstance(call.func, ast.Attribute) and name is None else ""
        torchs = name is not None and name.startswith("torch.")
        if method == "cuda":
            if len(call.args) > 1:
                return None, "the call has more arguments"
            _, end = context.span(call.func)
            edits = [Edit(end - len(method), end, "to"), rewrite.replace(context, literal, variable)]
            return rewrite.unsafe(title, *edits), None
        if method == "to" or (torchs and isinstance(inference.parents.get(literal), ast.keyword)):
            return rewrite.unsafe(title, rewrite.replace(context, literal, variable)), None
        return None, "what the call does with it is not known"

    def _indices(self, owner: ast.AST) -> set[str]:
        """The GPUs that a function names by literals."""
        found = set()
        for part in walk(owner):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and _numbered(part.value):
                found.add(part.value.partition(":")[2])
            elif isinstance(part, ast.Call) and _last(part) == "cuda" and _is_int(argument(part, "device", 0)):
                found.add(str(argument(part, "device", 0).value))  # type: ignore[union-attr]
        return found

    def _variables(self, literal: ast.Constant, owner: ast.AST) -> list[tuple[str, Value]]:
        """The names that hold a device wherever the literal stands: arguments, and what was assigned before it in a
        block around it. A name bound twice is none."""
        inference = self.context.inference
        scope = self.context.names.scope_of.get(owner)
        if scope is None:
            return []
        found: dict[str, Value] = {}
        if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
            for one in _required(owner.args):
                if one.annotation is None and one.arg == "device":
                    found[one.arg] = Value()
                value = inference.annotated(one.annotation, one) if one.annotation is not None else None
                if value is not None and value.kind == v.DEVICE:
                    found[one.arg] = value
        child: ast.AST = literal
        for above in inference.ancestors(literal):
            for body in (getattr(above, "body", None), getattr(above, "orelse", None)):
                if isinstance(body, list) and child in body:
                    for statement in body[: body.index(child)]:
                        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                            target = statement.targets[0]
                            value = inference.value(statement.value)
                            if isinstance(target, ast.Name) and value.kind == v.DEVICE:
                                found[target.id] = value
            if above is owner:
                break
            child = above
        return [(name, value) for name, value in found.items() if len(scope.bound.get(name, ())) == 1]


def _required(arguments: ast.arguments) -> list[ast.arg]:
    """The arguments without a default, which might be None."""
    positional = [*arguments.posonlyargs, *arguments.args]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [
        *positional[: len(positional) - len(arguments.defaults)],
        *(one for one, default in named if default is None),
    ]


def _can_be(value: Value, literal: ast.Constant) -> bool:
    """Whether a device variable of a known place can stand for the literal."""
    named = read(literal.value) if isinstance(literal.value, str) else None
    index = named.index if named is not None else literal.value
    return value.place.device == (named.type if named is not None else "cuda") and value.place.index in (None, index)


def _defaults(choice: ast.IfExp, child: ast.AST) -> bool:
    """`device if device is not None else "cuda:0"`: the other arm is what the condition asks about."""
    if child is choice.test:
        return True
    arm = choice.orelse if child is choice.body else choice.body
    other = ast.unparse(arm)
    called = {part.func for part in walk(choice.test) if isinstance(part, ast.Call)}
    names = {part.id for part in walk(arm) if isinstance(part, ast.Name)} - {"torch"}
    if any(isinstance(part, ast.Name) and part.id in names and part not in called for part in walk(choice.test)):
        return True
    asked = {
        ast.unparse(part) for part in walk(choice.test) if isinstance(part, ast.Name | ast.Attribute | ast.Subscript)
    }
    return other in asked or re.sub(r"^torch\.device\((.*)\)$", r"\1", other) in asked


def _fills_in(branch: ast.If, child: ast.AST, literal: ast.AST) -> bool:
    """`if device is None: device = "cuda:0"`."""
    if not isinstance(child, ast.Assign):
        return False
    targets = {ast.unparse(target) for target in child.targets}
    asked = {ast.unparse(part) for part in walk(branch.test) if isinstance(part, ast.Name | ast.Attribute)}
    return bool(targets & asked)
