"""The rule that CONTRIBUTING.md shows works as it is written there."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from support import CHECKOUT, copy_shipped, environment

TEXT = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The one fenced block of this language."""
    (found,) = re.findall(rf"^(`{{3,}}){language}\n(.*?)^\1$", TEXT, re.MULTILINE | re.DOTALL)
    return found[1]


def test_the_shown_page_says_what_every_page_says():
    assert re.search(r"^Group: performance$", block("markdown"), re.MULTILINE)
    assert "(Group.PERFORMANCE,)" in block("python")
    (safety,) = re.findall(r"^## Fix safety\n\n(.*)", block("markdown"), re.MULTILINE)
    assert safety.startswith("Safe: ") and "rewrite.safe(" in block("python")


def test_the_shown_rule(tmp_path):
    copy_shipped(tmp_path / "copy")
    (tmp_path / "copy/devlint/checks/repeated_transfer.py").write_text(block("python"))
    (tmp_path / "copy/rules/DEV199-repeated-transfer.md").write_text(block("markdown"))
    (tmp_path / "a.py").write_text("import torch\n\nx = torch.zeros(3)\nprint(x.cpu().cpu())\n")

    def devlint(*arguments: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-m", "devlint", *arguments],
            cwd=tmp_path,
            env=environment() | {"PYTHONPATH": str(tmp_path / "copy")},
            capture_output=True,
        )
        assert done.stderr == b"" or arguments[0] == "check", done.stderr
        return done.stdout

    found = json.loads(devlint("check", "--isolated", "--select", "DEV199", "--output-format", "json", "a.py"))
    assert [(f["code"], f["location"]) for f in found] == [("DEV199", {"row": 4, "column": 15})]
    assert devlint("check", "--isolated", "a.py") == b""
    assert devlint("explain", "repeated-transfer").decode() == block("markdown")
    devlint("fix", "--isolated", "--select", "DEV199", "a.py")
    assert (tmp_path / "a.py").read_text() == "import torch\n\nx = torch.zeros(3)\nprint(x.cpu())\n"
