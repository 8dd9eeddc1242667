"""`[tool.devlint.api]`: what a user says of libraries that devlint does not know."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHECKOUT, environment

from devlint import check_source
from devlint.config import ConfigError

FILE = """import torch
import ourlib


def main(device):
    model = ourlib.make_model().to(device)
    grid = ourlib.make_grid(4)
    return model(grid)
"""
TABLES = """[tool.devlint.api.call]
"ourlib.make_model" = { returns = "module" }
"ourlib.make_grid" = { returns = "tensor", place = "host" }
"""


def devlint(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "devlint", *arguments]
    return subprocess.run(run, cwd=cwd, env=environment(), capture_output=True, text=True)


def test_facts_of_a_user_make_a_finding(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FILE)
    (tmp_path / "pyproject.toml").write_text("[tool.devlint]\n")
    assert devlint("check", "train.py", cwd=tmp_path).returncode == 0
    (tmp_path / "pyproject.toml").write_text(TABLES)
    result = devlint("check", "--output-format", "json", "train.py", cwd=tmp_path)
    assert [(one["code"], one["location"]["row"]) for one in json.loads(result.stdout)] == [("DEV103", 8)]


def test_facts_of_a_user_in_the_api() -> None:
    api = {
        "call": {"ourlib.make_model": {"returns": "module"}, "ourlib.make_grid": {"returns": "tensor", "place": "host"}}
    }
    assert [finding.code for finding in check_source(FILE, api=api)] == ["DEV103"]
    assert check_source(FILE) == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            '[tool.devlint.api.call]\n"a.f" = { returns = "tensr" }',
            "unknown returns of a.f: 'tensr', did you mean 'tensor'?",
        ),
        ('[tool.devlint.api.call]\n"a.f" = { place = "hst" }', "unknown place of a.f: 'hst', did you mean 'host'?"),
        ('[tool.devlint.api.class]\n"a.F" = { knd = "module" }', "unknown key of a.F: 'knd', did you mean 'kind'?"),
        ('[tool.devlint.api.calls]\n"a.f" = { returns = "tensor" }', "unknown table: 'calls', did you mean 'call'?"),
        ('[tool.devlint.api.call]\n"a.f" = "tensor"', "the row of a.f must be a table"),
        ('[tool.devlint]\napi = "a.f"', '"api" in [tool.devlint] must be a table, not a string'),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, table: str, words: str) -> None:
    (tmp_path / "train.py").write_text(FILE)
    (tmp_path / "pyproject.toml").write_text(table + "\n")
    result = devlint("check", "train.py", cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr and "pyproject.toml" in result.stderr
    assert result.stdout == ""


def test_a_wrong_row_in_the_api_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"unknown kind of a\.F"):
        check_source(FILE, api={"class": {"a.F": {"kind": "modul"}}})


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "[tool.devlint.api" in block]
    (tmp_path / "pyproject.toml").write_text(example)
    lines = [
        "import torch",
        "import ourlib",
        "def main(graph: ourlib.Graph, device):",
        "    graph.to(device)",
        "    net = ourlib.Backbone()",
        "    net.to(device)",
        "    net(ourlib.load_grid())",
        "    return graph",
    ]
    (tmp_path / "train.py").write_text("\n".join(lines) + "\n")
    result = devlint("check", "--output-format", "json", "train.py", cwd=tmp_path)
    found = [(one["code"], one["location"]["row"]) for one in json.loads(result.stdout)]
    assert found == [("DEV101", 4), ("DEV103", 7)]
