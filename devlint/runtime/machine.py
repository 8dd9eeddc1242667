"""One simulated machine: how many devices of which kind, what lies on which of them, and their random generators.

A tensor's place is kept on the tensor itself, in its `__dict__`, under a key that only this machine uses: a tensor of
another machine, or of none, lies on the host here. Only places other than the host are written down, so a tensor
without the key is a CPU tensor.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from . import texts

KINDS = ("cuda", "xpu", "mps")
PREFIX = "_devlint_place_"
MEMORY = 16 * 2**30  # bytes that each simulated device claims to have

# torch.func wraps tensors in its transforms; what is inside a wrapper carries the mark (torch/_functorch)
_in_transform = torch._C._functorch.peek_interpreter_stack

_numbers = itertools.count()
_draw_lock = threading.RLock()  # torch's CPU generator is one for all threads; see `drawing`


def _inner(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a wrapper of torch.func, the tensor itself where there is none."""
    functorch = torch._C._functorch
    return functorch.get_unwrapped(tensor) if functorch.is_functorch_wrapped_tensor(tensor) else tensor


class Machine:
    """The state of one simulation. Raises ValueError for a kind or number of devices that there is not."""

    def __init__(self, kind: str, count: int) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        if count < 0 or (kind == "mps" and count > 1):
            raise ValueError(f"a machine cannot have {count} {kind} devices")
        self.kind = kind
        self.count = count
        number = next(_numbers)
        self.key = f"{PREFIX}{number}"
        self.pin_key = f"{PREFIX}pinned_{number}"
        self.devices = tuple(torch.device(kind, index) for index in range(count))
        self.active = True
        self.started = False  # whether a device was used, torch.cuda.is_initialized()
        self.peak = [0] * count
        # torch seeds the generators of devices with the seed of the process when they start (torch/cuda/__init__.py)
        self.generators = tuple(torch.Generator() for _ in self.devices)
        for generator in self.generators:
            generator.manual_seed(torch.initial_seed())
        self._placed: dict[int, weakref.ref[torch.Tensor]] = {}
        self._sweep_at = 1024
        self._local = threading.local()
        self._process = os.getpid()

    # places

    def place(self, tensor: torch.Tensor) -> torch.device | None:
        """The simulated device of a tensor, None for the host."""
        found: torch.device | None = tensor.__dict__.get(self.key)
        if found is None and _in_transform() is not None:
            inner = _inner(tensor)
            return None if inner is tensor else self.place(inner)
        return found

    def put(self, tensor: torch.Tensor, place: torch.device | None) -> None:
        """Write down where a tensor lies."""
        if place is None:
            tensor.__dict__.pop(self.key, None)
            return
        if _in_transform() is not None and (inner := _inner(tensor)) is not tensor:
            self.put(inner, place)
        tensor.__dict__[self.key] = place
        placed = self._placed
        placed[id(tensor)] = weakref.ref(tensor)
        if len(placed) > self._sweep_at:
            self._placed = {key: ref for key, ref in list(placed.items()) if ref() is not None}
            self._sweep_at = 1024 + 2 * len(self._placed)

    def put_all(self, result: Any, place: torch.device | None) -> Any:
        """Write down the place of every tensor in a result: tensors, sequences, dictionaries. Returns the result."""
        if isinstance(result, torch.Tensor):
            self.put(result, place)
        elif isinstance(result, (list, tuple)):
            for item in result:
                self.put_all(item, place)
        elif isinstance(result, dict):
            for item in result.values():
                self.put_all(item, place)
        return result

    def living(self) -> Iterator[torch.Tensor]:
        """Every tensor that still lies on a simulated device."""
        for ref in list(self._placed.values()):
            tensor = ref()
            if tensor is not None and self.key in tensor.__dict__:
                yield tensor

    def forget(self) -> None:
        """Take every mark off the tensors that outlive the simulation, so that they are plain CPU tensors again."""
        for ref in list(self._placed.values()):
            tensor = ref()
            if tensor is not None:
                tensor.__dict__.pop(self.key, None)
                tensor.__dict__.pop(self.pin_key, None)
        self._placed.clear()

    def mark_pinned(self, tensor: torch.Tensor) -> None:
        """Note that a host tensor lies in pinned memory."""
        tensor.__dict__[self.pin_key] = True
        self._placed[id(tensor)] = weakref.ref(tensor)

    def allocated(self, index: int) -> int:
        """Bytes of the distinct storages on a device."""
        sizes: dict[int, int] = {}
        for tensor in self.living():
            if self.place(tensor) == self.devices[index]:
                storage = tensor.untyped_storage()
                sizes[storage._cdata] = storage.nbytes()
        total = sum(sizes.values())
        self.peak[index] = max(self.peak[index], total)
        return total

    # devices

    @property
    def current(self) -> int:
        """The current device's index; each thread has its own and starts at 0, as in the CUDA runtime."""
        index: int = getattr(self._local, "current", 0)
        return index

    @current.setter
    def current(self, index: int) -> None:
        self._local.current = index

    def start(self) -> None:
        """The first use of a device. Raises RuntimeError in a forked child and where there is no device."""
        if os.getpid() != self._process:
            name = {"cuda": "CUDA", "xpu": "XPU", "mps": "MPS"}[self.kind]
            raise RuntimeError(texts.FORKED.format(name=name))
        if not self.count:
            raise texts.no_devices(self.kind)
        self.started = True

    def device(self, index: int | None) -> torch.device:
        """A simulated device by its index, None for the current one. Raises torch's error when it is out of range."""
        self.start()
        if index is None or index == -1:
            index = self.current
        if not 0 <= index < self.count:
            raise texts.invalid_ordinal(self.kind, index, self.count)
        return self.devices[index]

    def resolve(self, device: Any) -> tuple[torch.device | None, torch.device]:
        """What a `device=` argument names: (simulated device or None for the host, the device to do the work on).

        Integers are devices of the machine's kind. Raises what torch.device raises for a bad name, and torch's error
        for an index out of range. Devices of other kinds (meta, ...) are handed on untouched.
        """
        if isinstance(device, int) and not isinstance(device, bool):
            return self.device(device), torch.device("cpu")
        if not isinstance(device, torch.device):
            device = torch.device(device)
        if device.type == self.kind:
            return self.device(device.index), torch.device("cpu")
        if device.type == "cpu":
            return None, torch.device("cpu")
        return None, device

    def index_of(self, device: Any) -> int:
        """The index that a `device` argument of a torch.cuda function means: None is the current device.

        Raises ValueError for a device of another kind, torch's error for an index out of range.
        """
        if device is None:
            return self.current
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type != self.kind:
                raise ValueError(f"Expected a {self.kind} device, but got: {device}")
            device = self.current if device.index is None else device.index
        if device < 0:
            return self.current
        return self.device(int(device)).index

    # the autograd engine

    @property
    def in_engine(self) -> bool:
        """Whether this thread is inside a backward pass.

        What the engine hands to Python there (gradients, saved tensors) are new objects without a mark, so they are
        taken to lie wherever they are used.
        """
        return bool(getattr(self._local, "engine", 0))

    @contextmanager
    def engine(self) -> Iterator[None]:
        """A backward pass of this thread."""
        self._local.engine = getattr(self._local, "engine", 0) + 1
        try:
            yield
        finally:
            self._local.engine -= 1

    # random numbers

    @contextmanager
    def drawing(self, place: torch.device) -> Iterator[None]:
        """Random numbers come from the generator of a device: its state stands in for the CPU generator's meanwhile."""
        generator, host = self.generators[place.index], torch.default_generator
        with _draw_lock:
            kept = host.get_state()
            host.set_state(generator.get_state())
            try:
                yield
            finally:
                generator.set_state(host.get_state())
                host.set_state(kept)


# The machines that this thread is inside of, innermost last. Threads that start inside a simulation inherit it.
_stacks = threading.local()


def machines() -> list[Machine]:
    """The machines of this thread, innermost last."""
    stack: list[Machine] | None = getattr(_stacks, "stack", None)
    if stack is None:
        stack = _stacks.stack = []
    return stack


def current_machine() -> Machine | None:
    """The machine that this thread runs on, None outside a simulation."""
    stack: list[Machine] | None = getattr(_stacks, "stack", None)
    if stack and stack[-1].active:
        return stack[-1]
    return None
