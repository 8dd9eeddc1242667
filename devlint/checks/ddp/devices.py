"""Devices with a number: without it they are the current device, which is that of the process."""

from __future__ import annotations

import ast
import re

from devlint.checks.ddp.script import ByHand, Script
from devlint.checks.ddp.wrapping import Wraps
from devlint.finding import Edit
from devlint.syntax.trees import walk

_NUMBERED = re.compile(r"cuda:\d+")
_CURRENT = frozenset({"torch.cuda.set_device", "torch.cuda.device", "torch.cuda.device_of"})


def migrate(script: Script, wraps: Wraps) -> None:
    """Drop the numbers of devices. Raises ByHand where the script uses several devices, or sets the current one."""
    dropped = {id(node) for wrap in wraps.wraps for part in _devices_of(wrap.call) for node in walk(part)}
    seen: set[str] = set()
    for node in script.nodes:
        if id(node) in dropped:
            continue
        if _hides_devices(node) and script.owner(node) is not script.tree:
            line = getattr(node, "lineno", "?")
            raise ByHand(f"line {line} chooses the visible GPUs: that has to come before a process takes its own")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NUMBERED.fullmatch(node.value):
            seen.add(node.value)
            _without_number(script, node)
        elif isinstance(node, ast.JoinedStr) and _starts_with_cuda(node.values[:1]):
            seen.add(ast.unparse(node))
            _without_number(script, node)
        elif isinstance(node, ast.Call):
            _call(script, node, seen)
    if len(seen) > 1:
        raise ByHand(f"the script names several devices: {', '.join(sorted(seen))}")


def _call(script: Script, node: ast.Call, seen: set[str]) -> None:
    name = script.name(node.func)
    if name in _CURRENT:
        raise ByHand(f"line {node.lineno} chooses the current device, which is to be that of the process")
    if name == "torch.device" and len(node.args) == 2 and not node.keywords:
        seen.add(f"cuda:{ast.unparse(node.args[1])}")
        script.edits.append(Edit(script.span(node.args[0])[1], script.span(node.args[1])[1], ""))
    elif name == "torch.device" and node.args and _is_number(node.args[0]):
        seen.add(f"cuda:{ast.unparse(node.args[0])}")
        script.replace(node.args[0], '"cuda"')
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and not name and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant | ast.Subscript):
            seen.add(f"cuda:{ast.unparse(first)}")
        following = [*node.args[1:], *node.keywords]
        start, end = script.span(first)
        script.edits.append(Edit(start, script.span(following[0])[0] if following else end, ""))
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "to" and node.args and _is_number(node.args[0]):
        seen.add(f"cuda:{ast.unparse(node.args[0])}")
        script.replace(node.args[0], '"cuda"')


def _hides_devices(node: ast.AST) -> bool:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = ...`"""
    return isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES"


def _devices_of(call: ast.Call) -> list[ast.expr]:
    return [*call.args[1:], *(k.value for k in call.keywords if k.arg in ("device_ids", "output_device"))]


def _starts_with_cuda(values: list[ast.expr]) -> bool:
    return bool(values) and isinstance(values[0], ast.Constant) and str(values[0].value).startswith("cuda:")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _without_number(script: Script, node: ast.expr) -> None:
    text = script.text[script.context.span(node)[0] : script.context.span(node)[1]]
    quote = "'" if text.lstrip("fFrRuU").startswith("'") else '"'
    script.replace(node, f"{quote}cuda{quote}")
