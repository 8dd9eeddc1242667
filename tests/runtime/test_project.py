"""Which lines of which files ran, by whichever way this Python has, and which calls are statements of their own."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

from devlint.runtime.verify import project as own
from devlint.runtime.verify.project import Lines, Project, drops

TEXT = """\
import threading
def count(n):
    s = 0
    for i in range(n):
        s += i
    if s < 0:
        s = 1
    return s
count(3)
def work():
    x = 1
thread = threading.Thread(target=work)
thread.start(); thread.join()
"""


def test_lines_that_ran_in_all_threads(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(TEXT)
    looked = []

    def look(frame: FrameType, path: str, row: int) -> None:
        looked.append((row, frame.f_locals["i"]))

    project, traced = Project(str(tmp_path)), sys.gettrace()
    with Lines(project, lambda path: {5}, look) as lines:
        exec(compile(TEXT, str(path), "exec"), {})
    assert {name: sorted(rows) for name, rows in lines.ran.items()} == {
        str(path.resolve()): [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    }
    assert looked == [(5, 0), (5, 1), (5, 2)]
    assert sys.gettrace() is traced


def test_what_is_the_projects(tmp_path: Path) -> None:
    project = Project(str(tmp_path))
    inside = tmp_path / "a" / "b.py"
    assert project.path(str(inside)) == str(inside.resolve())
    outside = [tmp_path.parent / "c.py", tmp_path / "site-packages" / "d.py", threading.__file__, "<string>"]
    assert [project.path(str(path)) for path in outside] == [None] * 4
    checkout = Path(own.__file__).parents[3]
    assert Project(str(checkout)).path(own.__file__) is None


class _Asks:
    """Notes for each call, from C as from Python, whether its caller throws the result away."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def method(self) -> int:
        self.told.append(drops(sys._getframe(1)))
        return 1

    def __len__(self) -> int:  # called by C
        self.told.append(drops(sys._getframe(1)))
        return 1


def test_calls_whose_result_is_dropped() -> None:
    asks = _Asks()
    asks.method()
    len(asks)
    x = asks.method()
    y = len(asks)
    print(asks.method(), len(asks))
    if asks.method():
        asks.method(
            # over several lines
        )
    assert asks.told == [True, True, False, False, False, False, False, True]
    assert x == y == 1
