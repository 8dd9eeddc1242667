"""Errors about devices, told from all others by their words: those of runtime/texts.py, and what the device says."""

from __future__ import annotations

import re

_WORDS = re.compile(
    "|".join(
        [
            r"on the same device",
            r"to be on same device",
            r"at the same device",
            r"found at least two devices",
            r"to have the same device",
            r"Input type \(\S+\) and (?:weight|bias) type \(\S+\) should be the same",
            r"indices should be either on",
            r"'lengths' argument should be a 1D CPU int64 tensor",
            r"can't convert \S+ device type tensor to numpy",
            r"Expected a '\w+' device type for generator",
            r"invalid device ordinal",
            r"device is out of range",
            r"Attempting to deserialize object on",
            r"Invalid device(?: string|, must be)",
            r"^Expected one of cpu, cuda",
            r"Expected `device_type` of type `str`",
            r"only dense CPU tensors can be pinned",
            r"No backend type associated with device type",
            r"Placeholder storage has not been allocated on MPS",
            r"MPS framework doesn't support float64",
            r"must be on the same device",
            r"attempting to assign a gradient",
            r"Cannot re-initialize (?:CUDA|XPU|MPS) in forked",
            r"legacy constructor expects device type",
            r"too many CPU scalars",
            r"expected input and grid to be on same device",
            r"No (?:CUDA GPUs|\w+ devices) are available",
            r"module must have its parameters and buffers on device",
            r"should be on the same GPU|on different GPUs",
        ]
    ),
    re.IGNORECASE,
)


def is_about_devices(message: str) -> bool:
    """Whether an error's message is one about where tensors lie or which devices there are."""
    return _WORDS.search(message) is not None
