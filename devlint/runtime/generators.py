"""torch.Generator and torch.device while a simulation lasts.

torch.Generator(device="cuda") and torch.device(1) ask C++ for an accelerator and fail where torch was built without
one, so the two names stand for classes that make the same objects.
"""

from __future__ import annotations

from typing import Any

import torch

from .machine import Machine, current_machine

_Generator = torch._C.Generator
_device = torch.device


class SimulatedGenerator(_Generator):
    """A CPU generator that says it belongs to a simulated device."""

    place: torch.device

    def __new__(cls, place: torch.device) -> SimulatedGenerator:
        self = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        self.place = place
        return self

    def __init__(self, place: torch.device) -> None:
        pass

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The simulated device."""
        return self.place


class _GeneratorType(type):
    def __call__(cls, device: Any = "cpu") -> Any:
        machine = current_machine()
        if machine is None:
            return _Generator(device)
        place, real = machine.resolve(device)
        return _Generator(real) if place is None else SimulatedGenerator(place)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Generator)

    def __subclasscheck__(cls, value: type) -> bool:
        return issubclass(value, _Generator)


class Generator(metaclass=_GeneratorType):
    """Stands for torch.Generator: makes one of a simulated device where such a device is named."""


class _DeviceType(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        machine = current_machine()
        if machine is not None and machine.count and len(args) == 1 and not kwargs and type(args[0]) is int:
            return _device(machine.kind, args[0])
        return _device(*args, **kwargs)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _device)

    def __subclasscheck__(cls, value: type) -> bool:
        return issubclass(value, _device)


class Device(metaclass=_DeviceType):
    """Stands for torch.device: a bare number is a device of the simulated kind."""


Device.__name__ = Device.__qualname__ = "device"
Device.__module__ = "torch"


def default_generators(machine: Machine) -> tuple[SimulatedGenerator, ...]:
    """torch.cuda.default_generators: objects that follow the state of the machine's own generators."""
    made = []
    for place, generator in zip(machine.devices, machine.generators, strict=True):
        copy = SimulatedGenerator(place)
        copy.set_state(generator.get_state())
        made.append(copy)
    return tuple(made)
