"""The pytest plugin: marked tests run on each device and on simulated ones, others as ever."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import environment

pytest.importorskip("torch", reason="devices are torch's")

TESTS = """\
import pytest
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = torch.arange(4.0)

    def forward(self, x):
        return x + self.steps


class Right(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.arange(4.0))

    def forward(self, x):
        return x + self.steps


@pytest.mark.devices
@pytest.mark.parametrize("kind", [Positions, Right])
def test_forward(device, kind):
    x = torch.zeros(2, 4, device=device)
    assert kind().to(device)(x).device == x.device


@pytest.mark.devices
def test_without_the_argument():
    assert torch.cuda.is_available() in (True, False)


@pytest.mark.devices
def test_there_are_two(device):
    if device.type == "cuda":
        assert torch.cuda.device_count() >= 1
        torch.ones(1, device="cuda:1")


def test_unmarked():
    assert not hasattr(torch.zeros(1), "place")
"""


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "devlint.pytest_plugin", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", CUDA_VISIBLE_DEVICES=""),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def test_marked_tests_run_on_each_device(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    out = run(tmp_path, "-rA", "--strict-markers", "-q")
    outcomes = dict(reversed(match) for match in re.findall(r"^(PASSED|FAILED) test_it\.py::(\S+)", out, re.MULTILINE))
    assert outcomes == {
        "test_forward[cpu-Positions]": "PASSED",
        "test_forward[cpu-Right]": "PASSED",
        "test_forward[simulated-Positions]": "FAILED",
        "test_forward[simulated-Right]": "PASSED",
        "test_without_the_argument[cpu]": "PASSED",
        "test_without_the_argument[simulated]": "PASSED",
        "test_there_are_two[cpu]": "PASSED",
        "test_there_are_two[simulated]": "PASSED",
        "test_unmarked": "PASSED",
    }, out
    assert "found at least two devices, cuda:0 and cpu!" in out
    assert re.search(r"^test_it\.py:12: RuntimeError$", out, re.MULTILINE), "the line of the model, not one of devlint"


def test_a_projects_own_fixture_of_the_name_stays_its_own(tmp_path):
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef device():\n    return 'mine'\n")
    (tmp_path / "test_own.py").write_text("def test_own(device):\n    assert device == 'mine'\n")
    assert "1 passed" in run(tmp_path, "-q")


def test_without_marked_tests_torch_is_not_imported(tmp_path):
    (tmp_path / "test_plain.py").write_text("import sys\n\ndef test_plain():\n    assert 'torch' not in sys.modules\n")
    assert "1 passed" in run(tmp_path, "-q")
