"""Which files are the project's, which of their lines ran, and what a line did with the result of a call."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

from .evidence import Place

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = os.path.realpath(sysconfig.get_path("stdlib"))


class Project:
    """The Python files under a root, without installed packages and without devlint itself."""

    def __init__(self, root: str) -> None:
        self.root = os.path.join(os.path.realpath(root), "")
        self._known: dict[str, str | None] = {}

    def path(self, filename: str) -> str | None:
        """The absolute path of a code object's file, None where it is none of the project's."""
        try:
            return self._known[filename]
        except KeyError:
            pass
        found: str | None = None
        if not filename.startswith("<"):
            real = os.path.realpath(filename)
            parts = real.split(os.sep)
            inside = real.startswith(self.root) and not any(part in _INSTALLED for part in parts)
            if inside and not _under(real, _HERE) and not _under(real, _LIBRARY):
                found = real
        self._known[filename] = found
        return found

    def frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame of the project, from `frame` outwards."""
        known = self._known
        while frame is not None:
            name = frame.f_code.co_filename
            if (known[name] if name in known else self.path(name)) is not None:
                return frame
            frame = frame.f_back
        return None

    def frames(self, frame: FrameType | None) -> Iterator[FrameType]:
        """The project's frames, innermost first."""
        while (frame := self.frame(frame)) is not None:
            yield frame
            frame = frame.f_back

    def place(self, frame: FrameType) -> Place:
        """The line at which one of the project's frames stands."""
        return self._known[frame.f_code.co_filename] or "", frame.f_lineno


def _under(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


class Lines:
    """Collects the lines of the project that run, each once, in all threads, while it is open.

    sys.monitoring tells it (Python 3.12 and later), sys.settrace before. `wanted` names the rows of a file before each
    run of which `look` is called.
    """

    def __init__(
        self,
        project: Project,
        wanted: Callable[[str], Container[int]] = lambda path: (),
        look: Callable[[FrameType, str, int], None] = lambda frame, path, row: None,
    ) -> None:
        self._project = project
        self._wanted = wanted
        self._look = look
        self.ran: dict[str, set[int]] = {}
        self._close: Callable[[], None] = lambda: None

    def __enter__(self) -> Lines:
        self._close = self._monitor() if sys.version_info >= (3, 12) else self._trace()
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _monitor(self) -> Callable[[], None]:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        tool = next(number for number in (4, 3, 5, 1) if monitoring.get_tool(number) is None)
        looked_at: dict[str, Container[int]] = {}

        def line(code: CodeType, row: int) -> Any:
            path = self._project.path(code.co_filename)
            if path is None:
                return monitoring.DISABLE
            self.ran.setdefault(path, set()).add(row)
            if path not in looked_at:
                looked_at[path] = self._wanted(path)
            if row not in looked_at[path]:
                return monitoring.DISABLE
            self._look(sys._getframe(1), path, row)
            return None

        monitoring.use_tool_id(tool, "devlint")
        monitoring.register_callback(tool, monitoring.events.LINE, line)
        monitoring.set_events(tool, monitoring.events.LINE)
        return lambda: monitoring.free_tool_id(tool)

    def _trace(self) -> Callable[[], None]:
        import threading

        tracers: dict[str, Any] = {}  # by file name: this is asked at each call of a Python function

        def called(frame: FrameType, event: str, argument: object) -> Any:
            name = frame.f_code.co_filename
            try:
                return tracers[name]
            except KeyError:
                path = self._project.path(name)
                tracers[name] = None if path is None else self._tracer(path)
                return tracers[name]

        before = sys.gettrace()
        sys.settrace(called)
        threading.settrace(called)

        def close() -> None:
            sys.settrace(before)
            threading.settrace(before)

        return close

    def _tracer(self, path: str) -> Any:
        """What is told of the lines of one file."""
        rows, wanted = self.ran.setdefault(path, set()), self._wanted(path)

        def line(frame: FrameType, event: str, argument: object) -> Any:
            row = frame.f_lineno
            rows.add(row)
            if row in wanted and event == "line":
                self._look(frame, path, row)
            return line

        return line


@cache
def _instructions(code: CodeType) -> tuple[list[int], list[str]]:
    """The offsets and names of a code object's instructions, without inline caches."""
    found = list(dis.get_instructions(code))
    return [instruction.offset for instruction in found], [instruction.opname for instruction in found]


def drops(frame: FrameType) -> bool:
    """Whether the call that a frame is making is a statement of its own, whose result is thrown away."""
    offsets, names = _instructions(frame.f_code)
    # where Python calls Python the last instruction is, on 3.11, an inline cache of the call
    after = bisect_right(offsets, frame.f_lasti)
    return after < len(names) and names[after] == "POP_TOP"
