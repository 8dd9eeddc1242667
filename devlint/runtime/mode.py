"""The function mode: every call of torch's API from Python passes here before torch sees it.

A call goes one of four ways. A function with a stand-in of its own (`transfers`, `functions`) is answered there. A
function of torch that is written in Python (torch.nn.functional, torch.nn.init, ...) is run with its own check for
modes taken out and this mode left on, so that the calls inside it come here one by one, as they reach the device on
a real machine. A call whose tensors lie in one place is made on the CPU and its result is marked with that place. A
call whose tensors lie in several places goes to `mixed`, which finds out what torch does about it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import autocast, mixed, texts
from .functions import FUNCTIONS
from .machine import Machine, current_machine
from .random_draws import DRAWS, check_generator
from .transfers import TRANSFERS, factory, is_factory

_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _no_mode(*args: object) -> bool:
    """What a function with its check taken out is told: there is no mode to ask."""
    return False


class _Overrides:
    """torch.overrides with the checks for modes taken out."""

    has_torch_function = has_torch_function_unary = has_torch_function_variadic = staticmethod(_no_mode)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.overrides, name)


class _Torch:
    """The torch module for functions that ask `torch.overrides.has_torch_function...`."""

    overrides = _Overrides()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


_opened: dict[Any, Callable[..., Any] | None] = {}
_opened_globals: dict[tuple[int, bool], dict[str, Any]] = {}


def _without_checks(space: dict[str, Any], by_name: bool) -> dict[str, Any]:
    """The globals of a module of torch with the checks taken out, `by_name` where it asks torch.overrides for them."""
    patched = _opened_globals.get((id(space), by_name))
    if patched is None:
        patched = space | {check: _no_mode for check in _CHECKS if check in space}
        if by_name and space.get("torch") is torch:
            patched["torch"] = _Torch()
        _opened_globals[id(space), by_name] = patched
    return patched


def opened(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A copy of a Python function of torch that runs its body although a mode is on; None for anything else."""
    try:
        return _opened[function]
    except KeyError:
        pass
    copy: Callable[..., Any] | None = None
    if isinstance(function, types.FunctionType):
        names = function.__code__.co_names
        if "super" in names:  # Tensor.unflatten and its kin end in the C++ method of the same name, which asks again
            pass
        elif "overrides" in names or any(check in names for check in _CHECKS):
            patched = _without_checks(function.__globals__, "overrides" in names)
            copy = types.FunctionType(
                function.__code__, patched, function.__name__, function.__defaults__, function.__closure__
            )
            copy.__kwdefaults__ = function.__kwdefaults__
            copy.__dict__.update(function.__dict__)
    _opened[function] = copy
    return copy


def places(machine: Machine, values: Iterable[Any], found: list[torch.device | None]) -> None:
    """Collect the places of the tensors in the arguments of a call, sequences and dictionaries included."""
    key = machine.key
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value.__dict__.get(key) or machine.place(value))
        elif isinstance(value, (list, tuple)):
            places(machine, value, found)
        elif isinstance(value, dict):
            places(machine, value.values(), found)


class SimulationMode(TorchFunctionMode):
    """See the module's words; one per machine and thread."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        __tracebackhide__ = True  # pytest shows the line of the test or model
        kwargs = kwargs or {}
        machine = self.machine
        if current_machine() is not machine:  # it has ended, or another one is open inside it
            return func(*args, **kwargs)
        special = TRANSFERS.get(func) or FUNCTIONS.get(func)
        if special is not None:
            return special(self, func, args, kwargs)
        body = opened(func)
        if body is not None:
            return self.run_body(body, args, kwargs)
        if is_factory(func, kwargs):
            return factory(self, func, args, kwargs)
        return self.plain(func, args, kwargs)

    def run_body(self, body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a Python function of torch with the mode on."""
        with self:
            return body(*args, **kwargs)

    def plain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call without a stand-in: check where its tensors lie, make it on the CPU, mark the result."""
        __tracebackhide__ = True
        machine = self.machine
        found: list[torch.device | None] = []
        places(machine, args, found)
        places(machine, kwargs.values(), found)
        distinct = set(found)
        if distinct == {None} or not distinct:
            if func in DRAWS:
                check_generator(machine, None, kwargs)
            return func(*args, **kwargs)
        if machine.in_engine:
            distinct.discard(None)
        if len(distinct) > 1:
            with autocast.like(machine, func, cache=False) as cast:
                return mixed.call(machine, func, cast(args), cast(kwargs))
        return self.on(distinct.pop(), func, args, kwargs)

    def on(self, place: torch.device | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call all of whose tensors lie on one simulated device."""
        machine = self.machine
        assert place is not None
        machine.start()
        draws = func in DRAWS
        if draws:
            check_generator(machine, place, kwargs)
        if not draws and not torch.is_autocast_enabled(machine.kind):
            result = func(*args, **kwargs)
        else:
            with autocast.like(machine, func) as cast:
                args, kwargs = cast(args), cast(kwargs)
                with machine.drawing(place) if draws and kwargs.get("generator") is None else nullcontext():
                    result = func(*args, **kwargs)
        if result is None or isinstance(result, (bool, int, float, torch.Size, torch.dtype)):
            return result
        if machine.kind == "mps" and isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            raise TypeError(texts.MPS_FLOAT64)
        return machine.put_all(result, place)
