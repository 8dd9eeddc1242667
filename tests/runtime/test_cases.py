"""The public cases on the simulated machine: a fault shows, its fix makes it go, what is clean runs."""

from __future__ import annotations

import csv
import difflib
from pathlib import Path
from typing import Any

import pytest
from runtime.case_drivers import BUGS, DRIVERS, NOT_RUN
from runtime.case_libraries import libraries

from devlint.runtime import simulate

CASES = Path(__file__).parents[3] / "shared" / "cases"

if not CASES.is_dir():
    pytest.skip("the public cases (../shared/cases) are not here", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")


def table() -> list[dict[str, str]]:
    with (CASES / "cases.tsv").open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


ROWS = table()
FOUND = [row for row in ROWS if row["verdict"] == "bug"]
CLEAN = [row for row in ROWS if row["verdict"] == "clean"]
REST = [row for row in ROWS if row["verdict"] not in ("bug", "clean", "either")]


def key(row: dict[str, str]) -> tuple[str, str]:
    return row["file"][:3], row["line"]


def label(row: dict[str, str]) -> str:
    return f"{row['file'].removesuffix('.py')}:{row['line']}"


def fixed(text: str, row: dict[str, str]) -> str:
    """The program with the row's fix, which takes the place of the line that it resembles most of those named."""
    fix = row["fix"].partition(" || ")[0]
    lines = text.split("\n")
    at = max(
        (int(number) - 1 for number in row["line"].split(",")),
        key=lambda number: difflib.SequenceMatcher(None, lines[number], fix).ratio(),
    )
    lines[at] = fix
    return "\n".join(lines)


def drive(row: dict[str, str], text: str, folder: Path) -> Any:
    path = CASES / row["file"]
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    with simulate(devices=2), libraries():
        exec(compile(text, str(path), "exec"), names)
        return DRIVERS[row["file"][:3]](names, folder)


def others_fixed(row: dict[str, str]) -> str:
    """The program with this row's fault alone: the other rows of its file are fixed."""
    text = (CASES / row["file"]).read_text()
    for other in ROWS:
        if other["file"] == row["file"] and other is not row and other["fix"] != "-":
            text = fixed(text, other)
    return text


@pytest.mark.parametrize("row", FOUND, ids=[label(row) for row in FOUND])
def test_fault_shows(row: dict[str, str], tmp_path: Path) -> None:
    if key(row) in NOT_RUN:
        pytest.skip(NOT_RUN[key(row)])
    symptom = BUGS[key(row)]
    text = others_fixed(row)
    if callable(symptom):
        assert symptom(drive(row, text, tmp_path))
        return
    with pytest.raises(Exception) as caught:
        drive(row, text, tmp_path)
    assert symptom in str(caught.value)


WITH_FIX = [row for row in FOUND if row["fix"] != "-" and key(row) in BUGS]


@pytest.mark.parametrize("row", WITH_FIX, ids=[label(row) for row in WITH_FIX])
def test_fix_makes_the_fault_go(row: dict[str, str], tmp_path: Path) -> None:
    result = drive(row, fixed(others_fixed(row), row), tmp_path)
    symptom = BUGS[key(row)]
    if callable(symptom):
        assert not symptom(result)


@pytest.mark.parametrize("row", CLEAN, ids=[label(row) for row in CLEAN])
def test_clean_program_runs(row: dict[str, str], tmp_path: Path) -> None:
    drive(row, (CASES / row["file"]).read_text(), tmp_path)


@pytest.mark.parametrize("row", REST, ids=[label(row) for row in REST])
def test_program_with_another_verdict_runs(row: dict[str, str], tmp_path: Path) -> None:
    """Portability, deprecated, style: nothing is wrong with them on a machine that has the devices."""
    drive(row, (CASES / row["file"]).read_text(), tmp_path)


def test_enough_is_shown() -> None:
    assert len(FOUND) == 61
    assert {key(row) for row in FOUND} == set(BUGS) | set(NOT_RUN)
    assert not set(BUGS) & set(NOT_RUN)
    assert len(BUGS) >= 45
