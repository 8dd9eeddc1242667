"""Whole programs on the simulated machine: they learn, give the CPU's numbers, and stop where a fault is planted."""

from __future__ import annotations

import traceback
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime.faults import FAULTS, Fault

from devlint.runtime import simulate

PROGRAMS = Path(__file__).with_name("programs")
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
DRAWS = {"gan"}  # random numbers are drawn on the device: other numbers than the CPU's, the same under one seed
TWO = {"split_model"}  # main takes two devices
KINDS = {
    "input",
    "target",
    "hidden state",
    "mask",
    "positional table",
    "loss weights",
    "second network",
    "plain tensor attribute",
    "list of modules",
    "discarded .to",
}

IDS = [f"{fault.program}: {fault.kind} {fault.old.strip()[:20]}" for fault in FAULTS]


def load(name: str, text: str | None = None) -> dict[str, Any]:
    """The program's names; `text` in place of what its file holds."""
    path = PROGRAMS / f"{name}.py"
    space: dict[str, Any] = {"__name__": name, "__file__": str(path)}
    exec(compile(text or path.read_text(), str(path), "exec"), space)
    return space


def run(name: str, space: dict[str, Any], *devices: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Run the program on these devices."""
    result: tuple[list[float], dict[str, torch.Tensor]] = space["main"](*(devices if name in TWO else devices[:1]))
    return result


@pytest.mark.parametrize("name", NAMES)
def test_program_learns_and_gives_the_numbers_of_the_cpu(name: str) -> None:
    _, plain = run(name, load(name), "cpu", "cpu")
    with simulate(devices=2):
        losses, state = run(name, load(name), "cuda:0", "cuda:1")
        places = {str(value.device) for value in state.values()}
    assert sum(losses[-3:]) < sum(losses[:3])
    assert places == ({"cuda:0", "cuda:1"} if name in TWO else {"cuda:0"})
    if name not in DRAWS:
        for key, value in plain.items():
            torch.testing.assert_close(state[key], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_draws_on_the_device_repeat_under_one_seed(name: str) -> None:
    states = []
    for _ in range(2):
        with simulate(devices=2):
            torch.rand(3)  # the CPU's generator is another one
            states.append(run(name, load(name), "cuda:0", "cuda:1")[1])
    for key, value in states[0].items():
        assert torch.equal(states[1][key], value)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_planted_fault_stops_at_its_line_with_torchs_words(fault: Fault) -> None:
    text = load_text(fault)
    space = load(fault.program, text)
    with simulate(devices=2), pytest.raises(Exception) as caught:
        run(fault.program, space, "cuda:0", "cuda:1")
    kind, words = fault.error
    assert type(caught.value).__name__ == kind
    assert words in str(caught.value)
    frames = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename == space["__file__"]]
    line = text.splitlines()[(frames[-1].lineno or 0) - 1]
    assert fault.at in line


def load_text(fault: Fault) -> str:
    """The program with the fault in it."""
    text = (PROGRAMS / f"{fault.program}.py").read_text()
    assert text.count(fault.old) == 1, f"{fault.old!r} must stand once in {fault.program}"
    return text.replace(fault.old, fault.new)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_planted_fault_does_not_show_on_the_cpu(fault: Fault) -> None:
    """What is planted is a fault of placement and nothing else."""
    run(fault.program, load(fault.program, load_text(fault)), "cpu", "cpu")


def test_every_kind_is_planted_in_two_programs() -> None:
    programs: dict[str, set[str]] = defaultdict(set)
    for fault in FAULTS:
        programs[fault.kind].add(fault.program)
    assert set(programs) == KINDS
    assert min(len(where) for where in programs.values()) >= 2
    assert {fault.program for fault in FAULTS} == set(NAMES)
