"""The fix of DEV501 on whole scripts: what they compute, print and save, before and after, on real processes."""

from __future__ import annotations

import pytest
from migration import compare
from migration.conftest import GPUS, Runs
from migration.launch import Outcome
from migration.scripts import SCRIPTS, Script

EXACT = 1e-7
CLOSE = 1e-5
each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
each_machine = pytest.mark.parametrize("gpus", GPUS, ids=lambda gpus: f"{gpus} GPUs")
each_way = pytest.mark.parametrize("way", ["torchrun", "plain"])


def files(script: Script, run: Outcome, gpus: int) -> compare.Files:
    """What was saved; without `module.` where only the migrated script wraps its model."""
    return run.files if script.wrapped or gpus else compare.without_prefix(run.files)


@each_way
@each_machine
@each_script
def test_the_same_is_computed_printed_and_saved(script: Script, gpus: int, way: str, runs: Runs) -> None:
    before, after = runs.pair(script, way, gpus)
    assert (before.error, after.error) == ("", "")
    wanted, found = files(script, before, gpus), files(script, after, gpus)
    assert wanted
    assert compare.files(wanted, found) == []
    exact = way == "plain" and not gpus
    assert compare.values(wanted, found, EXACT if exact else CLOSE) == []
    assert compare.lines(before, after) == []
    assert compare.batches(before, after, script.samples) == []


@each_way
@each_machine
@each_script
def test_each_sample_is_seen_once_and_one_process_saves(script: Script, gpus: int, way: str, runs: Runs) -> None:
    _, after = runs.pair(script, way, gpus)
    assert {len(run) for run in after.runs} == {2 if way == "torchrun" else 1}
    assert compare.samples(after, script.samples, script.shuffled) == []
    assert compare.writers(after) == []
