"""The tensors that a module keeps as attributes of its own, and which attributes are registered with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.placement.values import Value
from devlint.syntax.trees import walk

Method = ast.FunctionDef | ast.AsyncFunctionDef
METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)

PLAIN_BASES = frozenset({
    "torch.nn.Module", "lightning.LightningModule", "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol",
})  # fmt: skip
"""Bases that register no tensor under a name of their own."""
_MOVERS = frozenset({"_apply", "to", "cuda", "cpu", "__setattr__", "__getattr__", "__getattribute__"})
"""Methods by which a class moves its plain attributes itself, or registers them in a way of its own."""
_TORCH_NAMES_TEXT = """
    weight bias running_mean running_var num_batches_tracked in_proj_weight in_proj_bias q_proj_weight k_proj_weight
    v_proj_weight bias_k bias_v pos_weight
"""
_TORCH_NAMES = frozenset(_TORCH_NAMES_TEXT.split())
"""What the layers and losses of torch register."""


@dataclass(frozen=True, slots=True)
class Store:
    """One place that sets an attribute of self: `value` is None where what it gets cannot be seen."""

    target: ast.Attribute
    statement: ast.stmt
    method: Method
    value: ast.expr | None


def self_name(method: Method) -> str:
    arguments = [*method.args.posonlyargs, *method.args.args]
    return arguments[0].arg if arguments else ""


def methods(class_: ast.ClassDef) -> list[Method]:
    return [statement for statement in class_.body if isinstance(statement, METHODS)]


def module_classes(context: Context) -> Iterator[ast.ClassDef]:
    """The classes of the file that are modules, whose bases are all known, and that leave it to torch to move them."""
    classes = context.inference.classes
    for node in context.classes:
        if (
            classes.kind(node) in v.MODULE_KINDS
            and classes.complete(node)
            and not any(classes.defines(node, name) for name in _MOVERS)
        ):
            yield node


def stores(context: Context, class_: ast.ClassDef) -> dict[str, list[Store]]:
    """All places in the class's own methods that set an attribute of self."""
    memo: dict[ast.ClassDef, dict[str, list[Store]]] = context.memo.setdefault("stores", {})
    if class_ not in memo:
        memo[class_] = _stores(class_)
    return memo[class_]


def _stores(class_: ast.ClassDef) -> dict[str, list[Store]]:
    found: dict[str, list[Store]] = {}
    for method in methods(class_):
        own = self_name(method)
        for statement in walk(method):
            if not isinstance(statement, ast.stmt):
                continue
            for target in _targets(statement):
                if isinstance(target, ast.Attribute) and path_of(target.value) == own:
                    value = _value_of(statement, target)
                    found.setdefault(target.attr, []).append(Store(target, statement, method, value))
    return found


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement sets or deletes itself, not the statements in it."""
    for field in ("targets", "target", "items"):
        held = getattr(statement, field, None)
        for part in held if isinstance(held, list) else [held]:
            for node in walk(part) if isinstance(part, ast.AST) else ():
                if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    yield node


def _value_of(statement: ast.stmt, target: ast.expr) -> ast.expr | None:
    if isinstance(statement, ast.Assign) and target in statement.targets:
        return statement.value
    return statement.value if isinstance(statement, ast.AnnAssign) and statement.target is target else None


def registered(context: Context, class_: ast.ClassDef) -> frozenset[str] | None:
    """The names that the class and its bases register or may set in other ways; None where that could be any name."""
    found: set[str] = set()
    classes = context.inference.classes
    own_file_registers = not _REGISTERS.isdisjoint(context.seen.calls)
    family = [base for base in classes.family(class_) if own_file_registers or base not in context.inference.parents]
    if any(
        isinstance(base, str) and not context.inference.facts.is_own(base)
        for base in set(classes.lineage(class_)) - PLAIN_BASES
    ):
        found |= _TORCH_NAMES
    for base in family:
        for node in walk(base):
            if not isinstance(node, ast.Call):
                continue
            last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if last not in _REGISTERS:
                continue
            arguments = node.args[1:] if last == "setattr" else node.args
            named = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
            name = next(iter([*named, *arguments]), None)
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                return None
            found.add(name.value)
    return frozenset(found)


_REGISTERS = frozenset(
    {"register_buffer", "register_parameter", "register_module", "add_module", "add_state", "setattr"}
)


def set_elsewhere(context: Context, class_: ast.ClassDef, name: str) -> bool:
    """Whether the attribute is set on another object than self, or in a related class: `net.scale = ...`."""
    inference = context.inference
    family = inference.classes.family(class_)
    if any(name in stores(context, base) for base in family if base not in inference.parents):
        return True
    for node in inference.parents:
        if not (isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load)):
            continue
        owner = inference.owner(node)
        home = inference.parents.get(owner)
        if not isinstance(owner, METHODS) or not isinstance(home, ast.ClassDef):
            return True
        if path_of(node.value) != self_name(owner):
            return True
        if home is not class_ and (home in family or class_ in inference.classes.lineage(home)):
            return True
    return False


def attribute_read(context: Context, expression: ast.expr) -> tuple[ast.ClassDef, str] | None:
    """The attribute of self from which an operand is taken: `self.pe[:, :n]` and, by a local name, `pe.to(x.dtype)`."""
    inference = context.inference
    for _ in range(50):
        if isinstance(expression, ast.Attribute):
            if isinstance(expression.value, ast.Name):
                node = inference.value(expression.value).node
                return (node, expression.attr) if isinstance(node, ast.ClassDef) else None
            expression = expression.value
        elif isinstance(expression, ast.Subscript):
            expression = expression.value
        elif isinstance(expression, ast.UnaryOp):
            expression = expression.operand
        elif isinstance(expression, ast.Call):
            expression = expression.func
        elif isinstance(expression, ast.BinOp):
            sides = [side for side in (expression.left, expression.right) if _on_host(inference.value(side))]
            if len(sides) != 1:
                return None
            expression = sides[0]
        elif isinstance(expression, ast.Name):
            source = only_source(context, expression)
            if source is None:
                return None
            expression = source
        else:
            return None
    return None


def _on_host(value: Value) -> bool:
    return value.is_tensor and value.place.is_cpu


def only_source(context: Context, name: ast.Name) -> ast.expr | None:
    """What the function assigns to a local name, where it does so in one place only."""
    owner = context.inference.owner(name)
    bound = [
        node
        for node in walk(owner)
        if isinstance(node, ast.Name) and node.id == name.id and not isinstance(node.ctx, ast.Load)
    ]
    arguments = getattr(owner, "args", None)
    if len(bound) != 1 or (
        arguments is not None and any(isinstance(a, ast.arg) and a.arg == name.id for a in walk(arguments))
    ):
        return None
    above = context.inference.parents.get(bound[0])
    if isinstance(above, ast.Assign) and above.targets == [bound[0]]:
        return above.value
    return above.value if isinstance(above, ast.AnnAssign | ast.NamedExpr) else None


def building_methods(class_: ast.ClassDef) -> set[str]:
    """The methods that run while an instance is made."""
    return methods_run_by(class_, "__init__")


def methods_run_by(class_: ast.ClassDef, start: str) -> set[str]:
    """A method of a class, what it calls on self, and what that calls."""
    by_name = {method.name: method for method in methods(class_)}
    found = {start}
    stack = [start]
    while stack:
        method = by_name.get(stack.pop())
        for node in walk(method) if method is not None else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and method is not None:
                called = node.func.attr
                if path_of(node.func.value) == self_name(method) and called not in found:
                    found.add(called)
                    stack.append(called)
    return found
