"""Layers that do not take part in every step: DistributedDataParallel waits for their gradients, and stops."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from devlint.checks.ddp.script import ByHand, Script, method
from devlint.checks.ddp.wrapping import Wraps
from devlint.placement import values as v
from devlint.placement.infer import FUNCTIONS, Function
from devlint.syntax.trees import children, walk

_WITHOUT_PARAMETERS = ("ReLU", "Dropout", "Pool", "Loss", "Softmax", "LogSoftmax", "Sigmoid", "Tanh", "Flatten", "GELU")
_WITHOUT_PARAMETERS_TOO = ("ReLU6", "LeakyReLU", "ELU", "SiLU", "Identity", "Upsample", "Softplus", "Unflatten")
_LIBRARIES = ("torch.nn.", "torchvision.models.", "timm.")
_ALL = frozenset({"children", "named_children", "modules", "_modules", "parameters"})


def check(script: Script, wraps: Wraps) -> None:
    """Raises ByHand for a layer of a module of this file that `forward` may not use, and for an output left unread."""
    for class_ in (node for node in script.nodes if isinstance(node, ast.ClassDef)):
        forward = method(class_, "forward")
        init = method(class_, "__init__")
        if forward is None or init is None or script.context.inference.classes.kind(class_) not in v.MODULE_KINDS:
            continue
        used = _Used(class_).of(forward, frozenset())
        for layer, name in _layers(script, init):
            if name not in used and not used & _ALL:
                raise ByHand(
                    f"the layer of line {layer.lineno} is not used in every `forward`: no gradient comes for it"
                )
    _check_outputs(script, wraps)


def _check_outputs(script: Script, wraps: Wraps) -> None:
    for node in script.nodes:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and wraps.holds(node.value.func)):
            continue
        for target in (part for one in node.targets if isinstance(one, ast.Tuple) for part in one.elts):
            read = {n.id for n in script.own_nodes(script.owner(node)) if isinstance(n, ast.Name) and _loads(n)}
            if isinstance(target, ast.Name) and target.id not in read:
                raise ByHand(
                    f"an output of the model in line {node.lineno} is not used: its layers may get no gradient"
                )


def _layers(script: Script, init: Function) -> Iterator[tuple[ast.Call, str]]:
    """The attributes that `__init__` makes of something that may have parameters."""
    for node in walk(init):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        name = script.name(node.value.func)
        library = name.startswith(_LIBRARIES) and not name.startswith(("torch.nn.functional.", "torch.nn.init."))
        without = name.rstrip("123d").endswith((*_WITHOUT_PARAMETERS, *_WITHOUT_PARAMETERS_TOO))
        if (library and not without) or script.called(node.value) is not None or _is_module(script, node.value):
            for target in node.targets:
                if (attribute := _own(target)) is not None:
                    yield node.value, attribute


def _is_module(script: Script, call: ast.Call) -> bool:
    """Whether a class of this file without an `__init__` of its own is made, as `Block()`."""
    wanted = call.func.id if isinstance(call.func, ast.Name) else ""
    return any(isinstance(n, ast.ClassDef) and n.name == wanted for n in script.tree.body)


class _Used:
    """The attributes of self that a method reads whenever it runs, in the methods that it calls too."""

    def __init__(self, class_: ast.ClassDef) -> None:
        self._class = class_

    def of(self, function: Function, around: frozenset[ast.AST]) -> set[str]:
        return self._block(function.body, around | {function})

    def _block(self, block: Iterable[ast.stmt], around: frozenset[ast.AST]) -> set[str]:
        found: set[str] = set()
        for statement in block:
            found |= self._statement(statement, around)
            if any(isinstance(part, ast.Return | ast.Continue | ast.Break) for part in walk(statement)):
                break
        return found

    def _statement(self, node: ast.stmt, around: frozenset[ast.AST]) -> set[str]:
        if isinstance(node, ast.If):
            first, second = self._block(node.body, around), self._block(node.orelse, around)
            asked = self._expression(node.test, around)
            if node.body and isinstance(node.body[-1], ast.Raise):
                return asked | second
            if _is_there(node.test):  # `if self.layer is not None:`
                return asked | second
            return (asked - first) | (first & second)
        if isinstance(node, ast.For):
            return self._expression(node.iter, around) | self._block(node.body, around)
        if isinstance(node, ast.With):
            if any("no_grad" in ast.unparse(item) or "inference_mode" in ast.unparse(item) for item in node.items):
                return set()
            return self._block(node.body, around)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.While, ast.Try)):
            return set()
        return self._expression(node, around)

    def _expression(self, node: ast.AST, around: frozenset[ast.AST]) -> set[str]:
        if isinstance(node, ast.IfExp):
            parts = self._expression(node.body, around), self._expression(node.orelse, around)
            asked = self._expression(node.test, around)
            return asked if _is_there(node.test) else (asked - parts[0]) | (parts[0] & parts[1])
        if isinstance(node, ast.BoolOp):
            return self._expression(node.values[0], around)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach":
            return set()
        name = _own(node)
        if name is not None and _loads(node):
            called = method(self._class, name)
            if called is None:
                return {name}
            return {name} if called in around else {name} | self.of(called, around)
        found: set[str] = set()
        for child in children(node):
            found |= self._expression(child, around)
        return found


def _is_there(test: ast.expr) -> bool:
    """`self.layer`, `self.layer is not None`: the layer is there exactly where it is used."""
    if isinstance(test, ast.Compare):
        none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        return none and isinstance(test.ops[0], ast.IsNot) and _own(test.left) is not None
    return False


def _own(node: ast.AST) -> str | None:
    """The X of `self.X`."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if own and isinstance(node, ast.Attribute) else None


def _loads(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)
