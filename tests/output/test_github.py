"""Workflow commands: the form that GitHub's runner parses, with its escapes."""

from __future__ import annotations

import re
from urllib.parse import unquote

from devlint.finding import Group
from devlint.output import Display
from devlint.output.github import render

COMMAND = re.compile(r"::(?P<level>\w+) (?P<properties>[^\n]*?)::(?P<data>[^\n]*)\n")


def parse(line: str) -> tuple[str, dict[str, str], str]:
    """Read a command as the runner does: properties up to the next `::`, then %25, %0D, %0A, %3A and %2C undone."""
    match = COMMAND.fullmatch(line)
    assert match, line
    properties = dict(entry.split("=", 1) for entry in match["properties"].split(","))
    return match["level"], {key: unquote(value) for key, value in properties.items()}, unquote(match["data"])


def test_a_finding(make_report):
    assert render([make_report("x.to(d)\n", "to")], Display()) == (
        "::error title=devlint (DEV101),file=train.py,line=1,col=3,endLine=1,endColumn=5"
        "::train.py:1:3: DEV101 the moved copy is thrown away\n"
    )


def test_escapes_come_back(make_report):
    path, message = "a,b:c%2C::d.py", "100 % of `x::y`,\r\nthen z"
    line = render([make_report("x.to(d)\n", "to", path=path, message=message)], Display())
    level, properties, data = parse(line)
    assert (level, properties["file"]) == ("error", path)
    assert data == f"{path}:1:3: DEV101 {message}"


def test_what_is_no_bug_is_a_warning(make_report):
    for group in Group:
        level, _, _ = parse(render([make_report("x.to(d)\n", "to", group=group)], Display()))
        assert level == ("error" if group is Group.BUG else "warning")


def test_several_lines_have_no_columns(make_report):
    _, properties, _ = parse(render([make_report("x.to(\nd)\n", "to(\nd")], Display()))
    assert (properties["line"], properties["endLine"]) == ("1", "2")
    assert not {"col", "endColumn"} & set(properties)
