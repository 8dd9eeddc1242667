"""The concise format, the statistics, the progress line, and the list of formats."""

from __future__ import annotations

import io
import json
import sys

import pytest

from devlint.finding import Applicability, Group, RuleInfo
from devlint.output import FORMATS, Display, progress, renderer, rules, statistics
from devlint.output.concise import render


def test_concise_is_a_line_of_flake8s_form_with_a_mark_for_safe_fixes(make_report):
    reports = [
        make_report("x.to(d)\n", "to", replace={"x": "y"}),
        make_report("x.to(d)\n", "to", replace={"x": "y"}, applicability=Applicability.UNSAFE),
        make_report("x.to(d)\n", "to"),
    ]
    assert render(reports, Display()).splitlines() == [
        "train.py:1:3: DEV101 [*] the moved copy is thrown away",
        "train.py:1:3: DEV101 the moved copy is thrown away",
        "train.py:1:3: DEV101 the moved copy is thrown away",
    ]


def test_every_format_renders(make_report):
    for name in FORMATS:
        shown = renderer(name).render([make_report("x.to(d)\n", "to")], Display())
        assert "DEV101" in shown and shown.endswith("\n")
    with pytest.raises(LookupError):
        renderer("statistics")


def test_statistics(make_report):
    safe = make_report("x.to(d)\n", "to", replace={"x": "y"})
    bare = make_report("x.to(d)\n", "to")
    other = make_report("x.to(d)\n", "to", code="DEV301", name="load-without-map-location")
    reports = [safe, other, *[bare] * 10]
    assert statistics.render(reports, "text") == (
        "11  DEV101  [-] discarded-transfer\n 1  DEV301  [ ] load-without-map-location\n"
    )
    assert statistics.render([safe, safe], "concise") == "2  DEV101  [*] discarded-transfer\n"
    assert json.loads(statistics.render(reports, "json"))[0] == {
        "code": "DEV101",
        "name": "discarded-transfer",
        "count": 11,
        "fixable_count": 1,
    }
    assert statistics.render([], "text") == ""


RULES = [
    RuleInfo("DEV402", "hardcoded-device-index", (Group.PORTABILITY,), "a | b"),
    RuleInfo("DEV101", "discarded-transfer", (Group.BUG, Group.STYLE), "thrown away"),
]


def test_lists_of_rules():
    assert rules.render(RULES, "text", Display()) == (
        "+ DEV101  discarded-transfer      bug, style   thrown away\n"
        "- DEV402  hardcoded-device-index  portability  a | b\n"
    )
    assert rules.render(RULES, "markdown", Display()).splitlines()[2:] == [
        "| DEV101 | discarded-transfer | bug, style | thrown away |",
        "| DEV402 | hardcoded-device-index | portability | a \\| b |",
    ]
    assert json.loads(rules.render(RULES, "json", Display()))[1] == {
        "code": "DEV402",
        "name": "hardcoded-device-index",
        "groups": ["portability"],
        "on_by_default": False,
        "summary": "a | b",
    }


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run_progress(monkeypatch, stream, *, wanted=True):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    assert list(progress.progress(iter("abc"), 3, wanted=wanted)) == ["a", "b", "c"]
    return stream.getvalue()


def test_progress_shows_on_a_terminal_and_is_wiped(monkeypatch):
    shown = run_progress(monkeypatch, Terminal())
    assert "1/3 files" in shown and "3/3 files" in shown
    assert shown.endswith(f"\r{' ' * len(progress.bar(3, 3))}\r")


def test_no_progress_elsewhere(monkeypatch):
    assert run_progress(monkeypatch, io.StringIO()) == ""
    assert run_progress(monkeypatch, Terminal(), wanted=False) == ""


def test_a_short_run_shows_no_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(progress.progress([1, 2], 2, wanted=True)) == [1, 2]
    assert sys.stderr.getvalue() == ""


def test_the_bar():
    assert progress.bar(1, 4, width=8) == "[##......] 1/4 files"
    assert progress.bar(4, 4, width=8) == "[########] 4/4 files"
