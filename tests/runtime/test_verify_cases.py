"""The public cases under `devlint verify`: what is reported of them and can be run is confirmed; clean ones stay so."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime.case_drivers import DRIVERS, NOT_RUN
from runtime.case_libraries import libraries
from runtime.test_cases import CASES, CLEAN, FOUND, key, label, others_fixed

from devlint.config import Config
from devlint.runtime import simulate
from devlint.runtime.verify.child import Watching
from devlint.runtime.verify.evidence import End, Evidence
from devlint.runtime.verify.judge import CONFIRMED, Claim, Verdict, extras, judge
from devlint.runtime.verify.launch import Order
from devlint.verifying.claims import check_data

pytestmark = pytest.mark.filterwarnings("ignore")


def drive(row: dict[str, str], text: str, folder: Path) -> Evidence:
    """What is seen of a case when its driver runs it."""
    path = str((CASES / row["file"]).resolve())
    names = {"__name__": Path(path).stem, "__file__": path}
    with simulate(devices=2), libraries():
        run = Watching(Order("script", path, str(Path(path).parent), out=str(folder / "seen.json")), "here")
        end = End("finished")
        with run:
            try:
                exec(compile(text, path, "exec"), names)
                DRIVERS[row["file"][:3]](names, folder)
            except Exception as error:
                end = run.ended_by(error)
    return run.evidence(end)


def said(row: dict[str, str], text: str, folder: Path) -> tuple[list[tuple[Claim, Verdict]], Evidence]:
    evidence = drive(row, text, folder)
    claims = [one.claim for one in check_data(text.encode(), str((CASES / row["file"]).resolve()), Config())]
    return list(zip(claims, judge(claims, evidence), strict=True)), evidence


def test_reported_bugs_are_confirmed(tmp_path: Path) -> None:
    """Of the reported bugs that can be run, 95 of 100; the rows that cannot are in NOT_RUN, with the reason."""
    reported, missing = 0, []
    for row in FOUND:
        if key(row) in NOT_RUN:
            continue
        verdicts, _ = said(row, others_fixed(row), tmp_path)
        lines = [int(line) for line in row["line"].split(",")]
        of_row = [verdict for claim, verdict in verdicts if any(claim.row <= line <= claim.last for line in lines)]
        reported += bool(of_row)
        if of_row and not any(verdict.outcome == CONFIRMED for verdict in of_row):
            missing.append((label(row), of_row))
    assert reported >= 35
    assert len(missing) <= 0.05 * reported, missing


@pytest.mark.parametrize("row", CLEAN, ids=[label(row) for row in CLEAN])
def test_a_clean_program_stays_clean(row: dict[str, str], tmp_path: Path) -> None:
    text = (CASES / row["file"]).read_text()
    verdicts, evidence = said(row, text, tmp_path)
    assert [pair for pair in verdicts if pair[1].outcome == CONFIRMED] == []
    assert extras([claim for claim, _ in verdicts], [verdict for _, verdict in verdicts], evidence) == []
