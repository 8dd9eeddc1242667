"""Stand-ins for torch.cuda, torch.xpu, torch.mps and torch.accelerator: what a program asks about its devices."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import generators, streams
from .machine import KINDS, MEMORY, Machine, current_machine
from .patches import Patches


@dataclass(frozen=True)
class Properties:
    """torch.cuda.get_device_properties of a simulated device; memory in bytes."""

    name: str
    major: int = 8
    minor: int = 0
    total_memory: int = MEMORY
    multi_processor_count: int = 64
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""


def name(machine: Machine, device: Any = None) -> str:
    """The name of a device: says what it is."""
    return f"Simulated {machine.kind} device {machine.index_of(device)}"


def _properties(machine: Machine, device: Any = None) -> Properties:
    if isinstance(device, int) and not 0 <= device < machine.count:
        raise AssertionError("Invalid device id")  # torch/cuda/__init__.py, get_device_properties
    return Properties(name(machine, device))


def _set_device(machine: Machine, device: Any) -> None:
    if isinstance(device, int) and device < 0:
        return
    machine.current = machine.index_of(device)


def _exchange(machine: Machine, index: int) -> int:
    """Change the current device and say which it was; a negative index changes nothing."""
    if index < 0:
        return -1
    before = machine.current
    machine.current = machine.device(index).index
    return before


def _current(machine: Machine) -> int:
    machine.start()
    return machine.current


def _synchronize(machine: Machine, device: Any = None) -> None:
    machine.start()
    machine.index_of(device)


def _seed(machine: Machine, seed: int) -> None:
    if machine.count:
        machine.generators[machine.current].manual_seed(int(seed))


def _seed_all(machine: Machine, seed: int) -> None:
    for generator in machine.generators:
        generator.manual_seed(int(seed))


def _random_seed(machine: Machine) -> int:
    return machine.generators[machine.current].seed()


def _rng_state(machine: Machine, device: Any = None) -> torch.Tensor:
    return machine.generators[machine.index_of(device)].get_state()


def _set_rng_state(machine: Machine, state: torch.Tensor, device: Any = None) -> None:
    machine.generators[machine.index_of(device)].set_state(state)


def _set_rng_states(machine: Machine, states: Any) -> None:
    for generator, state in zip(machine.generators, states, strict=False):
        generator.set_state(state)


def _memory(machine: Machine, device: Any = None) -> int:
    return machine.allocated(machine.index_of(device))


def _peak(machine: Machine, device: Any = None) -> int:
    index = machine.index_of(device)
    machine.allocated(index)
    return machine.peak[index]


def _reset_peak(machine: Machine, device: Any = None) -> None:
    machine.peak[machine.index_of(device)] = 0


def _memory_info(machine: Machine, device: Any = None) -> tuple[int, int]:
    return MEMORY - _memory(machine, device), MEMORY


def _nothing(machine: Machine, *args: Any, **kwargs: Any) -> None:
    machine.start()


_ANSWERS: dict[str, Callable[..., Any]] = {
    "is_available": lambda machine: machine.count > 0,
    "device_count": lambda machine: machine.count,
    "is_initialized": lambda machine: machine.started,
    "is_bf16_supported": lambda machine, *args, **kwargs: True,
    "_is_in_bad_fork": lambda machine: False,
    "current_device": _current,
    "set_device": _set_device,
    "_exchange_device": _exchange,
    "_maybe_exchange_device": _exchange,
    "get_device_name": name,
    "get_device_capability": lambda machine, device=None: (8, 0),
    "get_device_properties": _properties,
    "can_device_access_peer": lambda machine, device, peer: machine.index_of(device) != machine.index_of(peer),
    "get_arch_list": lambda machine: ["sm_80"],
    "synchronize": _synchronize,
    "init": _nothing,
    "_lazy_init": _nothing,
    "empty_cache": lambda machine: None,
    "ipc_collect": _nothing,
    "is_current_stream_capturing": lambda machine: False,  # every step of an optimizer asks, on a build with CUDA
    "manual_seed": _seed,
    "manual_seed_all": _seed_all,
    "seed": _random_seed,
    "seed_all": lambda machine: _seed_all(machine, torch.initial_seed()),
    "initial_seed": lambda machine: machine.generators[machine.current].initial_seed(),
    "get_rng_state": _rng_state,
    "get_rng_state_all": lambda machine: [generator.get_state() for generator in machine.generators],
    "set_rng_state": _set_rng_state,
    "set_rng_state_all": _set_rng_states,
    "memory_allocated": _memory,
    "memory_reserved": _memory,
    "max_memory_allocated": _peak,
    "max_memory_reserved": _peak,
    "reset_peak_memory_stats": _reset_peak,
    "reset_max_memory_allocated": _reset_peak,
    "memory_stats": lambda machine, device=None: {"allocated_bytes.all.current": _memory(machine, device)},
    "memory_summary": lambda machine, device=None, abbreviated=False: f"{_memory(machine, device)} bytes (simulated)",
    "mem_get_info": _memory_info,
    "current_stream": streams.current,
    "default_stream": streams.default,
    "set_stream": streams.choose,
}

# torch.mps has names of its own, and one device
_MPS_ANSWERS: dict[str, Callable[..., Any]] = {
    "is_available": _ANSWERS["is_available"],
    "device_count": _ANSWERS["device_count"],
    "_is_in_bad_fork": _ANSWERS["_is_in_bad_fork"],
    "synchronize": _synchronize,
    "empty_cache": _ANSWERS["empty_cache"],
    "manual_seed": _seed_all,
    "seed": _random_seed,
    "get_rng_state": _rng_state,
    "set_rng_state": lambda machine, state: machine.generators[0].set_state(state),
    "current_allocated_memory": lambda machine: machine.allocated(0),
    "driver_allocated_memory": lambda machine: machine.allocated(0),
    "recommended_max_memory": lambda machine: MEMORY,
}

# what torch.accelerator asks C++ (torch/csrc/DeviceAccelerator.cpp)
_ACCELERATOR: dict[str, Callable[..., Any]] = {
    "_accelerator_deviceCount": lambda machine: machine.count,  # torch 2.6
    "_accelerator_getAccelerator": lambda machine: torch.device(machine.kind),
    "_get_accelerator": lambda machine, check=None: torch.device(machine.kind if machine.count else "cpu"),
    "_accelerator_getDeviceIndex": _current,
    "_accelerator_setDeviceIndex": _set_device,
    "_accelerator_exchangeDevice": _exchange,
    "_accelerator_maybeExchangeDevice": _exchange,
    "_accelerator_getDeviceCapability": lambda machine, index: {},
    "_accelerator_synchronizeDevice": _synchronize,
    "_accelerator_getStream": streams.current,
    "_accelerator_setStream": streams.choose,
    "_accelerator_emptyCache": lambda machine: None,
    "_accelerator_getMemoryInfo": _memory_info,
    "_accelerator_getDeviceStats": lambda machine, index: {
        "allocated_bytes": {"all": {"current": _memory(machine, index)}}
    },
    "_accelerator_resetAccumulatedStats": lambda machine, index: None,
    "_accelerator_resetPeakStats": _reset_peak,
}


def _class(owner: Any, attribute: str, simulated: type, kind: str | None) -> Any:
    """A class that makes `simulated` objects inside a simulation and the original's outside."""
    original = getattr(owner, attribute)

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            machine = current_machine()
            if machine is None or (kind is not None and machine.kind != kind):
                return original(*args, **kwargs)
            return simulated(*args, **kwargs)

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, (simulated, original))

        def __subclasscheck__(cls, value: type) -> bool:
            return issubclass(value, (simulated, original))

    return Meta(attribute, (), {"__doc__": original.__doc__, "__module__": original.__module__})


def _stream_context(machine: Machine, stream: Any) -> Any:
    return _NoStream() if stream is None else stream


class _NoStream:
    """torch.cuda.stream(None) changes nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


class _LegacyType(type):
    """torch.cuda.FloatTensor and its kin: constructors, and types to test against."""

    plain: Any
    dtype: torch.dtype
    is_cuda = True

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        machine = current_machine()
        assert machine is not None
        return machine.put_all(cls.plain(*args, **kwargs), machine.device(None))

    def __instancecheck__(cls, value: object) -> bool:
        machine = current_machine()
        return (
            machine is not None
            and isinstance(value, torch.Tensor)
            and machine.place(value) is not None
            and value.dtype == cls.dtype
        )


_LEGACY = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


def _legacy(patches: Patches) -> None:
    for short in _LEGACY:
        attribute = f"{short}Tensor"
        original = getattr(torch.cuda, attribute)
        body = {"plain": getattr(torch, attribute), "dtype": original.dtype, "__module__": "torch.cuda"}
        patches.set(torch.cuda, attribute, _LegacyType(attribute, (), body))


def _default_tensor_type(patches: Patches) -> None:
    """torch.set_default_tensor_type: a device type is a default device and a default dtype."""
    original = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        machine = current_machine()
        named = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        if machine is None:
            return original(kind)
        if named.startswith(f"torch.{machine.kind}."):
            torch.set_default_device(machine.kind)
            return torch.set_default_dtype(getattr(torch, named.rpartition(".")[2]).dtype)
        torch.set_default_device(None)
        return original(kind)

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)


def _parse_to(patches: Patches) -> None:
    """Module.to(1): torch._C._nn._parse_to asks C++ what the number means."""
    original = torch._C._nn._parse_to

    def parse(*args: Any, **kwargs: Any) -> Any:
        machine = current_machine()
        if machine is not None:
            if args and type(args[0]) is int:
                args = (torch.device(machine.kind, args[0]), *args[1:])
            if type(kwargs.get("device")) is int:
                kwargs["device"] = torch.device(machine.kind, kwargs["device"])
        return original(*args, **kwargs)

    patches.set(torch._C._nn, "_parse_to", parse)


def _parameter(patches: Patches) -> None:
    """nn.Parameter(tensor) lies where the tensor lies: the call that makes it does not pass through the mode."""
    original = torch.nn.Parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        made = original(cls, data, requires_grad)
        machine = current_machine()
        if machine is not None and isinstance(data, torch.Tensor):
            machine.put(made, machine.place(data))
        return made

    patches.set(torch.nn.Parameter, "__new__", staticmethod(new))


def _backward(patches: Patches) -> None:
    """torch.autograd.backward, where it asks no mode (2.6.0) and so does not come through `functions`."""
    original = torch.autograd.backward
    if "has_torch_function" in original.__code__.co_names:
        return

    def backward(machine: Machine, *args: Any, **kwargs: Any) -> None:
        with machine.engine():
            original(*args, **kwargs)

    patches.stand_in(torch.autograd, "backward", backward)


def _uncompiled(machine: Machine, model: Any = None, **how: Any) -> Any:
    """torch.compile, as a call and as a decorator with arguments, which leaves things as they are."""
    return (lambda function: function) if model is None else model


def _script(original: Any) -> Any:
    """torch.jit.script, which leaves plain functions as they are."""

    def script(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
        if current_machine() is not None and isinstance(obj, types.FunctionType):
            return obj
        return original(obj, *args, **kwargs)

    return script


def install(patches: Patches) -> None:
    """Put the stand-ins in place."""
    for kind in KINDS:
        module = getattr(torch, kind)
        for attribute, answer in (_MPS_ANSWERS if kind == "mps" else _ANSWERS).items():
            if hasattr(module, attribute):
                patches.stand_in(module, attribute, answer, kind)
        if kind != "mps":
            patches.stand_in(module, "stream", _stream_context, kind)
            patches.set(module, "Stream", _class(module, "Stream", streams.Stream, kind))
            patches.set(module, "Event", _class(module, "Event", streams.Event, kind))
    for attribute in ("is_available", "is_built"):
        patches.stand_in(torch.backends.mps, attribute, _ANSWERS["is_available"], "mps")
    for attribute, answer in _ACCELERATOR.items():
        if hasattr(torch._C, attribute):
            patches.stand_in(torch._C, attribute, answer)
    patches.set(torch, "Stream", _class(torch, "Stream", streams.Stream, None))
    patches.set(torch, "Event", _class(torch, "Event", streams.Event, None))
    patches.set(torch, "Generator", generators.Generator)
    patches.set(torch, "device", generators.Device)
    _legacy(patches)
    _default_tensor_type(patches)
    _parse_to(patches)
    _parameter(patches)
    _backward(patches)
    # without cuDNN in the build torch warns at every recurrent layer on a device
    patches.stand_in(torch.backends.cudnn, "is_acceptable", lambda machine, tensor: False, "cuda")
    # compiled code would run out of sight too; uncompiled it does the same
    patches.stand_in(torch, "compile", _uncompiled)
    patches.stand_in(torch.nn.Module, "compile", lambda machine, module, *args, **kwargs: None)
    # a scripted function would run out of sight, in C++; unscripted it does the same
    patches.set(torch.jit, "script", _script(torch.jit.script))
    for attribute in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        patches.stand_in(torch.cuda.nvtx, attribute, lambda machine, *args: 0)
    # tells the allocator about a stream; C++ would not take the stand-in for one
    patches.stand_in(torch.Tensor, "record_stream", lambda machine, tensor, stream: None)
