"""The accelerators that this machine has, as torch reports them, and the simulated ones as one kind more.

Importing this module needs no torch; calling into it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from .torch_import import TorchMissing, require_torch

__all__ = ["Device", "TorchMissing", "describe", "real_devices"]


@dataclass(frozen=True)
class Device:
    """One accelerator: its torch name ("cuda:0"), the product's name and its memory in bytes (None: not told)."""

    torch_name: str
    product: str
    memory: int | None


def real_devices() -> list[Device]:
    """The accelerators that torch can use here: cuda (and ROCm), xpu, mps. Raises TorchMissing without torch."""
    torch = require_torch()
    found: list[Device] = []
    for kind in ("cuda", "xpu"):
        module: ModuleType = getattr(torch, kind)
        if module.is_available():
            for index in range(module.device_count()):
                properties = module.get_device_properties(index)
                found.append(Device(f"{kind}:{index}", str(properties.name), int(properties.total_memory)))
    if torch.backends.mps.is_available():
        # torch.mps names no product, and says how much memory it would use at most (torch/mps/__init__.py)
        tell = getattr(torch.mps, "recommended_max_memory", None)
        found.append(Device("mps:0", "Apple GPU", None if tell is None else int(tell())))
    return found + _others(torch, {device.torch_name.partition(":")[0] for device in found})


def _others(torch: ModuleType, known: set[str]) -> list[Device]:
    """Accelerators of backends that torch.accelerator knows and the above does not (torch 2.6 and later)."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return []
    kind = accelerator.current_accelerator().type
    if kind in known:
        return []
    return [Device(f"{kind}:{index}", kind, None) for index in range(accelerator.device_count())]


def describe() -> str:
    """What `devlint devices` prints: the torch version, each accelerator with its memory, the simulation.

    Raises TorchMissing, whose message names the install command, where torch cannot be imported.
    """
    torch = require_torch()
    lines = [f"torch {torch.__version__}"]
    devices = real_devices()
    lines += [f"{device.torch_name:<10} {device.product}{_memory(device.memory)}" for device in devices]
    if not devices:
        lines.append(f"{'cpu':<10} no accelerator that torch can use")
    lines.append(f"{'simulated':<10} any number of cuda or xpu devices, or one mps device (devlint.runtime.simulate)")
    return "\n".join(lines)


def _memory(size: int | None) -> str:
    return "" if size is None else f", {size / 2**30:.1f} GiB"
