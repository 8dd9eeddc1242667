"""Functions of other files: what they do with the model is not seen, so it is left alone."""

from __future__ import annotations

import ast

from devlint.checks.ddp.loaders import Loop
from devlint.checks.ddp.output import Output, is_foreign
from devlint.checks.ddp.script import ByHand, Script
from devlint.checks.ddp.wrapping import Wraps
from devlint.syntax.trees import last_name, walk

_WITHOUT_FORWARD = frozenset(
    {
        *("state_dict", "load_state_dict", "parameters", "named_parameters", "modules", "named_modules", "train"),
        *("eval", "zero_grad", "apply", "children", "named_children", "buffers", "to", "cuda", "cpu"),
    }
)


def check(script: Script, wraps: Wraps, loop: Loop, output: Output) -> None:
    """Raises ByHand for a call into another file that takes the model, and for one of the model past its wrapper."""
    steps = [script.owner(c) for c in script.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "backward"]
    within = {node for place in (loop.node, *steps) for node in walk(place)}
    for call in script.calls:
        name = script.name(call.func)
        if call in within and _goes_past(wraps, call):
            raise ByHand(f"line {call.lineno} calls the model past its wrapper, which then does not average gradients")
        if not is_foreign(name) or output.group_of(call) is not None:
            continue
        parts = [part for value in _values(call) for part in walk(value)]
        if any(wraps.holds(part) or getattr(part, "attr", "") == "state_dict" for part in parts):
            raise ByHand(f"what `{last_name(call.func)}` of another file does in line {call.lineno}")


def _goes_past(wraps: Wraps, call: ast.Call) -> bool:
    """`model.module(x)`, `model.module.encode(x)` in training."""
    node: ast.AST = call.func
    last = node.attr if isinstance(node, ast.Attribute) else ""
    while isinstance(node, ast.Attribute):
        if node.attr == "module" and wraps.holds(node.value):
            return last not in _WITHOUT_FORWARD
        node = node.value
    return False


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]
