"""`devlint verify --fixes`: what is said of old and new code, from what they printed and how they ended."""

from __future__ import annotations

import pytest

from devlint.runtime.verify.evidence import End, Evidence, Failure
from devlint.runtime.verify.launch import Order, Ran
from devlint.verifying.fixes import CPU, FixedFile, Proof, prove

pytest.importorskip("torch", reason="verify runs programs with torch")

FINE = End("finished")
STOPPED = End("raised", 1, "RuntimeError", "on the same device")
CLASH = Failure("RuntimeError", "on the same device", "add", (("/a.py", 3),), fatal=True)
FILE = FixedFile("/a.py", "new text", [])

Story = dict[tuple[str, str], "Ran | list[Ran]"]
"""What the old and the new code do on the device and on the CPU; a list is one run after the other."""


def ran(output: str, end: End = FINE, *failures: Failure) -> Ran:
    return Ran(Evidence("the device", {"/a.py": [1]}, [], list(failures), end), output.encode())


def proof(story: Story) -> Proof:
    def run(order: Order) -> Ran:
        assert order.seed is not None
        assert order.texts in ({}, {"/a.py": "new text"})
        told = story["new" if order.texts else "old", "cpu" if order.device == CPU else "device"]
        return told.pop(0) if isinstance(told, list) else told

    return prove(Order("script", "/a.py", "/", device="simulated"), [FILE], [FILE], run)


STORY: Story = {
    ("old", "device"): ran("", STOPPED, CLASH),
    ("new", "device"): ran("5"),
    ("old", "cpu"): ran("5"),
    ("new", "cpu"): ran("5"),
}


def test_a_fix_that_holds():
    told = proof(STORY)
    assert told.faults == []
    assert told.notes == [
        "the old code fails on the device",
        "the new code runs on the device",
        "the same output on the CPU alone",
    ]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({("new", "device"): ran("", STOPPED, CLASH)}, "still there: RuntimeError: on the same device"),
        ({("new", "cpu"): ran("6")}, "another output on the CPU alone, where the old code worked"),
        (
            {("new", "cpu"): ran("", End("raised", 1, "NameError", "d"))},
            "the new code fails on the CPU alone, where the old one worked: raised NameError: d",
        ),
        (
            {("old", "device"): ran("5"), ("new", "device"): ran("", STOPPED, CLASH)},
            "the new code fails on the device, where the old one worked: RuntimeError: on the same device",
        ),
        ({("old", "device"): ran("7")}, "another output on the device, where the old code worked"),
    ],
)
def test_fixes_that_do_not_hold(change, fault):
    assert proof(STORY | change).faults == [fault]


def test_output_that_is_never_the_same_is_not_compared():
    told = proof(STORY | {("old", "cpu"): [ran("at 12:01"), ran("at 12:02")], ("new", "cpu"): ran("at 12:03")})
    assert told.faults == []
    assert told.notes[-1] == "output on the CPU alone changes from run to run and was not compared"


PROGRAM = """\
import torch
from layers import shift

device = "cuda" if torch.cuda.is_available() else "cpu"
print(shift(torch.rand(3, device=device)).sum().item())
"""
LAYERS = """\
import torch


def shift(x):
    x = x.view(-1, 3)
    steps = torch.linspace(0, 1, 3)
    return torch.cat([x, steps[None]])
"""


def test_the_command_runs_old_and_new_code(process, tmp_path):
    """The fixed file is imported by the program; nothing is written."""
    (tmp_path / "main.py").write_text(PROGRAM)
    (tmp_path / "layers.py").write_text(LAYERS)
    done = process("verify", "--device", "simulated:1", "--fixes", "layers.py", "main.py")
    out = done.stdout.decode()
    assert "main.py, on 1 simulated cuda device:" in out
    assert "layers.py:6: DEV201 Make it on `x.device`; before it confirmed: RuntimeError at layers.py:7" in out
    assert "the old code fails on 1 simulated cuda device\n  the new code runs on 1 simulated cuda device\n" in out
    assert "the same output on the CPU alone" in out
    assert "wrong" not in out
    assert (done.returncode, (tmp_path / "layers.py").read_text()) == (0, LAYERS)


def test_without_fixes_nothing_is_run(devlint, tmp_path):
    (tmp_path / "right.py").write_text("import torch\nraise SystemExit(3)\n")
    done = devlint("verify", "--fixes", "right.py")
    assert (done.returncode, done.stdout) == (0, b"nothing to fix\n")
    assert devlint("verify", "--fixes", "absent.py").returncode == 2
