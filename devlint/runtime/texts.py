"""The words and exception types with which torch refuses, kept in one place so that a change in torch is one edit.

Where a text is not visible in the Python part of torch, the comment names the C++ file that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

VERSION: tuple[int, int] = tuple(int(part) for part in torch.__version__.split(".")[:2])  # type: ignore[assignment]

# torch.AcceleratorError is a RuntimeError that newer versions raise for errors of the device runtime
ACCELERATOR_ERROR: type[RuntimeError] = getattr(torch, "AcceleratorError", RuntimeError)

_CUDA_SUFFIX = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions.\n"
)  # c10/cuda/CUDAMiscFunctions.cpp

TOO_MANY_CPU_SCALARS = "Trying to pass too many CPU scalars to non-CPU kernel!"  # aten/src/ATen/TensorIterator.cpp
PINNED_FACTORY = "Only dense CPU tensors can be pinned"  # aten/src/ATen/EmptyTensor.cpp
NOT_CUDA_DEVICE = "Invalid device, must be cuda device"  # tools/autograd/templates/python_variable_methods.cpp
NOT_XPU_DEVICE = "Invalid device, must be xpu device"  # the same file
FORKED = (
    "Cannot re-initialize {name} in forked subprocess. To use {name} with multiprocessing, you must use the 'spawn' "
    "start method"
)  # torch/cuda/__init__.py, _lazy_init
MPS_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 "
    "instead."
)  # aten/src/ATen/mps/EmptyTensor.cpp
MPS_PLACEHOLDER = (
    "Placeholder storage has not been allocated on MPS device!"  # aten/src/ATen/native/mps/OperationUtils.mm
)
GROUPS = (
    "Tensors of the same index must be on the same device and the same dtype except `step` tensors that can be CPU and "
    "float32/64"
    + (
        ", and optimizer states that can be bfloat16 for mixed-precision training"
        if VERSION >= (2, 13)
        else " notwithstanding"
    )
)  # aten/src/ATen/native/ForeachUtils.h; "notwithstanding" in the libraries of torch 2.6.0


def two_devices(first: object, second: object) -> RuntimeError:
    """aten/src/ATen/TensorIterator.cpp, compute_types: the accelerator is named first."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def checked_argument(common: object, place: object, argument: str, method: str) -> RuntimeError:
    """aten/src/ATen/core/adaption.cpp, common_device_check_failure.

    Reworded about torch 2.8, by public reports; the words before are those in the libraries of torch 2.6.0.
    """
    if VERSION >= (2, 8):
        return RuntimeError(
            f"Expected all tensors to be on the same device, but got {argument} is on {place}, different from other "
            f"tensors on {common} (when checking argument in method {method})"
        )
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{common} and {place}! (when checking argument for argument {argument} in method {method})"
    )


def invalid_ordinal(kind: str, index: int, count: int) -> RuntimeError:
    """What the device runtime says to an index that there is not."""
    if kind == "cuda":
        # the libraries of torch 2.6.0 have no such line
        help_text = "\nGPU device may be out of range, do you have enough GPUs?" if VERSION >= (2, 8) else ""
        return ACCELERATOR_ERROR(f"CUDA error: invalid device ordinal{help_text}{_CUDA_SUFFIX}")
    if count == 0:
        return RuntimeError(f"No {kind.upper()} devices are available.")
    # c10/xpu/XPUFunctions.h, check_device_index
    return RuntimeError(f"device is out of range, device is {index}, total number of device is {count}.")


def no_devices(kind: str) -> RuntimeError:
    """What the first use says on a machine without a device of the kind (c10/cuda/CUDAFunctions.cpp)."""
    if kind == "cuda":
        return RuntimeError("No CUDA GPUs are available")
    return RuntimeError(f"No {kind.upper()} devices are available.")


def generator_type(wanted: str, found: str) -> RuntimeError:
    """aten/src/ATen/core/Generator.h, check_generator."""
    return RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")


def gradient_elsewhere(gradient: Any, tensor: Any) -> RuntimeError:
    """torch/csrc/autograd/python_variable.cpp, THPVariable_set_grad; `gradient` and `tensor` are their devices."""
    if gradient.type != tensor.type:
        what = f"with device type '{gradient.type}' to a tensor with device type '{tensor.type}'"
    else:
        what = (
            f"located on device with index '{gradient.index}' to a tensor located on device with index '{tensor.index}'"
        )
    return RuntimeError(
        f"attempting to assign a gradient {what}. Please ensure that the gradient and the tensor are on the same device"
    )


def numpy_on_device(place: object) -> TypeError:
    """torch/csrc/utils/tensor_numpy.cpp."""
    return TypeError(
        f"can't convert {place} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )


def cannot_pin(type_name: str) -> RuntimeError:
    """aten/src/ATen/native/Memory.cpp."""
    return RuntimeError(f"cannot pin '{type_name}' only dense CPU tensors can be pinned")


def raiser(error: Callable[[], BaseException]) -> Callable[..., Any]:
    """A function of any arguments that raises what `error` makes."""

    def fail(*args: object, **kwargs: object) -> Any:
        raise error()

    return fail
