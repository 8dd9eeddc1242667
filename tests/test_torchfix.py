"""devlint beside TorchFix in one environment, which brings the oldest LibCST that devlint works with.

TorchFix pins libcst<1.6. The environment is made here, which needs the package index that pip uses.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import copy_shipped

PROGRAM = """\
import torch

device = torch.device("cuda:0,1")
state = torch.load("model.pt")
q, r = torch.qr(torch.ones(3, 3))
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="libcst<1.6, which TorchFix pins, has no wheels for 3.14")
def test_both_report_in_one_run_of_flake8(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    copy_shipped(source)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [str(part) for part in command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "torchfix", source)
    version = run(python, "-c", "import importlib.metadata as m; print(m.version('libcst'))")
    assert version.startswith("1.5.")

    (tmp_path / "program.py").write_text(PROGRAM)
    lines = run(python, "-m", "flake8", "--isolated", "program.py").splitlines()
    assert any(line.startswith("program.py:3:23: DEV401 ") for line in lines)
    assert any(line.startswith("program.py:5:") and " TOR" in line for line in lines)
    checked = run(python, "-m", "devlint", "check", "--isolated", "--output-format", "concise", "-q", "program.py")
    assert [line.replace("[*] ", "") for line in checked.splitlines()] == [line for line in lines if " DEV" in line]
    run(python, "-m", "devlint", "fix", "--isolated", "program.py")
    assert (tmp_path / "program.py").read_text() == PROGRAM.replace("0,1", "0")
