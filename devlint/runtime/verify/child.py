"""The process in which a program runs: `python -m devlint.runtime.verify.child ORDER`, started by `launch`.

The program gets what `python SCRIPT` would give it: its arguments, its folder first in sys.path, `__main__`. What was
seen is written down while it runs, a few times a second, so that a crash or a hang loses next to nothing.
"""

from __future__ import annotations

import io
import json
import os
import random
import runpy
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from .. import simulate
from ..devices import real_devices
from ..torch_import import require_torch
from .evidence import End, Evidence, Place
from .launch import Order
from .overlay import overlay
from .project import Lines, Project

_EVERY = 0.3  # seconds between two looks at what is new
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class NoDevice(Exception):
    """The device that was asked for is not there; the message says so."""


class Watching:
    """One run: while it is open, what the program does is seen, and written down as it comes."""

    def __init__(self, order: Order, words: str) -> None:
        from .comparisons import Comparisons
        from .tracer import Tracer

        self.order = order
        self.words = words
        self.project = Project(order.root)
        self.tracer = Tracer(self.project)
        compared = Comparisons(order.texts, lambda place, words: self.tracer.note("comparison", place, words))
        self.lines = Lines(self.project, compared.rows, compared.look)
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.fatal: dict[int, tuple[Place, ...]] = {}
        self._open = ExitStack()

    def __enter__(self) -> Watching:
        self.write(End())  # says that the program starts now
        self._open.enter_context(self._watched())
        self._open.enter_context(self.tracer)
        self._open.enter_context(self.lines)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        self.tracer.close_containers()

    def evidence(self, end: End) -> Evidence:
        """What was seen until now."""
        failures = [
            replace(failure, fatal=number in self.fatal, stack=_joined(failure.stack, self.fatal.get(number, ())))
            for number, failure in list(self.tracer.failures.items())
        ]
        lines = {path: sorted(rows) for path, rows in list(self.lines.ran.items())}
        return Evidence(self.words, lines, list(self.tracer.seen.items()), failures, end)

    def write(self, end: End) -> None:
        """Write it down, in one step."""
        if os.getpid() != self.process:
            return
        with self.lock:
            new = f"{self.order.out}.new"
            with open(new, "w", encoding="utf-8") as file:
                file.write(self.evidence(end).to_json())
            os.replace(new, self.order.out)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Meanwhile, write down what is new, and end the process when its time is up."""
        stop = threading.Event()

        def look() -> None:
            waited, limit = 0.0, self.order.max_seconds
            while not stop.wait(_EVERY):
                waited += _EVERY
                if limit is not None and waited >= limit:
                    self.tracer.close_containers()
                    self.write(End("late"))
                    sys.stdout.flush()
                    os._exit(0)
                if self.tracer.news.is_set():
                    self.tracer.news.clear()
                    self.write(End())

        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        try:
            yield
        finally:
            stop.set()
            watching.join()  # else it might write once more, over what is written last

    def failed(self, error: BaseException) -> None:
        """An error that the program did not get over: if it is about devices, note so."""
        number = self.tracer.ended_by(error)
        if number is not None:
            self.fatal[number] = self._stack(error)

    def ended_by(self, error: BaseException) -> End:
        """The end that an error made of the run."""
        self.failed(error)
        return End("raised", 1, type(error).__name__, str(error), self._stack(error))

    def _stack(self, error: BaseException) -> tuple[Place, ...]:
        """The project's lines in an error's traceback, innermost first."""
        found = []
        for frame, row in traceback.walk_tb(error.__traceback__):
            path = self.project.path(frame.f_code.co_filename)
            if path is not None:
                found.append((path, row))
        return tuple(reversed(found))


def _joined(first: tuple[Place, ...], second: tuple[Place, ...]) -> tuple[Place, ...]:
    """The lines of a failure and those of the traceback in which it came up: a thread has only its own."""
    return tuple(dict.fromkeys((*first, *second)))


def main() -> None:
    """Run what the order says; the process ends with 0 whatever the program did, for that is in the evidence."""
    with open(sys.argv[1], encoding="utf-8") as file:
        order = Order(**json.load(file))
    require_torch()
    try:
        for one in _each(order):
            with ExitStack() as stack:
                observe(one, _device(order.device, stack))
    except NoDevice as error:
        with open(order.out, "w", encoding="utf-8") as file:
            file.write(Evidence(end=End("refused", message=str(error))).to_json())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that the program left behind, and what it registered to run at its end, are over


def _each(order: Order) -> list[Order]:
    """One order per script, for a folder of scripts; what is seen of each is written beside it."""
    if order.kind != "scripts":
        return [order]
    os.chdir(order.target)  # what they write goes with them
    scripts = sorted(name for name in os.listdir(order.target) if name.endswith(".py"))
    paths = [os.path.join(order.target, name) for name in scripts]
    return [replace(order, kind="script", target=path, out=f"{path}.json") for path in paths]


def observe(order: Order, words: str) -> Evidence:
    """Run a program here and now, on the machine there is, which is called so; what was seen is written down too."""
    run = Watching(order, words)
    with overlay(order.texts), run:
        end = _ended(run)
    run.write(end)
    return run.evidence(end)


def _device(wanted: str, stack: ExitStack) -> str:
    """Make the machine on which the program runs; returns what it is in words. Raises NoDevice."""
    kind, _, number = wanted.partition(":")
    found = [] if kind == "simulated" else real_devices()
    if kind == "auto" and not found:
        kind = "simulated"
    if kind == "simulated":
        count = int(number) if number else 2
        stack.enter_context(simulate(devices=count))
        return f"{count} simulated cuda device{'' if count == 1 else 's'}"
    fitting = [device for device in found if kind in ("auto", device.torch_name.partition(":")[0])]
    if not fitting:
        raise NoDevice(f"torch finds no {kind} device here; --device simulated runs on simulated ones")
    return ", ".join(f"{device.torch_name} ({device.product})" for device in fitting)


def _ended(run: Watching) -> End:
    """Run the program; how it ended."""
    order = run.order
    if order.seed is not None:
        _seed(order.seed)
    try:
        code = _RUNNERS[order.kind](run)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException as error:
        end = run.ended_by(error)
        print(_own_traceback(error), end="", file=sys.stderr)
        return end
    return End("exited", code) if code else End("finished")


def _seed(seed: int) -> None:
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _script(run: Watching) -> int:
    path = run.order.target
    sys.argv = [path, *run.order.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    text = run.order.texts.get(os.path.realpath(path))
    if text is None:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec")
    else:
        code = compile(text, path, "exec")
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    exec(code, module.__dict__)
    return 0


def _module(run: Watching) -> int:
    sys.argv = [run.order.target, *run.order.arguments]
    runpy.run_module(run.order.target, run_name="__main__", alter_sys=True)
    return 0


def _pytest(run: Watching) -> int:
    import pytest

    class Watch:
        """Each test that fails with an error about devices is one that the program did not get over."""

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            report = yield
            if report.failed and call.excinfo is not None:
                run.failed(call.excinfo.value)
                if run.tracer.ended_by(call.excinfo.value) is None:
                    self.others += 1
            return report

        others = 0

    watch = Watch()
    # Devlint is there before its pytest plugin is, and has no assertions to rewrite.
    quiet = ("-W", "ignore:Module already imported so cannot be rewritten. devlint:pytest.PytestAssertRewriteWarning")
    code = int(pytest.main(["-p", "no:cacheprovider", *quiet, *run.order.arguments], plugins=[watch]))
    if code == pytest.ExitCode.TESTS_FAILED and not watch.others:
        return 0  # what failed is in the evidence
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


_RUNNERS = {"script": _script, "module": _module, "pytest": _pytest}


def _own_traceback(error: BaseException) -> str:
    """The traceback as the program alone would have had it, without the frames of devlint."""
    shown = traceback.TracebackException.from_exception(error)
    links: list[traceback.TracebackException | None] = [shown]
    while links:
        link = links.pop()
        if link is not None:
            seen = [frame for frame in link.stack if not frame.filename.startswith((_OWN, "<frozen runpy"))]
            # a mode makes a function of torch call itself once more, by way of this one
            asks = [frame.name == "handle_torch_function" for frame in (*seen[1:], *seen[-1:])]
            kept = [frame for frame, next_asks in zip(seen, asks, strict=True) if not next_asks]
            kept = [frame for frame in kept if frame.name != "handle_torch_function"]
            link.stack = traceback.StackSummary.from_list(kept)
            links += [link.__cause__, link.__context__]
    return "".join(shown.format())


if __name__ == "__main__":
    main()
