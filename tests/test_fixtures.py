"""The programs in fixtures/: findings exactly where their comments want them, fixes exact, and both of them run.

What the comments and the lines at the head of a program mean stands in fixtures/README.md.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import torch
from support import CHECKOUT

from devlint.checks import catalogue
from devlint.config import Config, load_config
from devlint.engine import FixResult, fix_bytes
from devlint.finding import Finding
from devlint.runtime import simulate

FOLDER = CHECKOUT / "fixtures"
GPUS = 4
WAYS = ("safe", "unsafe", "suggestion", "unfixed")
_HEAD = re.compile(r"# (select|needs|stops|stops still): (.+)")
_MARK = re.compile(r"# (?:want: (?P<want>[^;#]+))?(?:; )?(?:later: (?P<later>[^;#]+))?$")

Wanted = tuple[int, str, str]
"""Row, code, and how it is fixed: one of WAYS."""


@dataclass(frozen=True)
class Program:
    """One program and what it says of itself."""

    path: Path
    text: str
    head: dict[str, str]
    wanted: list[Wanted] = field(default_factory=list)
    later: list[tuple[int, str]] = field(default_factory=list)

    @property
    def fixed_path(self) -> Path:
        return self.path.with_suffix(".fixed.py")

    @property
    def needs(self) -> str:
        """What it takes to run it beyond a CPU: nothing, GPUs, several processes, or a package."""
        return self.head.get("needs", "")

    @property
    def stops(self) -> str:
        """The error with which a machine with GPUs stops the program as it stands, as KIND: WORDS."""
        return self.head.get("stops", "") or self.head.get("stops still", "")


def read(path: Path) -> Program:
    """Read a program; a line that looks like a mark and is none fails."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    head = {}
    for line in lines:
        match = _HEAD.fullmatch(line)
        if match is None:
            break
        head[match[1]] = match[2]
    wanted: list[Wanted] = []
    later: list[tuple[int, str]] = []
    for row, line in enumerate(lines, start=1):
        if "want:" not in line and "later:" not in line:
            continue
        match = _MARK.search(line)
        assert match is not None, f"{path}:{row}: not a mark: {line}"
        for entry in (match["want"] or "").split(", ") if match["want"] else ():
            code, way = entry.split(" ")
            assert way in WAYS, f"{path}:{row}: {entry!r} lacks one of {', '.join(WAYS)}"
            wanted.append((row, code, way))
        later += [(row, code) for code in match["later"].split(", ")] if match["later"] else []
    assert all(re.fullmatch(r"DEV\d{3}", code) for _, code, *_ in [*wanted, *later]), path
    return Program(path, text, head, wanted, later)


PROGRAMS = [read(path) for path in sorted(FOLDER.rglob("*.py")) if not path.name.endswith(".fixed.py")]
ALONE = [program for program in PROGRAMS if program.path.parent == FOLDER]


def name(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def each(programs: list[Program]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("program", programs, ids=[name(program.path)[:-3] for program in programs])


def config(program: Program) -> Config:
    """The default rules, or those that the program's head selects; unsafe fixes are wanted too."""
    options: dict[str, object] = {"unsafe-fixes": True}
    if "select" in program.head:
        options["select"] = program.head["select"].split(",")
    return load_config(None, options, catalogue())


@cache
def fix(path: Path) -> FixResult:
    """The findings of a program, and what fixing makes of it."""
    program = read(path)
    return fix_bytes(program.text.encode(), path.name, config(program))


def ways(findings: tuple[Finding, ...]) -> list[Wanted]:
    found = [(f.start.row, f.code, f.fix.applicability.value if f.fix else "unfixed") for f in findings]
    return sorted(found)


# --- what devlint says ------------------------------------------------------------------------------------------------


@each(PROGRAMS)
def test_findings_are_the_wanted_ones(program: Program) -> None:
    from devlint.engine import check_bytes

    report = check_bytes(program.text.encode(), program.path.name, config(program))
    assert ways(report.findings) == sorted(program.wanted)


@each(PROGRAMS)
def test_a_mark_for_later_goes_when_its_rule_comes(program: Program) -> None:
    built = {code for _, code in program.later} & set(catalogue())
    assert not built, f"{', '.join(sorted(built))} is built: say in {program.path.name} what is wanted of it"


@each(PROGRAMS)
def test_fixed_form_is_what_fix_makes(program: Program) -> None:
    result = fix(program.path)
    expected = program.fixed_path.read_text(encoding="utf-8") if program.fixed_path.exists() else program.text
    assert result.data.decode() == expected
    assert (expected != program.text) == any(way in WAYS[:2] for _, _, way in program.wanted)
    assert ways(result.report.findings) == ways_left(program)


@each([program for program in PROGRAMS if program.fixed_path.exists()])
def test_fixed_form_compiles_and_a_second_fix_changes_nothing(program: Program) -> None:
    text = program.fixed_path.read_text(encoding="utf-8")
    compile(text, program.fixed_path.name, "exec")
    again = fix_bytes(text.encode(), program.path.name, config(program))
    assert (again.data.decode(), again.fixed) == (text, ())
    assert ways(again.report.findings) == ways_left(program)


def ways_left(program: Program) -> list[Wanted]:
    """What is wanted of the fixed form: what has no fix. A fix may move rows; the marks stand where they stood."""
    if not program.fixed_path.exists():
        return sorted(program.wanted)
    return sorted(wanted for wanted in read(program.fixed_path).wanted if wanted[2] in WAYS[2:])


def test_every_fixed_form_has_its_program() -> None:
    names = {name(program.path) for program in PROGRAMS}
    assert {name(path).replace(".fixed.py", ".py") for path in FOLDER.rglob("*.fixed.py")} <= names
    assert len(names) > 20


# --- what torch says; tests/migration/ runs the scripts of its folder in its own ways ---------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a program as `python NAME.py` would, in an empty folder; what it changes in torch and `os` is put back."""
    import os

    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)

    def run(path: Path) -> None:
        monkeypatch.setattr(sys, "argv", [path.name])
        torch.manual_seed(0)
        runpy.run_path(str(path), run_name="__main__")
        capsys.readouterr()

    yield run
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)


def last(program: Program) -> Path:
    return program.fixed_path if program.fixed_path.exists() else program.path


@each([program for program in ALONE if not program.needs])
def test_runs_on_a_cpu(program: Program, run) -> None:
    run(last(program))


@pytest.mark.filterwarnings("ignore:.*torch.cuda.amp:FutureWarning")  # mixed_precision.py is about these
@each([program for program in ALONE if program.needs in ("", "GPUs")])
def test_on_gpus(program: Program, run) -> None:
    """A program stops with the error that it names; with its fixes made it runs, but where it says `stops still`."""
    expected: dict[Path, str] = {program.path: program.stops}
    expected.setdefault(last(program), program.head.get("stops still", ""))
    for path, error in expected.items():
        with simulate(devices=GPUS):
            if not error:
                run(path)
                continue
            with pytest.raises(Exception) as caught:
                run(path)
        kind, _, words = error.partition(": ")
        assert type(caught.value).__name__ == kind, caught.value
        assert words in str(caught.value)


@each([program for program in PROGRAMS if "stops" in program.head])
def test_what_is_fixed_is_what_stops(program: Program) -> None:
    """A program that runs after `fix` and did not before has a fix."""
    assert program.fixed_path.exists()


def test_what_a_program_needs_is_known() -> None:
    needs = defaultdict(list)
    for program in PROGRAMS:
        needs[program.needs].append(program.path.stem)
    assert set(needs) == {"", "GPUs", "several processes", "lightning", "accelerate", "ignite", "catalyst"}


def test_the_list_of_programs_is_complete() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.split("\n") if line.startswith("|")]
    listed = set(re.findall(r"`([\w/]+\.py)`", "\n".join(rows)))
    assert listed == {name(program.path) for program in PROGRAMS}
