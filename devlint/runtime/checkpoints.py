"""torch.save and torch.load: a storage is saved with the simulated device it lies on, and comes back there.

torch's own code does the work: it asks a list of taggers where a storage lies, writes the name into the file, and on
loading validates the name against the machine (torch/serialization.py, _validate_device) with its own errors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import serialization

from .machine import PREFIX, current_machine
from .patches import Patches

_PRIORITY = -1  # before torch's own taggers, which start at 10


def _tag(storage: Any) -> str | None:
    """The name of the device that a storage lies on; None leaves it to torch."""
    machine = current_machine()
    storage = getattr(storage, "_untyped_storage", storage)
    place = getattr(storage, "__dict__", {}).get(machine.key) if machine is not None else None
    if place is None:
        return None
    return "mps" if place.type == "mps" else str(place)  # as torch.serialization._mps_tag does


def _restore(storage: Any, location: str) -> Any:
    """A storage on a simulated device; None for a location of another kind."""
    machine = current_machine()
    if machine is None or not (location == machine.kind or location.startswith(f"{machine.kind}:")):
        return None
    if machine.kind == "mps":
        place = machine.device(0)
    else:
        device = serialization._validate_device(location, machine.kind)  # type: ignore[no-untyped-call]
        index = device if isinstance(device, int) else device.index
        place = machine.device(index)
    return _place(storage, place)


def _place(storage: Any, place: torch.device | None) -> Any:
    machine = current_machine()
    assert machine is not None
    untyped = getattr(storage, "_untyped_storage", storage)
    if place is None:
        untyped.__dict__.pop(machine.key, None)
    else:
        untyped.__dict__[machine.key] = place
    return storage


def without_marks(original: Any) -> Any:
    """torch._utils._get_obj_state, without the marks of simulations: they are no part of what is saved."""

    def state_of(obj: Any) -> Any:
        state = original(obj)
        if isinstance(state, tuple) and state and isinstance(state[0], dict):
            plain = {key: value for key, value in state[0].items() if not key.startswith(PREFIX)}
            rest = state[1:]
            return (plain, *rest) if plain or any(rest) else None
        if isinstance(state, dict):
            return {key: value for key, value in state.items() if not key.startswith(PREFIX)} or None
        return state

    return state_of


def _storage_move(original: Any) -> Any:
    """UntypedStorage.cuda, .cpu and .to: what a `map_location` function may call."""
    name = original.__name__

    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        machine = current_machine()
        if machine is None or name not in (machine.kind, "to", "cpu"):
            return original(self, *args, **kwargs)
        device = kwargs.get("device", args[0] if args else None)
        if name == "cpu":
            place, real = None, torch.device("cpu")
        else:
            place, real = machine.resolve(machine.kind if device is None else device)
        if real.type != "cpu":
            return original(self, *args, **kwargs)
        if self.__dict__.get(machine.key) == place:
            return self
        return _place(self.clone(), place)

    return move


def _rebuild(original: Any) -> Any:
    """torch._utils._rebuild_tensor: the call that puts a tensor over a storage does not pass through the mode."""

    def rebuild(storage: Any, *args: Any) -> Any:
        tensor = original(storage, *args)
        machine = current_machine()
        if machine is not None:
            machine.put(tensor, storage._untyped_storage.__dict__.get(machine.key))
        return tensor

    return rebuild


def install(patches: Patches) -> None:
    """Register the tagger and what restores; torch.save sees no marks on tensors."""
    registry = list(serialization._package_registry)
    registry.insert(0, (_PRIORITY, _tag, _restore))
    patches.set(serialization, "_package_registry", registry)
    patches.set(torch._utils, "_get_obj_state", without_marks(torch._utils._get_obj_state))
    patches.set(torch._utils, "_rebuild_tensor", _rebuild(torch._utils._rebuild_tensor))
    for name in ("cuda", "cpu", "to"):
        patches.set(torch.UntypedStorage, name, _storage_move(getattr(torch.UntypedStorage, name)))
