"""The simulated machine as a context manager.

How it works. Every tensor stays an ordinary CPU tensor; where it "lies" is written on it (`machine`). A
TorchFunctionMode (`mode`) sees each call of torch's API from Python, answers the ones about devices (`transfers`,
`functions`), marks results, and refuses what torch refuses (`mixed`, `rules`). torch.cuda, torch.accelerator and
their kin are stand-ins while a simulation lasts (`standins`, `streams`, `generators`, `checkpoints`, `parallel`). Two
other ways were tried: fake tensors have no values and know no `.to("cuda")` on a CPU build, and a tensor subclass over
`__torch_dispatch__` stops in autograd, which asks for a guard of the device. Here autograd, kernels and numbers are
torch's own.

What it does not see. Calls that C++ makes inside one call of Python (the backward pass, TorchScript) are not checked: a
fault is reported at the Python call, which is the user's line. What a TorchScript module returns lies on the host, and
its archives carry no place; torch.compile leaves things as they are. FSDP (FullyShardedDataParallel, fully_shard), CUDA
graphs and SyncBatchNorm over several processes are not simulated. The kernels are the CPU's, with its dtypes. Names
bound before the block (`from torch.cuda import is_available`) keep their old meaning. Worker processes are outside:
what they make is on the host, and using a device in a forked one raises what CUDA raises there. Threads that are
started inside the block are inside it. Work is done in order, so what goes wrong through asynchronous copies does not
go wrong here. A machine is its own world: a tensor of another simulation, or of none, is a CPU tensor in it, and when
the block is left all are CPU tensors.

What it costs. A training step of a small CNN takes 1.6 to 1.9 times as long as on the plain CPU with images of 8 x 8
pixels and 1.2 times with 32 x 32 (benchmarks/simulation.py, torch 2.13, one thread): the cost is per call of torch, 10
to 20 microseconds. The first simulation of a process imports torch._dynamo, which takes one to three seconds.
"""

from __future__ import annotations

import importlib
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch.utils import _device as default_device

from . import checkpoints, parallel, standins
from .machine import Machine, machines
from .mode import SimulationMode
from .patches import Patches

DEFAULT_COUNT = {"cuda": 2, "xpu": 2, "mps": 1}

_lock = threading.RLock()
_patches = Patches()
_open = 0  # simulations that are open in any thread


def _install() -> None:
    """Put the stand-ins in place when the first simulation opens; they ask which machine their thread is on."""
    global _open
    # Every optimizer imports it, at its first use; imported meanwhile it would keep the stand-ins for good.
    importlib.import_module("torch._dynamo")
    with _lock:
        _open += 1
        if _open == 1:
            try:
                for module in (standins, checkpoints, parallel):
                    module.install(_patches)
                _patches.set(threading.Thread, "start", _start_thread(threading.Thread.start))
            except BaseException:
                _open = 0
                _patches.undo()
                raise


def _uninstall() -> None:
    global _open
    with _lock:
        _open -= 1
        if _open == 0:
            _patches.undo()


def _start_thread(original: Any) -> Any:
    """Thread.start that takes the machines of the starting thread along."""

    def start(self: threading.Thread) -> None:
        inherited = [machine for machine in machines() if machine.active]
        if inherited:
            run = self.run

            def run_inside() -> None:
                with ExitStack() as stack:
                    for machine in inherited:
                        stack.enter_context(_Inside(machine))
                    run()

            self.run = run_inside  # type: ignore[method-assign]
        original(self)

    return start


class _Inside:
    """This thread is on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.mode = SimulationMode(machine)

    def __enter__(self) -> None:
        machines().append(self.machine)
        self.mode.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.mode.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        machines().remove(self.machine)


class Simulation:
    """See `devlint.runtime.simulate`. One object can be entered again after it was left; each time is a new machine."""

    def __init__(self, devices: int | None = None, kind: str = "cuda") -> None:
        self.kind = kind
        self.devices = DEFAULT_COUNT.get(kind, 0) if devices is None else devices
        Machine(kind, self.devices)  # raises ValueError for what cannot be

    def __enter__(self) -> Machine:
        if getattr(self, "machine", None) is not None:
            raise RuntimeError("this simulation is open already; call simulate() once more to nest another")
        self.machine: Machine | None = Machine(self.kind, self.devices)
        self._default = _default_state()
        _install()
        self._inside = _Inside(self.machine)
        self._inside.__enter__()
        return self.machine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        machine, self.machine = self.machine, None
        assert machine is not None
        try:
            _restore_default(self._default)
        finally:
            self._inside.__exit__(kind, error, trace)
            machine.active = False
            machine.forget()
            parallel.close(machine)
            _uninstall()


def _default_state() -> tuple[Any, Any, bool]:
    """The default device, the default tensor type's dtype, and whether set_default_device was ever used, before."""
    used = hasattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context")
    return default_device.CURRENT_DEVICE, torch.get_default_dtype(), used


def _restore_default(state: tuple[Any, Any, bool]) -> None:
    """Undo set_default_device and set_default_tensor_type where the block left them changed."""
    device, dtype, used = state
    if device != default_device.CURRENT_DEVICE:
        torch.set_default_device(device)
    if not used and getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", False) is None:
        # what set_default_device(None) leaves there makes get_default_device of torch 2.6.0 fail
        del torch._GLOBAL_DEVICE_CONTEXT.device_context
    if torch.get_default_dtype() != dtype:
        torch.set_default_dtype(dtype)
