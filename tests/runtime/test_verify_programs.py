"""The eight whole programs under `devlint verify`: clean as they are; each planted fault is named at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime.faults import FAULTS, Fault
from runtime.test_programs import IDS, NAMES, PROGRAMS, TWO, load_text
from runtime.watching import Watch, watch

from devlint.runtime.verify.judge import CONFIRMED
from devlint.session import settle
from devlint.verifying.script import Outcome, outcome

__all__ = ["watch"]


def verify(watch: Watch, folder: Path, name: str, text: str) -> Outcome:
    """What is said of a program whose main is called by a script beside it."""
    devices = '"cuda:0", "cuda:1"' if name in TWO else '"cuda:0"'
    evidence = watch(f"import {name}\n\n{name}.main({devices})\n", **{name: text})
    assert set(evidence.files) == {str(folder / "script.py"), str(folder / f"{name}.py")}
    return outcome(evidence, settle([str(folder)], {})[0])


@pytest.mark.parametrize("name", NAMES)
def test_program_is_clean_as_it_is(watch: Watch, tmp_path: Path, name: str) -> None:
    result = verify(watch, tmp_path, name, (PROGRAMS / f"{name}.py").read_text())
    assert (result.judged, result.extras, result.failed) == ([], [], False)
    assert result.evidence.end.kind == "finished"


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_planted_fault_is_named_at_its_line(watch: Watch, tmp_path: Path, fault: Fault) -> None:
    """At the line that torch refuses, or where the fault was made and what stops is traced back to it."""
    text = load_text(fault)
    result = verify(watch, tmp_path, fault.program, text)
    assert (result.found, result.failed) == (True, False)
    lines = text.splitlines()
    stops = {row for row, line in enumerate(lines, 1) if fault.at in line}
    confirmed = [item for item in result.judged if item.verdict.outcome == CONFIRMED]
    (failure,) = [failure for failure in result.evidence.failures if failure.fatal]
    named = {row for path, row in failure.stack if path.endswith(f"{fault.program}.py")}
    assert named & stops
    assert fault.error[1] in failure.message
    if not confirmed:
        (extra,) = [extra for extra in result.extras if extra.row in stops]
        assert fault.error[1].partition("\n")[0] in extra.message
    else:
        made = {row for operand in failure.operands for _, row in operand.made}
        original = (PROGRAMS / f"{fault.program}.py").read_text().splitlines()
        planted = {row for row, line in enumerate(lines, 1) if line not in original}
        assert {item.finding.start.row for item in confirmed} <= stops | made | planted | named, confirmed
