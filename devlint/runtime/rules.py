"""What an accelerator's kernel does with tensors that lie in several places: one row per operator, as data.

Three ways come from torch's own table of operators (`operators.json`, made by tests/runtime/make_operator_checks.py):
structured and plain kernels check that all tensors lie together, arguments in the order of the schema; operators of
TensorIterator take one 0-dim CPU tensor that is not the output. ROWS holds the operators with a rule of their own,
each with the file of PyTorch in which it stands; FREE those that take tensors from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch

from . import texts
from .machine import Machine

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Operand:
    """One tensor among the arguments of an operator."""

    argument: str
    tensor: torch.Tensor
    place: torch.device
    dim: int
    written: bool  # whether the operator writes to it
    out: bool  # whether it is an `out=`
    position: int  # in a list of tensors


Rule = Callable[[Machine, list[Operand]], torch.device]

_table: dict[str, str] = json.loads((resources.files(__package__) / "operators.json").read_text())
# Structured operators with a check that newer torch left out, and the version that did. Comparing the tables of torch
# 2.6.0 and 2.13.0 finds these alone; the change (PyTorch's pull request 169302, December 2025) is about that of 2.10.
_CHECKED_BEFORE = {"hypot": (2, 10), "hypot.out": (2, 10), "hypot_": (2, 10)}
STRUCTURED = frozenset(_table["structured"].split()).union(
    name for name, version in _CHECKED_BEFORE.items() if version > texts.VERSION
)
PLAIN = frozenset(_table["plain"].split())

# Copies between devices are what these are for; the others read a number, or only the shape of their second tensor.
FREE = frozenset(
    [
        "copy_",
        "_to_copy",
        "_local_scalar_dense",
        "set_",
        "resize_as_",
        "fill_",
        "expand_as",
        "view_as",
        "_has_same_storage_numel",
    ]
)


def wrapper(name: str, overload: str, out: bool) -> str | None:
    """The wrapper of an operator's accelerator kernel that checks devices, without `wrapper_CUDA_`; None without one.

    Names as torchgen makes them (torchgen/api/native.py and dispatcher.py): scatter_.value is structured and becomes
    scatter__value, randperm.generator is not and becomes generator_randperm.
    """
    full = f"{name}.{overload}" if overload else name
    name = f"{name}_out" if out else name
    if full in STRUCTURED:
        return f"{name}_{overload}" if overload else name
    return f"{overload}_{name}" if full in PLAIN else None


def default_rule(machine: Machine, schema: Any, found: list[Operand]) -> torch.device:
    """The check that torch's table of operators names; returns where the result lies."""
    out = any(argument.is_out for argument in schema.arguments)
    method = wrapper(schema.name.partition("::")[2], schema.overload_name, out)
    if method is None:
        return iterator(machine, found)
    return together(machine, found, method)


def together(
    machine: Machine, found: list[Operand], method: str, renamed: dict[str, str] | None = None
) -> torch.device:
    """aten/src/ATen/core/adaption.h: the first tensor, `out=` before others, sets the device; who differs is named."""
    ordered = sorted(found, key=lambda operand: not operand.out)
    common = ordered[0].place
    for operand in ordered:
        if operand.place != common:
            if machine.kind == "mps":
                raise RuntimeError(texts.MPS_PLACEHOLDER)
            argument = (renamed or {}).get(operand.argument, operand.argument)
            raise texts.checked_argument(common, operand.place, argument, f"wrapper_{machine.kind.upper()}_{method}")
    return common


def iterator(machine: Machine, found: list[Operand], scalars: int = 1) -> torch.device:
    """aten/src/ATen/TensorIterator.cpp, compute_types: outputs first, the accelerator is the common device."""
    ordered = sorted(found, key=lambda operand: not operand.written)
    common = next((operand.place for operand in ordered if operand.place != CPU), CPU)
    for operand in ordered:
        if operand.place == common:
            continue
        if operand.place == CPU and operand.dim == 0 and not operand.written:
            if scalars == 0:
                raise RuntimeError(texts.TOO_MANY_CPU_SCALARS)
            scalars -= 1
        else:
            raise texts.two_devices(common, operand.place)
    return common


def _as(method: str, **renamed: str) -> Rule:
    """An operator of one kernel for all backends that comes down to another one, with its names of arguments."""
    return lambda machine, found: together(machine, found, method, renamed)


def _index(machine: Machine, found: list[Operand]) -> torch.device:
    """aten/src/ATen/native/TensorAdvancedIndexing.cpp, make_info: indices on the CPU or with the indexed tensor."""
    table = found[0]
    for operand in found:
        if operand.argument == "indices" and operand.place not in (CPU, table.place):
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({table.place})"
            )
    return table.place


def _index_put(machine: Machine, found: list[Operand]) -> torch.device:
    """The same file, _index_put_impl_: as for an index; the values lie with the tensor or are a 0-dim one."""
    _index(machine, found)
    table = found[0]
    for operand in found:
        if operand.argument in ("values", "value") and operand.place != table.place and operand.dim > 0:
            first = table.place if table.place != CPU else operand.place
            raise texts.two_devices(first, operand.place if first == table.place else table.place)
    return table.place


def _where(machine: Machine, found: list[Operand]) -> torch.device:
    """aten/src/ATen/native/TensorCompare.cpp, where_self_out: any number of 0-dim CPU tensors, the condition too."""
    return iterator(machine, found, scalars=3)


def _masked_fill(machine: Machine, found: list[Operand]) -> torch.device:
    """aten/src/ATen/native/cuda/Indexing.cu, masked_fill__cuda: a 0-dim value lies anywhere, the mask does not."""
    here, mask = found[0].place, next(operand.place for operand in found if operand.argument == "mask")
    value = next((operand for operand in found if operand.argument == "value"), None)
    if mask != here:
        if value is not None and here == CPU:
            raise RuntimeError("masked_fill_: Expected inputs to be on same device")
        raise RuntimeError(
            f"expected self and mask to be on the same device, but got mask on {mask} and self on {here}"
        )
    return here


def _convolution(machine: Machine, found: list[Operand]) -> torch.device:
    """aten/src/ATen/native/Convolution.cpp, check_input_same_type_as_parameters: types first, then devices."""
    data = found[0]
    names = {operand.argument: operand for operand in found}
    for argument in ("weight", "bias"):
        other = names.get(argument)
        if other is None or other.place.type == data.place.type:
            continue
        tail = f" or input should be a MKLDNN tensor and {argument} is a dense tensor" if data.place == CPU else ""
        raise RuntimeError(f"Input type ({_type(data)}) and {argument} type ({_type(other)}) should be the same{tail}")
    return together(machine, found, "_cudnn_convolution")


def _batch_norm(machine: Machine, found: list[Operand]) -> torch.device:
    """aten/src/ATen/native/Normalization.cpp, _select_batch_norm_backend: cuDNN where the input is on CUDA and deep."""
    names = {operand.argument for operand in found}
    deep = found[0].place.type == "cuda" and found[0].dim >= 3 and {"weight", "bias"} <= names
    return together(machine, found, "_cudnn_batch_norm" if deep else "_native_batch_norm")


def _mv(machine: Machine, found: list[Operand]) -> torch.device:
    """aten/src/ATen/native/Blas.cpp, mv: addmv_ on a new tensor that lies with the vector."""
    return together(machine, [found[1], found[0]], "addmv_", {"self": "mat"})


def _type(operand: Operand) -> str:
    """A type as messages name it: torch.cuda.FloatTensor."""
    with torch._C.DisableTorchFunction():
        name = operand.tensor.type()
    return name if operand.place == CPU else name.replace("torch.", f"torch.{operand.place.type}.", 1)


ROWS: dict[str, Rule] = {
    "index": _index,
    "_unsafe_index": _index,
    "index_put": _index_put,
    "index_put_": _index_put,
    "_unsafe_index_put": _index_put,
    "_index_put_impl_": _index_put,
    "where": _where,
    "masked_fill": _masked_fill,
    "masked_fill_": _masked_fill,
    "convolution": _convolution,
    "stack": _as("cat"),  # aten/src/ATen/native/TensorShape.cpp, stack
    "embedding": _as("_index_select", indices="index"),  # aten/src/ATen/native/Embedding.cpp, embedding_symint
    "native_batch_norm": _batch_norm,
    "mv": _mv,
}
