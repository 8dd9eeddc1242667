"""A call whose tensors lie in several places: find out whether torch takes it, and with which words it does not.

The call is made on the CPU once more under a dispatch mode, which sees it as the operators that it comes down to
(F.linear as addmm, an assignment to a slice as copy_). Each operator is judged by its row in `rules` before it runs,
as its kernel on an accelerator would: the first that refuses raises torch's error, with the argument and the wrapper
named in it. When none refuses, every result has been marked on the way. This costs some 50 microseconds an operator,
and only calls on mixed places pay it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import texts
from .machine import Machine
from .rules import FREE, ROWS, Operand, default_rule

_CPU = torch.device("cpu")


def call(machine: Machine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the call, judged operator by operator. Raises the error that torch raises on such a machine."""
    __tracebackhide__ = True
    machine.start()
    try:
        with Judge(machine):
            return func(*args, **kwargs)
    except RuntimeError as error:
        raise error.with_traceback(None) from None  # the way through the judging tells a user nothing


def checked(machine: Machine, common: torch.device, place: torch.device, argument: str, name: str) -> RuntimeError:
    """The error of the check in front of an unstructured kernel; `name` is the operator's, without overload."""
    if machine.kind == "mps":
        return RuntimeError(texts.MPS_PLACEHOLDER)
    return texts.checked_argument(common, place, argument, f"wrapper_{machine.kind.upper()}__{name}")


def operands(machine: Machine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Operand]:
    """The tensors among the arguments of an operator, in the order of its schema, outputs first as torch takes them."""
    found: list[Operand] = []
    values = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    for argument in func._schema.arguments:
        value = values.get(argument.name)
        items = value if isinstance(value, (list, tuple)) else (value,)
        written = argument.alias_info is not None and argument.alias_info.is_write
        for position, item in enumerate(items):
            if isinstance(item, torch.Tensor):
                place = machine.place(item) or _CPU
                found.append(Operand(argument.name, item, place, item.dim(), written, argument.is_out, position))
    return found


class Judge(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Judges every operator of one call."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: the wrapper that this would put around `__torch_dispatch__` costs more than the judging."""
        return False

    def __init__(self, machine: Machine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.machine = machine

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        machine, kwargs = self.machine, kwargs or {}
        found = operands(machine, func, args, kwargs)
        name = func._schema.name.partition("::")[2]
        place: Any = found[0].place if found else _CPU
        if len({operand.place for operand in found}) > 1 and not machine.in_engine:
            rule = ROWS.get(name)
            if rule is not None:
                place = rule(machine, found)
            elif name.startswith("_foreach_"):
                return self.one_by_one(func, args, kwargs, found)
            elif name not in FREE:
                place = default_rule(machine, func._schema, found)
        elif machine.in_engine:
            place = next((operand.place for operand in found if operand.place != _CPU), _CPU)
        result = func(*args, **kwargs)
        known = {id(operand.tensor) for operand in found}
        self.mark(result, None if place == _CPU else place, known)
        return result

    def mark(self, result: Any, place: torch.device | None, known: set[int]) -> None:
        """Mark new tensors; what came in keeps its place."""
        if isinstance(result, torch.Tensor):
            if id(result) not in known:
                self.machine.put(result, place)
        elif isinstance(result, (list, tuple)):
            for item in result:
                self.mark(item, place, known)

    def one_by_one(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: list[Operand]) -> Any:
        """_foreach_*: on mixed devices torch takes the slow way, tensor by tensor (aten/.../ForeachUtils.h)."""
        length = 1 + max(operand.position for operand in found)
        lists = {operand.argument for operand in found if operand.position > 0}
        for position in range(length):
            group = [operand for operand in found if operand.position == position or operand.argument not in lists]
            if len({operand.place for operand in group}) > 1:
                default_rule(self.machine, func._schema, group)
        first = {operand.position: operand.place for operand in reversed(found)}
        result = func(*args, **kwargs)
        if isinstance(result, (list, tuple)):
            for position, item in enumerate(result):
                place = first.get(position, _CPU)
                self.machine.put(item, None if place == _CPU else place)
        return result
