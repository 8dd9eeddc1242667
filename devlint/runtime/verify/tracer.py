"""Sees each call of torch that a program makes, and the program's line that made it.

A function mode lies over the simulation's (or alone, on a real device): it sees the outermost calls of torch from
Python, which are those that a program, or a layer of torch on its behalf, makes. What is of no interest is passed on
at once. Each tensor carries the lines that put it where it lies (factory, load, move); a result takes over those of its
operands. So an error about devices can name the line where the fault was made, which is seldom the line that stops.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType, MethodWrapperType, TracebackType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .. import checkpoints
from ..machine import PREFIX, current_machine
from ..patches import Patches
from ..transfers import setter
from .evidence import Failure, Operand, Place, Seen
from .project import Project, drops
from .refusals import is_about_devices

_MADE = f"{PREFIX}made"
_CPU = "cpu"
_MOST_LINES = 8  # lines that a tensor remembers: enough to name the fault, few enough to carry along
_FAILURE = "_devlint_failure"
_CONSTRUCTING = ("__init__", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")

_Tensor = torch.Tensor
_MOVES = {
    getattr(_Tensor, name): name
    for name in (
        *("to", "cuda", "cpu", "xpu", "type", "type_as", "half", "float", "double", "bfloat16", "int", "long"),
        *("bool", "pin_memory"),
    )
}
_WAITS = {
    **{
        getattr(_Tensor, name): name.strip("_")
        for name in (
            *("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__repr__", "__format__"),
            *("nonzero", "masked_select", "unique", "equal", "allclose"),
        )
    },
    torch.nonzero: "nonzero",
    torch.masked_select: "masked_select",
    torch.unique: "unique",
    torch.equal: "equal",
    torch.allclose: "allclose",
}
_INDEXED = {_Tensor.__getitem__, _Tensor.__setitem__}
_SET_DATA = setter("data")
_CONTAINERS = (list, tuple, dict)


def _tensors(values: Iterable[Any], depth: int = 2) -> Iterator[torch.Tensor]:
    """The tensors among arguments, those in lists and dictionaries included."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif depth and isinstance(value, _CONTAINERS):
            yield from _tensors(value.values() if isinstance(value, dict) else value, depth - 1)


def _modules(values: Iterable[Any], depth: int = 2) -> Iterator[Any]:
    """The modules and parameters in plain containers."""
    for value in values:
        if isinstance(value, (nn.Module, nn.Parameter)):
            yield value
        elif depth and type(value) in _CONTAINERS:
            yield from _modules(value.values() if isinstance(value, dict) else value, depth - 1)


def _moves(part: nn.Module | nn.Parameter) -> bool:
    """Whether it makes a difference that something is moved: a Module without parameters and buffers is nowhere."""
    return not isinstance(part, nn.Module) or any(True for _ in (*part.parameters(), *part.buffers()))


class Tracer:
    """Collects what is seen while it is open, in this thread and those that start meanwhile."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.seen: Counter[Seen] = Counter()
        self.failures: dict[int, Failure] = {}
        self.news = threading.Event()
        self._patches = Patches()
        self._mode = _Mode(self)
        self._containers: dict[Place, tuple[nn.Module, str]] = {}
        self._on_device: set[Place] = set()
        self._drops: dict[Place, str] = {}
        self._merged: dict[tuple[Any, Any], tuple[Place, ...]] = {}

    def __enter__(self) -> Tracer:
        self._install()
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._mode.__exit__(kind, error, _)  # type: ignore[no-untyped-call]
        self._patches.undo()

    # what is seen

    def note(self, kind: str, place: Place, what: str = "") -> None:
        """Count one event."""
        event = Seen(kind, *place, what)
        if event not in self.seen:
            self.news.set()
        self.seen[event] += 1

    def close_containers(self) -> None:
        """Note the plain containers that hold modules or parameters which their Module does not know."""
        for place, (module, name) in self._containers.items():
            held = [part for part in _modules([vars(module).get(name)]) if _moves(part)]
            known = {id(part) for part in (*module.modules(), *module.parameters())}
            loose = [part for part in held if id(part) not in known]
            if loose:
                self.seen[Seen("loose", *place, f"{type(module).__name__}.{name} holds {len(loose)} of them")] = 1
            elif held:
                self.seen[Seen("registered", *place, f"{type(module).__name__} knows what {name} holds")] = 1

    def done(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A call of torch returned."""
        frame = self.project.frame(sys._getframe(2))
        if frame is None:
            return
        place = self.project.place(frame)
        if func in _MOVES:
            self._moved(_MOVES[func], frame, place, args, kwargs, result)
            return
        if func in _WAITS:
            if device(args[0]) != _CPU:
                self.note("wait", place, _WAITS[func])
            return
        operands = list(_tensors((*args, *kwargs.values())))
        if func in _INDEXED or func is _Tensor.copy_:
            self._hidden(func, place, operands)
        if isinstance(result, torch.Tensor):
            results: tuple[torch.Tensor, ...] = (result,)
        else:
            results = tuple(_tensors((result,))) if isinstance(result, _CONTAINERS) else ()
        self._inherit(place, operands, results, chosen=not operands or kwargs.get("device") is not None)
        if place not in self._on_device and any(device(made) != _CPU for made in results):
            self._on_device.add(place)
            self.note("device", place)
        kinds = {type(operand) is nn.Parameter for operand in operands}
        # Without a result a parameter is only asked about, and one that is the result is loaded or cast.
        used = len(kinds) == 2 and results and not any(type(made) is nn.Parameter for made in results)
        if used and all(device(operand) == _CPU for operand in operands):
            self.note("host model", place)

    def _moved(
        self, name: str, frame: FrameType, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        tensor = args[0]
        if not isinstance(result, torch.Tensor):
            return  # Tensor.type() asks
        before, after = device(tensor), device(result)
        if before != after:
            result.__dict__[_MADE] = (place,)
            self.note("copy", place, f"{before} to {after}")
            for line in tensor.__dict__.get(_MADE, ()):
                if line != place:
                    self.note("left", line)
        else:
            self._inherit(place, [tensor], (result,), chosen=False)
        direct = sys._getframe(3) is frame
        changed = before != after or tensor.dtype != result.dtype
        if not drops(frame):
            if direct and changed:
                self.note("kept", place)
        elif direct:
            what = f"{before} to {after}" if before != after else f"{tensor.dtype} to {result.dtype}"
            self.note(
                self._dropped(frame, place, tensor) if changed else "unchanged", place, what if changed else before
            )
            if changed:
                tensor.__dict__[_MADE] = self._merge(tensor.__dict__.get(_MADE, ()), (place,))
        else:
            owner = _receiver(frame)
            if isinstance(owner, nn.utils.rnn.PackedSequence):
                if changed:
                    self.note("dropped", place, f"PackedSequence, {before} to {after}")
            elif owner is not None and not isinstance(owner, nn.Module):
                self.note("other", place, type(owner).__name__)

    def _dropped(self, frame: FrameType, place: Place, tensor: torch.Tensor) -> str:
        """What a statement drops: the copy of what has a name, or of a temporary, made for the sake of making one."""
        if place not in self._drops:  # looked up once: a frame may hold much
            self._drops[place] = "dropped" if _names(frame, tensor) else "dropped temporary"
        return self._drops[place]

    def _hidden(self, func: Any, place: Place, operands: list[torch.Tensor]) -> None:
        """An index or an assignment that copies between host and device, or makes the host wait."""
        first, *others = operands
        here = device(first)
        for other in others:
            there = device(other)
            if there != here and other.dim() > 0 and _CPU in (here, there):
                self.note("hidden copy", place, f"{there} to {here}")
            elif func is _Tensor.__getitem__ and here != _CPU and other.dtype in (torch.bool, torch.uint8):
                self.note("wait", place, "index by a mask")

    def _inherit(
        self, place: Place, operands: list[torch.Tensor], results: tuple[torch.Tensor, ...], *, chosen: bool
    ) -> None:
        """Write down which lines put the results where they lie."""
        lines: tuple[Place, ...] = ()
        if chosen:
            lines = (place,)
        else:
            for operand in operands:
                # what has no line came from where nothing is seen, as a legacy constructor: it is seen first here
                more = operand.__dict__.setdefault(_MADE, (place,))
                if more is not lines:
                    lines = self._merge(lines, more) if lines else more
        for result in results:
            if _MADE not in result.__dict__ and lines:
                result.__dict__[_MADE] = lines

    def _merge(self, first: tuple[Place, ...], second: tuple[Place, ...]) -> tuple[Place, ...]:
        both = self._merged.get((first, second))
        if both is None:
            both = tuple(dict.fromkeys((*first, *second)))[:_MOST_LINES]
            self._merged[first, second] = both
        return both

    def failed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
        """A call of torch raised."""
        if hasattr(error, _FAILURE) or not is_about_devices(str(error)):
            return
        frames = list(self.project.frames(sys._getframe(2)))
        operands = list(_tensors((*args, *kwargs.values())))
        wrong = [tensor for tensor in operands if device(tensor) == _CPU] or operands
        held = tuple(number for number, frame in enumerate(frames) if _holds(frame, wrong))
        found = tuple(Operand(device(tensor), tensor.__dict__.get(_MADE, ())) for tensor in operands)
        name = getattr(func, "__name__", str(func))
        number = len(self.failures)
        stack = tuple(map(self.project.place, frames))
        self.failures[number] = Failure(
            type(error).__name__, str(error), name, stack, tuple(dict.fromkeys(found)), held
        )
        setattr(error, _FAILURE, number)
        self.news.set()

    def ended_by(self, error: BaseException) -> int | None:
        """The number of the failure that an error is, comes from, or repeats; a new one where none was seen."""
        link: BaseException | None = error
        while link is not None:
            number: int | None = getattr(link, _FAILURE, None)
            if number is not None:
                return number
            link = link.__cause__ or link.__context__
        for number, failure in self.failures.items():
            if failure.message in str(error):  # raised anew for another thread, with more words
                return number
        if not is_about_devices(str(error)):
            return None
        number = len(self.failures)
        self.failures[number] = Failure(type(error).__name__, str(error), "", ())
        return number

    # what is replaced meanwhile

    def _install(self) -> None:
        patches = self._patches
        patches.set(nn.Module, "__setattr__", self._set_attribute(nn.Module.__setattr__))
        patches.set(nn.Module, "_apply", self._apply(nn.Module._apply))
        patches.set(nn.Parameter, "__new__", staticmethod(self._parameter(nn.Parameter.__new__)))
        patches.set(nn.Module, "register_buffer", self._buffer(nn.Module.register_buffer))
        patches.set(nn.DataParallel, "__init__", self._wrapped(nn.DataParallel.__init__))
        patches.set(torch, "load", self._load(torch.load))
        patches.set(torch.serialization, "load", torch.load)
        patches.set(threading.Thread, "start", self._start_thread(threading.Thread.start))
        patches.set(warnings, "showwarning", self._warned(warnings.showwarning))
        if current_machine() is None:  # the simulation does this itself
            patches.set(torch._utils, "_get_obj_state", checkpoints.without_marks(torch._utils._get_obj_state))

    def _here(self) -> Place | None:
        frame = self.project.frame(sys._getframe(2))
        return None if frame is None else self.project.place(frame)

    def _set_attribute(self, original: Any) -> Any:
        def set_attribute(module: nn.Module, name: str, value: Any) -> None:
            original(module, name, value)
            if isinstance(value, torch.Tensor):
                if name not in module.__dict__:
                    return
                place = self._here()
                if place is not None:
                    made = value.__dict__.get(_MADE, ())
                    value.__dict__[_MADE] = self._merge(made, (place,))
            elif type(value) in _CONTAINERS and not name.startswith("_"):
                place = self._here()
                if place is not None:
                    # one module a line is kept: what it holds is looked at in the end
                    self._containers.setdefault(place, (module, name))

        return set_attribute

    def _apply(self, original: Any) -> Any:
        def apply(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
            caller = sys._getframe(1)
            inner = caller.f_code.co_name in ("to", "cuda", "cpu", "xpu", "half", "float", "double", "bfloat16", "type")
            frame = caller.f_back if inner else caller
            if frame is not None and self.project.path(frame.f_code.co_filename) is not None:
                self.note("module", self.project.place(frame), type(module).__name__)
            moved: nn.Module = original(module, *args, **kwargs)
            return moved

        return apply

    def _parameter(self, original: Any) -> Any:
        def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            made = original(cls, data, requires_grad)
            lines = data.__dict__.get(_MADE, ()) if isinstance(data, torch.Tensor) else ()
            made.__dict__[_MADE] = self._merge(lines, self._constructors())
            return made

        return new

    def _buffer(self, original: Any) -> Any:
        def register(module: nn.Module, name: str, tensor: Any, *args: Any, **kwargs: Any) -> None:
            original(module, name, tensor, *args, **kwargs)
            if isinstance(tensor, torch.Tensor):
                tensor.__dict__[_MADE] = self._merge(tensor.__dict__.get(_MADE, ()), self._constructors())

        return register

    def _constructors(self) -> tuple[Place, ...]:
        """The lines of the constructors that are at work, innermost first, and the one that called the outermost."""
        found = []
        for frame in self.project.frames(sys._getframe(2)):
            found.append(self.project.place(frame))
            if frame.f_code.co_name not in _CONSTRUCTING:
                break
        return tuple(found)

    def _wrapped(self, original: Any) -> Any:
        def init(wrapper: nn.DataParallel[Any], *args: Any, **kwargs: Any) -> None:
            original(wrapper, *args, **kwargs)
            place = self._here()
            if place is not None:
                self.note("wrapped", place, f"{len(wrapper.device_ids)} devices" if wrapper.device_ids else "no device")

        return init

    def _load(self, original: Any) -> Any:
        def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            loaded = original(f, map_location, *args, **kwargs)
            place = self._here()
            if place is not None:
                tensors = list(_tensors([loaded], depth=6))
                for tensor in tensors:
                    tensor.__dict__[_MADE] = (place,)
                places = ", ".join(sorted({device(tensor) for tensor in tensors})) or "no tensors"
                self.note("load", place, f"{'as saved' if map_location is None else 'mapped'}: {places}")
            return loaded

        return load

    def _start_thread(self, original: Any) -> Any:
        def start(thread: threading.Thread) -> None:
            run = thread.run

            def run_traced() -> None:
                with _Mode(self):
                    run()

            thread.run = run_traced  # type: ignore[method-assign]
            original(thread)

        return start

    def _warned(self, original: Any) -> Any:
        def show(message: Any, category: Any, filename: str, lineno: int, *more: Any) -> None:
            path = self.project.path(filename)
            if path is not None and "deprecated" in str(message):
                self.note("deprecated", (path, lineno), str(message))
            original(message, category, filename, lineno, *more)

        return show


class _Mode(TorchFunctionMode):
    """The function mode of one thread."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        __tracebackhide__ = True  # pytest shows the line of the test or model
        kwargs = kwargs or {}
        if type(func) is MethodWrapperType:  # an attribute is read or set
            result = func(*args, **kwargs)
            if func == _SET_DATA and _MADE in args[1].__dict__:
                args[0].__dict__[_MADE] = args[1].__dict__[_MADE]
            return result
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self.tracer.failed(func, args, kwargs, error)
            raise
        self.tracer.done(func, args, kwargs, result)
        return result


def device(tensor: torch.Tensor) -> str:
    """Where a tensor lies, in torch's words, on the simulated machine or the real one."""
    machine = current_machine()
    if machine is not None:
        place = machine.place(tensor)
        return _CPU if place is None else str(place)
    with torch._C.DisableTorchFunction():
        return str(tensor.device)


def _receiver(frame: FrameType) -> Any:
    """The object whose method a frame of the project is calling, as its own frame names it."""
    inner: FrameType | None = sys._getframe(1)
    while inner is not None and inner.f_back is not frame:
        inner = inner.f_back
    return None if inner is None else inner.f_locals.get("self")


def _names(frame: FrameType, tensor: torch.Tensor) -> bool:
    """Whether a tensor has a name in a frame, or stands in what has one: a container, an object's attributes."""
    named = [*frame.f_locals.values(), *frame.f_globals.values()]
    inside = [vars(value) for value in frame.f_locals.values() if hasattr(value, "__dict__")]
    return any(value is tensor for value in _tensors([*named, *inside]))


def _holds(frame: FrameType, tensors: list[torch.Tensor]) -> bool:
    """Whether one of the tensors, or one put in place by the same lines, has a name in a frame.

    What a Module keeps in its attributes does not count: it is not what the frame hands on.
    """
    wanted = {tensor.__dict__.get(_MADE) for tensor in tensors} - {None}
    local = dict(frame.f_locals)
    owner = local.pop("self", None)
    if owner is not None and not isinstance(owner, nn.Module):
        local |= getattr(owner, "__dict__", {})
    return any(
        any(value is tensor for tensor in tensors) or value.__dict__.get(_MADE) in wanted
        for value in _tensors(local.values())
    )
