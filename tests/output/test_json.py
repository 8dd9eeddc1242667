"""The JSON format: Ruff's names, and positions that a program can act on."""

from __future__ import annotations

import json
import os

from devlint.config import Config
from devlint.engine import check_text
from devlint.finding import Applicability
from devlint.output import Display
from devlint.output.json import render
from devlint.source import Source, comment_row

PLAIN = Display()


def apply(text: str, edits: list[dict]) -> str:
    """Apply edits as a reader of the JSON would: rows and columns from 1, in characters."""
    lines = text.splitlines(keepends=True)

    def offset(location: dict) -> int:
        return sum(map(len, lines[: location["row"] - 1])) + location["column"] - 1

    for edit in sorted(edits, key=lambda edit: offset(edit["location"]), reverse=True):
        text = text[: offset(edit["location"])] + edit["content"] + text[offset(edit["end_location"]) :]
    return text


def test_one_finding(make_report):
    text = "é = 1\r\nx.to(d)\r\n"
    report = make_report(text, "to", replace={"x.to": "x = x.to", "é": "e"}, path=os.path.join("src", "a.py"))
    (found,) = json.loads(render([report], PLAIN))
    edits = found["fix"].pop("edits")
    url = found.pop("url")
    assert found == {
        "code": "DEV101",
        "name": "discarded-transfer",
        "message": "the moved copy is thrown away",
        "filename": os.path.abspath("src/a.py"),
        "location": {"row": 2, "column": 3},
        "end_location": {"row": 2, "column": 5},
        "fix": {"applicability": "safe", "message": "Assign the copy"},
        "no_fix": None,
        "group": "bug",
        "noqa_row": 2,
    }
    assert apply(text, edits) == "e = 1\r\nx = x.to(d)\r\n"
    assert url is None or url.startswith("file://")


def test_applicability_is_devlints_own_word(make_report):
    for applicability in Applicability:
        report = make_report("x.to(d)\n", "to", replace={"x": "y"}, applicability=applicability)
        assert json.loads(render([report], PLAIN))[0]["fix"]["applicability"] == applicability.value


def test_no_fix(make_report, unreadable):
    report = make_report("x.to(d)\n", "to", no_fix="x is not read again")
    first, second = json.loads(render([report, unreadable], PLAIN))
    assert (first["fix"], first["no_fix"]) == (None, "x is not read again")
    assert (second["code"], second["fix"]) == ("DEV901", None)


def test_nothing_found_is_an_empty_list():
    assert render([], PLAIN) == "[]\n"


def test_a_name_that_is_no_text_survives(make_report):
    report = make_report("x.to(d)\n", "to", path="/tmp/\udcff.py")
    assert json.loads(render([report], PLAIN).encode("ascii"))[0]["filename"] == "/tmp/\udcff.py"


def test_the_page_of_the_rule_is_where_url_says(make_report, tmp_path, monkeypatch):
    from devlint import rulebook

    page = tmp_path / "DEV101-discarded-transfer.md"
    page.write_text("# DEV101 discarded-transfer\n")
    monkeypatch.setattr(rulebook, "pages_folder", lambda: tmp_path)
    (found,) = json.loads(render([make_report("x.to(d)\n", "to")], PLAIN))
    assert found["url"] == page.as_uri()


def test_the_noqa_row_is_the_last_of_the_rows_that_belong_together():
    text = 'import torch\n\nx = """\n""" + \\\n    str(torch.device("cuda:0,1"))  # here\n'
    report = check_text(Source("a.py", text), Config(select=("DEV401",)))
    (found,) = json.loads(render([report], Display()))
    assert (found["location"]["row"], found["noqa_row"]) == (5, 5)
    assert comment_row(Source("a.py", text), 3) == 5
