"""What makes, moves and looks at places: the getters of a tensor, `.to` and its kin, and `device=` of the factories.

Each stand-in takes (mode, the function of torch, its arguments) and does the work on the CPU. A transfer copies, as it
does between devices, so nothing is shared that would not be shared there; where nothing moves, torch's own rule holds
(`.to` gives the tensor itself back). Autograd sees the copy as it sees one between devices (ToCopyBackward).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _device as default_device

from . import texts
from .machine import Machine
from .random_draws import DRAWS, check_generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from .mode import SimulationMode

    Args = tuple[Any, ...]
    Kwargs = dict[str, Any]
    StandIn = Callable[[SimulationMode, Any, Args, Kwargs], Any]

_CPU = torch.device("cpu")
_CONSTRUCTORS = frozenset(default_device._device_constructors())
_FROM_DATA = frozenset([torch.tensor, torch.as_tensor, torch.asarray])
# constructors that lie where the tensors lie that they are made of
_FROM_PARTS = frozenset(
    getattr(torch, f"sparse_{layout}_tensor") for layout in ("coo", "csr", "csc", "bsr", "bsc", "compressed")
)


# getters


def _get_device_attribute(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    place = mode.machine.place(args[0])
    return func(*args, **kwargs) if place is None else place


def _is_kind(kind: str) -> StandIn:
    def answer(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
        place = mode.machine.place(args[0])
        return func(*args, **kwargs) if place is None else place.type == kind

    return answer


def _get_device(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    place = mode.machine.place(args[0] if args else kwargs["input"])
    return func(*args, **kwargs) if place is None else place.index


def _get_grad(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A gradient lies where its tensor lies: the engine that made it wrote no place on it."""
    machine = mode.machine
    grad = func(*args, **kwargs)
    if grad is not None and machine.place(grad) is None:
        place = machine.place(args[0])
        if place is not None:
            machine.put(grad, place)
    return grad


def _set_grad(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    machine = mode.machine
    tensor, grad = args
    if isinstance(grad, torch.Tensor):
        here, there = machine.place(tensor), machine.place(grad)
        if here != there and not (machine.in_engine and there is None):
            raise texts.gradient_elsewhere(there or _CPU, here or _CPU)
    return func(*args, **kwargs)


def _set_data(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    result = func(*args, **kwargs)
    mode.machine.put(args[0], mode.machine.place(args[1]))
    return result


def _type(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Tensor.type: the name with the place in it, or a cast to a type whose name says where it lies."""
    machine = mode.machine
    tensor = args[0]
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if wanted is None:
        return type_name(machine, tensor)
    if isinstance(wanted, torch.dtype):
        return to(mode, torch.Tensor.to, (tensor, wanted), {})
    if not isinstance(wanted, str):
        wanted = f"{wanted.__module__}.{wanted.__name__}"
    module, _, name = wanted.rpartition(".")
    plain = getattr(torch, name, None)
    kind = module.removeprefix("torch").removeprefix(".") or "cpu"
    if plain is None or kind not in ("cpu", machine.kind):
        return func(*args, **kwargs)
    return to(mode, torch.Tensor.to, (tensor,), {"device": kind, "dtype": plain.dtype})


def type_name(machine: Machine, tensor: torch.Tensor) -> str:
    """ "torch.cuda.FloatTensor": the type of a tensor as torch names it in messages."""
    with torch._C.DisableTorchFunction():
        name = tensor.type()
    place = machine.place(tensor)
    return name if place is None else name.replace("torch.", f"torch.{place.type}.", 1)


# transfers


def move(
    machine: Machine, tensor: torch.Tensor, place: torch.device | None, real: torch.device = _CPU, **how: Any
) -> Any:
    """`tensor.to(...)`; the result lies at `place`, and is the tensor itself only where nothing changes."""
    here = machine.place(tensor)
    with torch._C.DisableTorchFunction():
        if here == place and real == _CPU and not tensor.is_meta:
            moved = tensor.to(**how) if how else tensor
        else:
            how["copy"] = how.get("copy", False) or here != place
            moved = tensor.to(real, **how)
    if moved is tensor:
        return tensor
    if machine.kind == "mps" and place is not None and moved.dtype == torch.float64:
        raise TypeError(texts.MPS_FLOAT64)
    machine.put(moved, place)
    return moved


def to(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Tensor.to in its three forms: a dtype, a device (and dtype), another tensor."""
    machine = mode.machine
    tensor, rest, how = args[0], list(args[1:]), dict(kwargs)
    device = how.pop("device", None)
    other = how.pop("other", None)
    names = ["non_blocking", "copy"]
    if rest:
        first = rest[0]
        if isinstance(first, torch.Tensor):
            other = rest.pop(0)
        elif isinstance(first, torch.dtype):
            names = ["dtype", *names]
        elif first is None or isinstance(first, (str, int, torch.device)):
            device = rest.pop(0)
            names = ["dtype", *names]
        else:
            return func(*args, **kwargs)  # raises its TypeError
    if len(rest) > len(names) or any(name in how for name in names[: len(rest)]):
        return func(*args, **kwargs)
    how.update(zip(names, rest, strict=False))
    if how.get("dtype", False) is None:
        del how["dtype"]
    place, real = machine.place(tensor), _CPU
    if other is not None:
        how["dtype"] = other.dtype
        with torch._C.DisableTorchFunction():
            place, real = machine.place(other), other.device
    elif device is not None:
        place, real = machine.resolve(device)
    elif machine.place(tensor) is None:
        return func(*args, **kwargs)
    return move(machine, tensor, place, real, **how)


def _to_kind(kind: str, refusal: str) -> StandIn:
    """Tensor.cuda and Tensor.xpu."""

    def transfer(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
        machine = mode.machine
        if machine.kind != kind:
            return func(*args, **kwargs)
        how = dict(kwargs)
        for name, value in zip(("device", "non_blocking", "memory_format"), args[1:], strict=False):
            how[name] = value
        device = how.pop("device", None)
        place, _ = machine.resolve(kind if device is None else device)
        if place is None:
            raise RuntimeError(refusal)
        return move(machine, args[0], place, **how)

    return transfer


def _cpu(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    if mode.machine.place(args[0]) is None:
        return func(*args, **kwargs)
    return move(mode.machine, args[0], None, **kwargs)


def _type_as(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    if kwargs or len(args) != 2:
        return func(*args, **kwargs)
    return to(mode, torch.Tensor.to, args, {})


def _numpy(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    place = mode.machine.place(args[0])
    if place is not None and not kwargs.get("force", False):
        raise texts.numpy_on_device(place)
    return func(*args, **kwargs)


def _pin_memory(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Pinned memory is host memory with a mark here: nothing that can be seen from Python depends on more."""
    machine = mode.machine
    tensor = args[0]
    if machine.place(tensor) is not None:
        raise texts.cannot_pin(type_name(machine, tensor))
    if not machine.count:
        return func(*args, **kwargs)
    if machine.pin_key in tensor.__dict__:
        return tensor
    with torch._C.DisableTorchFunction():
        pinned = tensor.clone()
    machine.mark_pinned(pinned)
    return pinned


def _is_pinned(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    return mode.machine.pin_key in args[0].__dict__


# factories


def is_factory(func: Any, kwargs: Kwargs) -> bool:
    """Whether a call makes a tensor at a place of its own choosing."""
    return func in _CONSTRUCTORS or "device" in kwargs or kwargs.get("pin_memory") is True


def factory(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A factory, `*_like` or `new_*`: made on the CPU, marked with the device it was asked for.

    Without `device=` the constructors take the default device (torch.utils._device), the others the place of the
    tensor that they start from.
    """
    machine = mode.machine
    kwargs = dict(kwargs)
    device = kwargs.pop("device", None)
    source = next((value for value in args if isinstance(value, torch.Tensor)), None)
    if device is None and func in _CONSTRUCTORS:
        device = default_device.CURRENT_DEVICE
    if func in _FROM_DATA and source is not None:
        return _from_tensor(mode, func, args, kwargs, device)
    place, real = (None, _CPU)
    if device is not None:
        place, real = machine.resolve(device)
    elif source is not None and (func not in _CONSTRUCTORS or func in _FROM_PARTS):
        place = machine.place(source)
        with torch._C.DisableTorchFunction():
            real = source.device
    pinned = bool(kwargs.get("pin_memory"))
    if pinned and machine.count:
        kwargs.pop("pin_memory")
        if place is not None:
            raise RuntimeError(texts.PINNED_FACTORY)
    kwargs["device"] = real
    draws = func in DRAWS
    if draws:
        check_generator(machine, place, kwargs)
    if draws and place is not None and kwargs.get("generator") is None:
        with machine.drawing(place):
            made = func(*args, **kwargs)
    else:
        made = func(*args, **kwargs)
    if not isinstance(made, torch.Tensor):
        return made
    if place is not None:
        if machine.kind == "mps" and made.dtype == torch.float64:
            raise TypeError(texts.MPS_FLOAT64)
        machine.put(made, place)
    elif pinned and machine.count:
        machine.mark_pinned(made)
    return made


def _from_tensor(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs, device: Any) -> Any:
    """torch.tensor, torch.as_tensor and torch.asarray of a tensor: it stays where it is unless told otherwise."""
    machine = mode.machine
    source = args[0]
    place, real = machine.resolve(device) if device is not None else (machine.place(source), _CPU)
    made = func(*args, **kwargs)
    if made is source or place is not None or real != _CPU or machine.place(source) is not None:
        if func is torch.tensor:
            machine.put(made, place)
            return made
        machine.put(made, machine.place(source))
        return move(machine, made, place, real)
    return made


def _like_self(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Tensor.new: the old spelling of new_empty and new_tensor."""
    if "device" in kwargs:
        return factory(mode, func, args, kwargs)
    return mode.machine.put_all(func(*args, **kwargs), mode.machine.place(args[0]))


def getter(name: str) -> Any:
    """What the mode is called with where an attribute of a tensor is read."""
    return getattr(torch.Tensor, name).__get__


def setter(name: str) -> Any:
    """What the mode is called with where an attribute of a tensor is set."""
    return getattr(torch.Tensor, name).__set__


TRANSFERS: dict[Any, StandIn] = {
    getter("device"): _get_device_attribute,
    getter("is_cpu"): _is_kind("cpu"),
    getter("is_cuda"): _is_kind("cuda"),
    getter("is_xpu"): _is_kind("xpu"),
    getter("is_mps"): _is_kind("mps"),
    getter("grad"): _get_grad,
    setter("grad"): _set_grad,
    setter("data"): _set_data,
    torch.Tensor.get_device: _get_device,
    torch.get_device: _get_device,
    torch.Tensor.type: _type,
    torch.Tensor.to: to,
    torch.Tensor.cuda: _to_kind("cuda", texts.NOT_CUDA_DEVICE),
    torch.Tensor.xpu: _to_kind("xpu", texts.NOT_XPU_DEVICE),
    torch.Tensor.cpu: _cpu,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.pin_memory: _pin_memory,
    torch.Tensor.is_pinned: _is_pinned,
    torch.Tensor.new: _like_self,
}
