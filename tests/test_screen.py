"""The screen: what no file may do to a run, and that no finding is lost by it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

import hostile
import pytest
from programs import programs
from support import CHECKOUT, environment

from devlint import engine, screen
from devlint.checks import rules
from devlint.checks.base import Rule
from devlint.config import Config
from devlint.finding import Finding
from devlint.source import Source

# --- hostile files ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], float]]:
    """What was found in each hostile file, in a thread of 256 KiB, and how many CPU seconds it took.

    They are checked once, by the first of the test processes that comes here.
    """
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp().parent if parallel else tmp_path_factory.getbasetemp()
    output = folder / "hostile.json"
    try:
        (folder / "hostile.lock").mkdir()
    except FileExistsError:
        while not output.exists():
            time.sleep(0.2)
    else:
        program = [sys.executable, hostile.__file__, str(CHECKOUT)]
        done = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=900, check=False)
        unfinished = folder / "hostile.part"
        unfinished.write_text(json.dumps([done.returncode, done.stdout.splitlines(), done.stderr[-2000:]]))
        unfinished.rename(output)
    code, lines, errors = json.loads(output.read_text())
    runs = {name: (codes, seconds) for name, codes, seconds in map(json.loads, lines)}
    assert code == 0, f"died after {list(runs)[-1:]}: {errors}"
    return runs


REFUSED_WIDE = {"and", "or", "and or", "comparisons", "joined f-strings", "f-string"}
"""Over the limit of operands; all other long files are checked."""
PARSED_SINCE_312 = {"f-strings"}
"""Quotes cannot be used again within an f-string before Python 3.12."""


@pytest.mark.parametrize("name", hostile.DEEP)
def test_nested_ten_thousand_times(hostile_runs, name):
    codes, seconds = hostile_runs[f"10,000 {name}"]
    assert codes == ["DEV902"]
    assert seconds < 20


@pytest.mark.parametrize("name", hostile.DEEP)
def test_just_within_the_limits_all_is_checked(hostile_runs, name):
    new = name in PARSED_SINCE_312 and sys.version_info < (3, 12)
    assert hostile_runs[f"deepest {name}"][0] == (["DEV900"] if new else hostile.FIRED)


@pytest.mark.parametrize("name", hostile.DEEP)
def test_just_over_the_limits_nothing_is(hostile_runs, name):
    new = name in PARSED_SINCE_312 and sys.version_info < (3, 12)
    assert hostile_runs[f"deeper {name}"][0] == (["DEV900"] if new else ["DEV902"])


@pytest.mark.parametrize("name", hostile.WIDE)
def test_long_and_flat(hostile_runs, name):
    assert hostile_runs[f"wide {name}"][0] == (["DEV902"] if name in REFUSED_WIDE else hostile.FIRED)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("wide and (30,000)", "DEV902"),
        ("wide joined strings (30,000)", "DEV902"),
        ("1,600 chained calls", "DEV902"),
        ("1,600 chained subscripts", "DEV902"),
        ("1,000,000 attributes", "DEV902"),
        ("1,000,000 sums", "DEV902"),
        ("40 deep statements", "DEV902"),
        ("valid for Python alone", "DEV902"),
        ("50 MB", "DEV902"),
        ("NUL", "DEV901"),
        ("Python 2", "DEV900"),
        ("not UTF-8", "DEV901"),
        ("unknown encoding", "DEV901"),
        ("100,000 digits", "DEV900"),
    ],
)
def test_other_files_that_cannot_be_checked(hostile_runs, name, code):
    codes, seconds = hostile_runs[name]
    assert codes == [code]
    assert seconds < 30


@pytest.mark.parametrize("name", ["lone carriage returns", "form feeds"])
def test_rare_line_ends_are_checked(hostile_runs, name):
    assert hostile_runs[name][0] == hostile.FIRED


def test_the_reason_is_said(tmp_path):
    said = {
        "(y): int = 1\n": r"LibCST cannot read this file, not checked: .*",
        f"x{'.a' * 600}\n": r"nested deeper than 500 levels, not checked",
        f"x{' and y' * 3000}\n": r"an expression of more than 2000 operands, not checked",
        f"match x:\n case {'(1, ' * 12}{')' * 12}: pass\n": r"patterns .* in too many nested brackets, .*",
        "y = (\n": r"not valid Python \(read as Python 3\.\d+\): .*",
    }
    for text, words in said.items():
        (finding,) = engine.check_bytes((hostile.HEAD + text).encode(), "x.py", Config()).findings
        assert re.fullmatch(words, finding.message), finding.message
        assert finding.start.row >= 10, "the row of the place, not of the file"


def test_a_pattern_that_people_write_is_checked():
    text = f"""{hostile.HEAD}
match x:
    case {{"layers": [{{"kind": "linear", "in": [int(a), int(b)], "act": ("relu" | "gelu")}}, *_], "n": (1, (2, 3))}}:
        pass
    case Call(func=Attribute(value=Name(id="torch"), attr="load"), args=[Constant(value=str(path)), *_], keywords=[]):
        del (a, (b, c)), [d]
"""
    assert [found.code for found in engine.check_text(Source("x.py", text), Config()).findings] == hostile.FIRED


# --- the screen hides nothing -----------------------------------------------------------------------------------------


CORPUS = programs()
EVERYTHING = Config(select=("ALL",))


def _check(text: str) -> list[Finding]:
    return list(engine.check_text(Source("x.py", text), EVERYTHING, noqa=False).findings)


def _variants(text: str) -> dict[str, str]:
    """The same faults by other names: what a screen that looks for names would miss."""
    renamed = re.sub(r"^import torch$", "import torch as t7", text, flags=re.MULTILINE)
    renamed = re.sub(r"\btorch\.(?=\w)", "t7.", renamed) if renamed != text else text
    aliased = re.sub(r"\btorch\.(load|zeros|ones|arange|randn|tensor|device|full)\(", r"alias_\1(", text)
    names = sorted(set(re.findall(r"\balias_(\w+)\(", aliased)))
    bound = "".join(f"alias_{name} = torch.{name}\n" for name in names)
    imported = "".join(f"from torch import {name} as alias_{name}\n" for name in names)
    partial = "import functools\n" + "".join(f"alias_{name} = functools.partial(torch.{name})\n" for name in names)
    future = "from __future__ import annotations\n"
    split = {"bound": bound, "imported": imported, "partial": partial}
    head = future if text.startswith(future) else ""
    body = aliased.removeprefix(future)
    found = {"as it is": text} | ({"renamed": renamed} if renamed != text else {})
    if names:
        found |= {kind: f"{head}import torch\n{lines}{body}" for kind, lines in split.items()}
    return {kind: variant for kind, variant in found.items() if _is_valid(variant)}


def _is_valid(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def test_the_corpus_has_findings_of_every_rule():
    found = {finding.code for text in CORPUS.values() for finding in _check(text)}
    assert set(rules()) <= found


@pytest.mark.parametrize("name", CORPUS)
def test_the_screen_hides_no_finding(monkeypatch, name):
    variants = _variants(CORPUS[name])
    screened = {kind: _check(text) for kind, text in variants.items()}
    for rule in rules().values():
        monkeypatch.setattr(rule, "screen", (_Always(),))
        monkeypatch.setattr(rule, "suspects", _asked_and_overruled(rule.suspects))
    assert {kind: _check(text) for kind, text in variants.items()} == screened


def _asked_and_overruled(suspects: Callable[[Rule], bool]) -> Callable[[Rule], bool]:
    """Rules note in `suspects` what they look at later, so it is called as always."""
    return lambda rule: suspects(rule) or True


class _Always:
    def holds(self, seen: screen.Seen) -> bool:
        return True


def test_the_test_itself_sees_a_screen_that_hides(monkeypatch):
    name = next(name for name in CORPUS if name.startswith("DEV101"))
    monkeypatch.setattr(rules()["DEV101"], "screen", ())
    with pytest.raises(AssertionError):
        test_the_screen_hides_no_finding(monkeypatch, name)
