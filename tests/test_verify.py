"""`devlint verify` as a command: what it prints, its exit codes, and that only it runs what it reads."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from devlint.rulebook import find_page, pages
from devlint.verifying.pages import NOT_RUN, SHOWN, SILENT, WRONG, verify_pages

torch = pytest.importorskip("torch", reason="verify runs programs with torch")

LOST = """\
import sys
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(3, 2)
model.to(device)
batch = torch.rand(8, 3)
batch.to(device)
print("arguments", sys.argv[1:])
print(model(batch).shape)
"""


def test_a_lost_move_is_confirmed(process, tmp_path):
    (tmp_path / "lost.py").write_text(LOST)
    done = process("verify", "--device", "simulated", "lost.py", "--epochs", "3")
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "arguments ['--epochs', '3']" in out
    assert re.search(r"^lost.py:9:\d+: DEV101 discarded-transfer confirmed: .*once, cpu to cuda:0", out, re.MULTILINE)
    assert out.endswith("1 confirmed in 1 file that ran on 2 simulated cuda devices\n")
    assert "seen only by running" not in out
    assert done.returncode == 1
    assert 'File "lost.py", line 11, in <module>' in err
    assert "on the same device" in err.splitlines()[-1]
    assert str(Path("devlint", "runtime")) not in err


def test_a_fixed_program_has_nothing_to_report(process, tmp_path):
    (tmp_path / "right.py").write_text(LOST.replace("\nbatch.to(", "\nbatch = batch.to("))
    done = process("verify", "--device", "simulated:1", "right.py")
    assert done.stdout.decode().endswith("nothing found in 1 file that ran on 1 simulated cuda device\n")
    assert (done.returncode, done.stderr) == (0, b"")


def test_another_error_is_shown_as_the_program_alone_would_show_it(process, tmp_path):
    (tmp_path / "fails.py").write_text("import torch\nx = torch.zeros(3)\nprint(x.shape)\nx.view(2)\n")
    done = process("verify", "--device", "simulated", "--output-format", "json", "fails.py")
    report = json.loads(done.stdout)
    assert (report["end"]["kind"], report["end"]["error"], report["findings"]) == ("raised", "RuntimeError", [])
    assert b"torch.Size([3])" in done.stderr
    assert b'File "fails.py", line 4, in <module>' in done.stderr
    assert done.returncode == 2


def test_a_module_is_run_and_stopped_in_time(process, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "endless.py").write_text(LOST.replace("print(model(batch).shape)", "while True:\n    pass"))
    done = process("verify", "--device", "simulated", "--max-seconds", "3", "-m", "package.endless", "--x")
    out = done.stdout.decode()
    assert "arguments ['--x']" in out
    assert "package/endless.py:9:" in out and "DEV101 discarded-transfer confirmed" in out
    assert "stopped when its time was up" in out
    assert done.returncode == 1


def test_what_was_seen_before_a_crash_is_reported(process, tmp_path):
    end = "import os, time\ntime.sleep(2)\nos.abort()\n"
    (tmp_path / "crash.py").write_text(LOST.replace("print(model(batch).shape)\n", end))
    done = process("verify", "--device", "simulated", "crash.py")
    out = done.stdout.decode()
    assert "crash.py:9:7: DEV101 discarded-transfer confirmed" in out
    assert "the program's process died (signal 6)" in out
    assert done.returncode == 2


def test_the_rule_book_shows_what_it_says():
    """On simulated devices: no `bad` block that runs hides its fault, no `fixed` or `good` one shows any."""
    results, where = verify_pages(pages(), "simulated")
    assert where == "2 simulated cuda devices"
    assert [result for result in results if result.outcome == WRONG] == []
    numbers = Counter((result.block.kind, result.outcome) for result in results)
    assert numbers["bad", SHOWN] >= 25
    assert numbers["fixed", SILENT] == sum(result.block.kind == "fixed" for result in results) >= 30
    assert numbers["good", SILENT] >= 30


def test_a_page_that_says_something_wrong_is_found_out():
    """The same blocks under the other names: a bad one that runs without a fault, a fixed one that shows it."""
    page = find_page("DEV101")
    other = {"bad": "fixed", "fixed": "bad"}
    swapped = tuple(replace(block, kind=other.get(block.kind, block.kind)) for block in page.blocks)
    results, _ = verify_pages([replace(page, blocks=swapped)], "simulated:1")
    assert {result.block.kind: result.outcome for result in results} == {"fixed": WRONG, "bad": NOT_RUN, "good": SILENT}


def test_one_page_is_verified_by_its_code(devlint):
    done = devlint("verify", "--device", "simulated", "--rules", "DEV602")
    assert b"DEV602 bad (row 22) shows its fault" in done.stdout
    assert done.stdout.endswith(b"on 2 simulated cuda devices\n")
    assert done.returncode == 0
    assert b"did you mean" in devlint("verify", "--rules", "DEV60x").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), b"name a script to run"),
        (("missing.py",), b"no such script: missing.py"),
        (("--device", "tpu", "x.py"), b"not 'tpu'"),
        (("--output-format", "xml", "x.py"), b"none of text, json"),
        (("--output-format", "json", "--rules"), b"for the run of a program"),
        (("--write-noqa", "--fixes", "x.py"), b"for the run of a program"),
        (("--device", "cuda", "lost.py"), b"torch finds no cuda device here; --device simulated"),
    ],
)
def test_wrong_use(devlint, tmp_path, arguments, words):
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a cuda device")
    (tmp_path / "lost.py").write_text(LOST)
    done = devlint("verify", *arguments)
    assert words in done.stderr
    assert done.returncode == 2


def test_a_wrong_setting_is_said_before_the_run(process, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.devlint]\nselct = []\n")
    (tmp_path / "lost.py").write_text(LOST)
    done = process("verify", "--device", "simulated", "lost.py")
    assert b'unknown key "selct"' in done.stderr
    assert (done.returncode, done.stdout) == (2, b"")


def test_without_torch_the_message_says_what_to_install(devlint, tmp_path, monkeypatch):
    (tmp_path / "lost.py").write_text(LOST)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = devlint("verify", "lost.py")
    assert b"pip install 'devlint[runtime]'" in done.stderr
    assert done.returncode == 2


def test_refuted_findings_can_be_silenced(devlint, tmp_path):
    """The receiver is annotated as a tensor and is a module: what is read says one thing, what runs another."""
    text = "import torch\n\n\ndef place(thing: torch.Tensor, device):\n    thing.to(device)\n    return thing\n\n\n"
    text += 'print(next(place(torch.nn.Linear(2, 2), "cpu").parameters()).device)\n'
    (tmp_path / "refuted.py").write_text(text)
    done = devlint("verify", "--device", "simulated", "--write-noqa", "refuted.py")
    assert b"DEV101 discarded-transfer refuted: the receiver is a Module (Linear)" in done.stdout
    assert done.returncode == 0
    reason = "the receiver is a Module (Linear), which is moved in place"
    assert (tmp_path / "refuted.py").read_text() == text.replace(
        "thing.to(device)", f"thing.to(device)  # noqa: DEV101  {reason}"
    )
    assert devlint("check", "refuted.py").returncode == 0


@pytest.mark.parametrize("command", ["check", "fix", "flake8"])
def test_nothing_that_is_read_is_executed(process, tmp_path, command):
    """A file, a package and a configuration file whose import would leave a mark."""
    mark = tmp_path / "mark"
    leave = f"import torch\nopen({str(mark)!r}, 'w').close()\nx = torch.zeros(1)\nx.to('cuda')\nprint(x)\n"
    for name in ("module", "conftest", "setup", "sitecustomize_not"):
        (tmp_path / f"{name}.py").write_text(leave)
    (tmp_path / "package").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "package" / f"{name}.py").write_text(f"from module import x\n{leave}")
    if command == "flake8":
        import subprocess

        done = subprocess.run([sys.executable, "-m", "flake8", "."], cwd=tmp_path, capture_output=True, check=False)
    else:
        done = process(command, ".")
    assert b"DEV101" in done.stdout or command == "fix"
    assert not mark.exists()
    assert {path.name for path in tmp_path.rglob("*.pyc")} == set()
