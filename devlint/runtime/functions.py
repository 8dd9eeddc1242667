"""Calls whose rule is about more than "all tensors lie in one place": data read by the mode, one row per function.

Rows for operations (what torch checks inside a call) are in `rules`; here are the functions whose check stands in C++
above those operations, or that answer with tensors in several places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import autograd

from . import mixed
from .machine import Machine
from .transfers import getter, type_name

if TYPE_CHECKING:
    from .mode import SimulationMode
    from .transfers import Args, Kwargs, StandIn

_CPU = torch.device("cpu")


def _as_they_are(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Asks about tensors and makes none."""
    return func(*args, **kwargs)


def _engine(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """torch.autograd.backward: what Python code runs in it meets tensors without a mark."""
    from .mode import opened

    with mode.machine.engine():
        return mode.run_body(opened(func) or func, args, kwargs)


def _engine_grad(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """torch.autograd.grad: each gradient lies where its input lies."""
    machine = mode.machine
    grads = _engine(mode, func, args, kwargs)
    inputs = args[1] if len(args) > 1 else kwargs["inputs"]
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    for tensor, grad in zip(inputs, grads, strict=True):
        if isinstance(grad, torch.Tensor):
            machine.put(grad, machine.place(tensor))
    return grads


def _register_hook(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A hook sees the gradient where its tensor lies."""
    from .mode import opened

    machine = mode.machine
    tensor, hook = args

    def placed(grad: Any) -> Any:
        if isinstance(grad, torch.Tensor) and machine.place(grad) is None:
            machine.put(grad, machine.place(tensor))
        return hook(grad)

    return mode.run_body(opened(func) or func, (tensor, placed), kwargs)


def _untyped_storage(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """The storage carries the place on, for torch.save and Tensor.set_."""
    machine = mode.machine
    storage = func(*args, **kwargs)
    place = machine.place(args[0])
    if place is None:
        storage.__dict__.pop(machine.key, None)
    else:
        storage.__dict__[machine.key] = place
    return storage


def _set(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    machine = mode.machine
    result = func(*args, **kwargs)
    source = args[1] if len(args) > 1 else kwargs.get("source")
    if isinstance(source, torch.Tensor):
        machine.put(args[0], machine.place(source))
    elif source is not None:
        storage = getattr(source, "_untyped_storage", source)
        place = getattr(storage, "__dict__", {}).get(machine.key)
        if place is not None:
            machine.put(args[0], place)
    return result


def _pack(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """_pack_padded_sequence: lengths and batch sizes are on the CPU (aten/src/ATen/native/PackedSequence.cpp)."""
    machine = mode.machine
    lengths = args[1]
    place = machine.place(lengths)
    if place is not None:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {place} "
            f"{type_name(machine, lengths).rpartition('.')[2].removesuffix('Tensor')} tensor"
        )
    data, batch_sizes = func(*args, **kwargs)
    machine.put(data, machine.place(args[0]))
    return data, batch_sizes


def _pad(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """_pad_packed_sequence gives the lengths back on the CPU."""
    data, lengths = func(*args, **kwargs)
    mode.machine.put(data, mode.machine.place(args[0]))
    return data, lengths


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [item for item in value if isinstance(item, torch.Tensor)] if isinstance(value, (list, tuple)) else []


def _rnn(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """lstm, gru, rnn_tanh, rnn_relu: the hidden state is compared with the input first, then the parameters.

    aten/src/ATen/native/RNN.h, check_attributes. A packed call has its batch sizes, on the CPU, as second argument.
    """
    machine = mode.machine
    data = args[0]
    packed = len(args) > 3 and isinstance(args[3], (list, tuple))
    hidden, parameters = (args[2], args[3]) if packed else (args[1], args[2])
    here = machine.place(data)
    for name, group in (("hidden", hidden), ("parameter", parameters)):
        for tensor in _tensors(group):
            there = machine.place(tensor)
            if there != here:
                raise RuntimeError(
                    f"Input and {name} tensors are not at the same device, found input tensor at {here or _CPU} and "
                    f"{name} tensor at {there or _CPU}"
                )
    if here is None:
        return func(*args, **kwargs)
    machine.start()
    with machine.drawing(here):
        return machine.put_all(func(*args, **kwargs), here)


def _attention(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """scaled_dot_product_attention (aten/src/ATen/native/transformers/sdp_utils_cpp.h, validate_sdpa_input)."""
    machine = mode.machine
    named = dict(zip(("query", "key", "value", "attn_mask"), args, strict=False)) | kwargs
    query, key, value = [machine.place(named[name]) or _CPU for name in ("query", "key", "value")]
    if not query == key == value:
        raise RuntimeError(
            f"Expected query, key, and value to have the same device type, but got query.device: {query} key.device: "
            f"{key} and value.device: {value} instead."
        )
    mask = named.get("attn_mask")
    if mask is not None and (machine.place(mask) or _CPU) != query:
        raise mixed.checked(
            machine, query, machine.place(mask) or _CPU, "attn_bias", "_scaled_dot_product_efficient_attention"
        )
    return mode.plain(func, args, kwargs)


def _lengths_anywhere(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """ctc_loss reads targets and lengths on the host, wherever they lie (aten/src/ATen/native/LossCTC.cpp)."""
    return mode.machine.put_all(func(*args, **kwargs), mode.machine.place(args[0]))


def _names(*owners: Any, names: str) -> list[Any]:
    return [getattr(owner, name) for owner in owners for name in names.split() if hasattr(owner, name)]


def _same_place(machine: Machine, tensors: list[torch.Tensor]) -> bool:
    return len({machine.place(tensor) for tensor in tensors}) <= 1


def _meshgrid(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """aten/src/ATen/native/TensorShape.cpp, meshgrid."""
    tensors = [tensor for value in args for tensor in _tensors(value)]
    if not _same_place(mode.machine, tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same device")
    return mode.plain(func, args, kwargs)


def _grid_sampler(mode: SimulationMode, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """aten/src/ATen/native/GridSamplerUtils.h, check_grid_sampler_common."""
    machine = mode.machine
    data, grid = machine.place(args[0]) or _CPU, machine.place(args[1]) or _CPU
    if data != grid:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to be on same device, but input is on "
            f"{data} and grid is on {grid}"
        )
    return mode.plain(func, args, kwargs)


_GETTERS = ("shape", "dtype", "requires_grad", "is_leaf", "grad_fn", "layout", "ndim")
_QUESTIONS = "size dim stride numel is_contiguous is_floating_point is_complex"
_HERE = torch._C._VariableFunctions

FUNCTIONS: dict[Any, StandIn] = {
    autograd.backward: _engine,
    autograd.grad: _engine_grad,
    torch.Tensor.register_hook: _register_hook,
    torch.Tensor.untyped_storage: _untyped_storage,
    torch.Tensor.set_: _set,
    torch._C._nn.scaled_dot_product_attention: _attention,
    **dict.fromkeys(_names(_HERE, names="_has_compatible_shallow_copy_type is_same_size result_type"), _as_they_are),
    **dict.fromkeys([getter(name) for name in _GETTERS], _as_they_are),
    **dict.fromkeys(_names(torch.Tensor, names=_QUESTIONS), _as_they_are),
    **dict.fromkeys(_names(_HERE, names="_pack_padded_sequence"), _pack),
    **dict.fromkeys(_names(_HERE, names="_pad_packed_sequence"), _pad),
    **dict.fromkeys(_names(_HERE, names="lstm gru rnn_tanh rnn_relu"), _rnn),
    **dict.fromkeys(_names(_HERE, names="ctc_loss"), _lengths_anywhere),
    **dict.fromkeys(_names(_HERE, names="meshgrid"), _meshgrid),
    **dict.fromkeys(_names(_HERE, names="grid_sampler"), _grid_sampler),
}
