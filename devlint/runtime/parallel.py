"""DataParallel's copies between devices, DistributedDataParallel and NCCL, and the grouping that optimizers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import _functions, comm

from . import texts
from .machine import Machine
from .patches import Patches
from .transfers import move

_CPU = torch.device("cpu")


# torch.nn.parallel.comm, which asks C++ (torch/csrc/cuda/comm.cpp)


def _scatter(
    machine: Machine,
    tensor: Any,
    devices: Any = None,
    chunk_sizes: Any = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Any = None,
) -> Any:
    places = [machine.device(machine.index_of(device)) for device in devices]
    chunks = tensor.chunk(len(places), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(move(machine, chunk.contiguous(), place) for chunk, place in zip(chunks, places, strict=False))


def _gather(machine: Machine, tensors: Any, dim: int = 0, destination: Any = None, *, out: Any = None) -> Any:
    on_host = destination == "cpu" or destination == -1 or destination == _CPU
    place = None if on_host else machine.device(machine.index_of(destination))
    with torch._C.DisableTorchFunction():
        whole = torch.cat(list(tensors), dim)
    machine.put(whole, place)
    return whole


def _gather_gradients(original: Any) -> Any:
    """Gather.forward, which also is the backward of Scatter: the engine hands it tensors without a mark."""
    from .machine import current_machine

    def forward(ctx: Any, target_device: Any, dim: int, *inputs: Any) -> Any:
        machine = current_machine()
        if machine is not None and machine.in_engine:
            on_host = target_device == "cpu" or target_device == -1
            place = machine.device(0 if on_host else machine.index_of(target_device))
            for tensor in inputs:
                if machine.place(tensor) is None:
                    machine.put(tensor, place)
        return original(ctx, target_device, dim, *inputs)

    return staticmethod(forward)


def _broadcast_coalesced(machine: Machine, tensors: Any, devices: Any, buffer_size: int = 0) -> list[list[Any]]:
    copies: list[list[Any]] = []
    for device in devices:
        place = machine.device(machine.index_of(device))
        row = []
        for tensor in tensors:
            # the first device holds the originals: C++ hands back new views of them
            same = machine.place(tensor) == place
            with torch._C.DisableTorchFunction():
                copy = tensor.detach() if same else tensor.detach().clone()
            machine.put(copy, place)
            row.append(copy)
        copies.append(row)
    return copies


def _broadcast(machine: Machine, tensor: Any, devices: Any = None, *, out: Any = None) -> tuple[Any, ...]:
    return tuple(row[0] for row in _broadcast_coalesced(machine, [tensor], devices))


def _reduce_add(machine: Machine, inputs: Any, destination: Any = None) -> Any:
    place = machine.device(machine.index_of(destination))
    with torch._C.DisableTorchFunction():
        total = inputs[0].clone()
        for item in inputs[1:]:
            total = total + item
    machine.put(total, place)
    return total


def _reduce_add_coalesced(
    machine: Machine, inputs: Any, destination: Any = None, buffer_size: int = 0
) -> tuple[Any, ...]:
    return tuple(_reduce_add(machine, column, destination) for column in zip(*inputs, strict=True))


# torch.optim


def _group(original: Any) -> Any:
    """torch._C._group_tensors_by_device_and_dtype with the places of the simulation (aten/.../ForeachUtils.h)."""
    from .machine import current_machine

    def group(lists: Any, with_indices: bool = False) -> Any:
        machine = current_machine()
        if machine is None or not any(
            machine.place(tensor) is not None
            for tensors in lists
            for tensor in tensors
            if isinstance(tensor, torch.Tensor)
        ):
            return original(lists, with_indices)
        groups: dict[Any, Any] = {}
        for index, first in enumerate(lists[0]):
            place = machine.place(first) or _CPU
            key = (place, first.dtype)
            columns, indices = groups.setdefault(key, ([[] for _ in lists], []))
            for position, tensors in enumerate(lists):
                if len(tensors) == 0:
                    continue
                tensor = tensors[index]
                if isinstance(tensor, torch.Tensor):
                    there = machine.place(tensor) or _CPU
                    step = there == _CPU and tensor.dim() == 0 and tensor.dtype in (torch.float32, torch.float64)
                    if there != place and not step:
                        raise RuntimeError(texts.GROUPS)
                columns[position].append(tensor)
            if with_indices:
                indices.append(index)
        return groups

    return group


# autograd.Function


def _apply(original: Any) -> Any:
    """Function.apply: an output that C++ made as a view of an input lies where the input lies."""
    from .machine import current_machine

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = original.__get__(None, cls)(*args, **kwargs)
        machine = current_machine()
        if machine is None or machine.in_engine:
            return result
        with torch._C.DisableTorchFunction():
            inputs = [value for value in args if isinstance(value, torch.Tensor) and machine.place(value) is not None]
            if inputs:
                places = {value.untyped_storage()._cdata: machine.place(value) for value in inputs}
                for value in result if isinstance(result, tuple) else (result,):
                    if isinstance(value, torch.Tensor) and machine.place(value) is None:
                        place = places.get(value.untyped_storage()._cdata)
                        if place is not None:
                            machine.put(value, place)
        return result

    return classmethod(apply)


# torch.distributed


def _host_tensors(machine: Machine, values: Any) -> bool:
    """Whether a tensor among the arguments of a collective lies on the host."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if machine.place(value) is None:
                return True
        elif isinstance(value, (list, tuple)) and _host_tensors(machine, value):
            return True
    return False


_COLLECTIVES = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
    *("all_to_all_single", "all_gather_into_tensor", "reduce_scatter_tensor", "send", "recv", "isend", "irecv"),
)
# they pickle objects into tensors of their own, which lie where the backend wants them
_OBJECTS = (
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
    *("send_object_list", "recv_object_list"),
)
_nccl: set[int] = set()  # ids of process groups that were asked for with NCCL and are served by gloo
_worlds: list[tuple[Machine, Any]] = []


def _served_by_gloo(backend: Any) -> bool:
    """Whether gloo has to stand in: NCCL (XCCL) alone, or a backend for each type of device, as without a name."""
    return backend is None or any(name in str(backend) for name in ("nccl", "xccl"))


def _init_process_group(machine: Machine, original: Any, *args: Any, **kwargs: Any) -> Any:
    import torch.distributed as dist

    backend = args[0] if args else kwargs.get("backend")
    if _served_by_gloo(backend):
        kwargs.pop("device_id", None)
        kwargs["backend"] = "gloo"
        args = args[1:]
    result = original(*args, **kwargs)
    group = dist.group.WORLD
    if backend in ("nccl", "xccl"):
        machine.start()
        _nccl.add(id(group))
    _worlds.append((machine, group))
    return result


def _collective(machine: Machine, original: Any, *args: Any, **kwargs: Any) -> Any:
    import torch.distributed as dist

    group = kwargs.get("group")
    group = dist.group.WORLD if group is None else group
    free = getattr(machine._local, "objects", False)
    if id(group) in _nccl and not free and _host_tensors(machine, [*args, *kwargs.values()]):
        # torch/csrc/distributed/c10d/ProcessGroup.hpp, getBackend
        raise RuntimeError("No backend type associated with device type cpu")
    return original(*args, **kwargs)


def _object_collective(machine: Machine, original: Any, *args: Any, **kwargs: Any) -> Any:
    machine._local.objects = True
    try:
        return original(*args, **kwargs)
    finally:
        machine._local.objects = False


def _new_group(machine: Machine, original: Any, *args: Any, **kwargs: Any) -> Any:
    import torch.distributed as dist

    backend = kwargs.get("backend", args[2] if len(args) > 2 else None)
    if _served_by_gloo(backend):
        kwargs.pop("device_id", None)
        args, kwargs["backend"] = args[:2], "gloo"
    group = original(*args, **kwargs)
    if backend in ("nccl", "xccl") or (backend is None and id(dist.group.WORLD) in _nccl):
        _nccl.add(id(group))
    return group


def _get_backend(machine: Machine, original: Any, group: Any = None) -> Any:
    import torch.distributed as dist

    named = original(group)
    return "nccl" if id(group if group is not None else dist.group.WORLD) in _nccl else named


def close(machine: Machine) -> None:
    """Forget what a machine left behind: process groups that its block did not destroy, streams of DataParallel."""
    _functions._streams = None
    for entry in [entry for entry in _worlds if entry[0] is machine]:
        _worlds.remove(entry)
        import torch.distributed as dist

        if dist.is_initialized() and dist.group.WORLD is entry[1]:
            dist.destroy_process_group()
        _nccl.discard(id(entry[1]))


def _asked(answer: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in that is handed the function it stands for."""

    def asked(machine: Machine, *args: Any, **kwargs: Any) -> Any:
        return answer(machine, original, *args, **kwargs)

    return asked


def install(patches: Patches) -> None:
    """Put the stand-ins in place."""
    copies: dict[str, Callable[..., Any]] = {
        "scatter": _scatter,
        "gather": _gather,
        "broadcast": _broadcast,
        "broadcast_coalesced": _broadcast_coalesced,
        "reduce_add": _reduce_add,
        "reduce_add_coalesced": _reduce_add_coalesced,
    }
    for name, answer in copies.items():
        patches.stand_in(comm, name, answer)
    patches.set(_functions, "_streams", None)
    patches.set(_functions.Gather, "forward", _gather_gradients(_functions.Gather.forward))
    patches.set(torch._C, "_group_tensors_by_device_and_dtype", _group(torch._C._group_tensors_by_device_and_dtype))
    patches.set(torch.autograd.Function, "apply", _apply(vars(torch.autograd.Function)["apply"]))
    if torch.distributed.is_available():
        import torch.distributed as dist
        from torch.distributed import distributed_c10d

        wrapped: dict[str, Callable[..., Any]] = {
            "init_process_group": _init_process_group,
            "new_group": _new_group,
            "get_backend": _get_backend,
        }
        wrapped |= dict.fromkeys(_COLLECTIVES, _collective) | dict.fromkeys(_OBJECTS, _object_collective)
        for name, answer in wrapped.items():
            original = getattr(distributed_c10d, name)
            for owner in (dist, distributed_c10d):
                patches.stand_in(owner, name, _asked(answer, original))
        patches.stand_in(dist, "is_nccl_available", lambda machine: True)
        patches.stand_in(distributed_c10d, "is_nccl_available", lambda machine: True)
