"""Streams and events of a simulated device: work is done at once, so every wait has nothing to wait for."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch

from .machine import Machine, current_machine

_ids = itertools.count(1)


def _machine() -> Machine:
    machine = current_machine()
    if machine is None:
        raise RuntimeError("this stream or event belongs to a simulation that has ended")
    return machine


def _index(machine: Machine, device: Any) -> int:
    if isinstance(device, int):
        return machine.device(device).index
    return machine.index_of(device)


class Stream:
    """torch.cuda.Stream, torch.xpu.Stream and torch.Stream; stream 0 of a device is its default stream."""

    def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **kwargs: Any) -> None:
        machine = _machine()
        self.device_index = _index(machine, device)
        self.device = machine.devices[self.device_index]
        self.stream_id = next(_ids) if stream_id is None else stream_id
        self.device_type = 1
        self.priority = priority
        self.cuda_stream = self.sycl_queue = self.stream_id
        self._before: list[Stream] = []

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    wait_stream = wait_event

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """All work is done."""
        return True

    def is_capturing(self) -> bool:
        """No graphs are captured here."""
        return False

    def __enter__(self) -> Stream:
        machine = _machine()
        self._before.append(current(machine, self.device_index))
        choose(machine, self)
        return self

    def __exit__(self, *error: Any) -> None:
        choose(_machine(), self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"torch.{self.device.type}.Stream device={self.device} id={self.stream_id} (simulated)"


class Event:
    """torch.cuda.Event, torch.xpu.Event and torch.Event; the times are those of the host's clock."""

    def __init__(self, device: Any = None, enable_timing: bool = False, **kwargs: Any) -> None:
        self.enable_timing = bool(enable_timing or device is True)
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        """Now."""
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """It has happened."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two records. Raises ValueError as torch does where they were not both recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1000.0


def _streams(machine: Machine) -> dict[int, Stream]:
    streams: dict[int, Stream] | None = getattr(machine._local, "streams", None)
    if streams is None:
        streams = machine._local.streams = {}
    return streams


def default(machine: Machine, device: Any = None) -> Stream:
    """A device's default stream."""
    return Stream(device=torch.device(machine.kind, _index(machine, device)), stream_id=0)


def current(machine: Machine, device: Any = None) -> Stream:
    """The stream that this thread uses on a device."""
    index = _index(machine, device)
    return _streams(machine).get(index) or default(machine, index)


def choose(machine: Machine, stream: Stream | None) -> None:
    """Make a stream, and its device, the current one."""
    if stream is not None:
        _streams(machine)[stream.device_index] = stream
        machine.current = stream.device_index
