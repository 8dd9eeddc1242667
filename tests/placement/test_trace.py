"""`devlint trace`: what is believed of each assignment, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from placement.believing import infer

from devlint.cli import cli
from devlint.placement.trace import beliefs

PROGRAM = """\
import torch
from torch import nn


def step(model, x: torch.Tensor, device):
    model.to(device)
    model.train()
    zeros = torch.zeros(3)
    scale = torch.tensor(0.5)
    there = x.to(device)
    gpu = zeros.to("cuda:1")
    return model(there) * scale, gpu
"""


def believed(text: str) -> dict[str, tuple[str, str, str]]:
    found = beliefs(infer(text))
    return {belief.name: (belief.kind, belief.place, belief.why) for belief in found}


def test_each_value_has_a_kind_a_place_and_a_reason() -> None:
    found = believed(PROGRAM)
    assert found["zeros"] == ("tensor", "cpu", "made by torch.zeros at line 8")
    assert found["scale"] == ("tensor without dimensions", "cpu", "made by torch.tensor at line 9")
    assert found["there"] == ("tensor (torch.Tensor)", "the device device", "moved by .to() at line 10")
    assert found["gpu"] == ("tensor", "cuda:1", "moved by .to() at line 11")
    assert found["x"] == ("tensor (torch.Tensor)", "where x is", "the argument x")
    assert found["model"][0] == "module"


def test_the_command_prints_one_line_and_counts(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(PROGRAM)
    result = CliRunner().invoke(cli, ["trace", f"{file}:8"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{file}:8:5: zeros: tensor, on cpu, made by torch.zeros at line 8",
        f"{file}:8:13: torch.zeros(3): tensor, on cpu, made by torch.zeros at line 8",
        "",
        "2 values, 2 of them tensors, 2 of these with a known place",
    ]


def test_an_argument_is_where_the_caller_has_it(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text("import torch\n\n\ndef step(x: torch.Tensor):\n    y = x + 1\n    print(y)\n")
    lines = CliRunner().invoke(cli, ["trace", str(file)]).output.splitlines()
    assert lines[0] == f"{file}:4:10: x: tensor (torch.Tensor), place given by the caller, the argument x"
    assert lines[1].startswith(f"{file}:5:5: y: tensor, where x is, ")
    assert lines[-1] == "2 values, 2 of them tensors, 1 of these with a known place"


def test_a_line_that_sets_nothing_shows_what_it_reads(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(PROGRAM)
    lines = CliRunner().invoke(cli, ["trace", f"{file}:12"]).output.splitlines()
    assert lines[:-2] == [
        f"{file}:12:12: model: module, on device, the argument model",
        f"{file}:12:12: model(there) * scale: tensor, place not known",
        f"{file}:12:18: there: tensor (torch.Tensor), on device, moved by .to() at line 10",
        f"{file}:12:27: scale: tensor without dimensions, on cpu, made by torch.tensor at line 9",
        f"{file}:12:34: gpu: tensor, on cuda:1, moved by .to() at line 11",
    ]
    nothing = CliRunner().invoke(cli, ["trace", f"{file}:2"])
    assert (nothing.exit_code, f"`devlint trace {file}`" in nothing.output) == (0, True)


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), ("def f(:\n", "not valid Python"), ("x = 1\n" + "a" + "." * 0 + ".b" * 600, "nested")],
)
def test_what_cannot_be_traced_is_said(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "bad.py"
    if content is not None:
        file.write_text(content)
    result = CliRunner().invoke(cli, ["trace", str(file)])
    assert result.exit_code == 2
    assert words in result.output
