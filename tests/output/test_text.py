"""The format for people, compared with whole outputs written by hand."""

from __future__ import annotations

import os
from textwrap import dedent

import pytest

from devlint.finding import Applicability
from devlint.output import Display
from devlint.output.text import WIDTH, columns, render, visible

PLAIN = Display()


def test_the_line_the_caret_and_the_fix(make_report):
    text = "for x in loader:\n    x.to(device)\n    net(x)\n"
    report = make_report(text, "to", replace={"x.to(device)": "x = x.to(device)"})
    assert render([report], PLAIN) == dedent(
        """\
        train.py:2:7: DEV101 discarded-transfer: the moved copy is thrown away
          2 |     x.to(device)
            |       ^^
          fix: Assign the copy
          2 -     x.to(device)
            +     x = x.to(device)

        """
    )


def test_an_unsafe_fix_and_a_suggestion_are_named_as_such(make_report):
    text = "x.to(device)\n"
    for applicability, word in ((Applicability.UNSAFE, "fix (unsafe)"), (Applicability.SUGGESTION, "suggestion")):
        report = make_report(text, "to", replace={"x.to": "x = x.to"}, applicability=applicability)
        assert f"\n  {word}: Assign the copy\n" in render([report], PLAIN)


def test_a_finding_without_fix_says_why(make_report):
    report = make_report("x.to(device)\n", "to", no_fix="x is not read again")
    assert render([report], PLAIN).endswith("\n  no fix: x is not read again\n\n")


def test_a_fix_in_two_places_shows_both_and_only_changed_lines(make_report):
    text = "import torch\nfrom torch import cuda\n\n\nwith cuda.amp.autocast():\n    pass\n"
    report = make_report(
        text, "autocast", replace={"from torch import cuda\n": "", "cuda.amp.autocast()": 'torch.amp.autocast("cuda")'}
    )
    shown = render([report], PLAIN)
    assert shown.endswith(
        "  fix: Assign the copy\n"
        "  2 - from torch import cuda\n"
        "  5 - with cuda.amp.autocast():\n"
        '    + with torch.amp.autocast("cuda"):\n\n'
    )


def test_an_inserted_line_shows_no_removed_one(make_report):
    text = "import os\nx = 1\n"
    report = make_report(text, "x", replace={"x": "import torch\nx"})
    assert render([report], PLAIN).endswith("  fix: Assign the copy\n    + import torch\n\n")


def test_crlf_lines_are_shown_without_their_ends(make_report):
    report = make_report("a = 1\r\nx.to(d)\r\n", "to", replace={"x.to": "x = x.to"})
    shown = render([report], PLAIN)
    assert "\r" not in shown
    assert "  2 - x.to(d)\n    + x = x.to(d)\n" in shown


def test_tabs_and_wide_characters_do_not_shift_the_caret(make_report):
    report = make_report('\ts = "深層"; x.to(d)\n', "to")
    line, carets = render([report], PLAIN).splitlines()[1:3]
    shown = line.split("| ", 1)[1]
    assert shown == '    s = "深層"; x.to(d)'
    # Two columns for each of the two wide characters: two more than the character count.
    assert carets.split("| ", 1)[1].index("^") == shown.index("to") + 2


def test_control_characters_of_the_source_do_not_reach_the_terminal(make_report):
    report = make_report("x.to(d)  # \x1b[2J\x0c\u202e\u200b\n", "to", replace={"x.to": "x = x.to"})
    shown = render([report], PLAIN)
    assert shown.isascii() is False
    assert not any(character in shown for character in "\x1b\x0c\u202e\u200b")


def test_a_finding_over_several_lines_marks_the_first(make_report):
    text = "x.to(\n    device\n)\n"
    shown = render([make_report(text, "to(\n    device\n)")], PLAIN)
    assert "  1 | x.to(\n    |   ^^^\n" in shown


def test_a_long_line_is_cut_around_the_finding(make_report):
    text = "a" * 1000 + " x.to(d) " + "b" * 1000 + "\n"
    line, carets = render([make_report(text, "to")], PLAIN).splitlines()[1:3]
    shown, marks = line.split("| ", 1)[1], carets.split("| ", 1)[1]
    assert len(shown) == WIDTH
    assert shown[marks.index("^") :].startswith("to(d)")
    assert marks.strip() == "^^"


def test_a_large_fix_is_cut_and_counted(make_report):
    report = make_report("x = 1\n", "x", replace={"x = 1": "\n".join(f"x{i} = 1" for i in range(40))})
    lines = render([report], PLAIN).splitlines()
    assert sum(line.lstrip().startswith("+ x") for line in lines) == 12
    assert any(line.endswith("+ ... 28 more") for line in lines)


def test_a_report_without_text_is_one_line(unreadable):
    assert render([unreadable], PLAIN) == "x.py:1:1: DEV901 unreadable: cannot be read: no permission\n\n"


def test_colour_adds_codes_and_nothing_else(make_report):
    import click

    report = make_report("x.to(device)\n", "to", replace={"x.to": "x = x.to"})
    coloured = render([report], Display(colour=True))
    assert "\x1b[31m\x1b[1m" in coloured
    assert click.unstyle(coloured) == render([report], PLAIN)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/project/src/a.py", os.path.join("src", "a.py")),
        ("./src/a.py", os.path.join("src", "a.py")),
        ("/elsewhere/a.py", "/elsewhere/a.py"),
        ("../a.py", "../a.py"),
        ("/project-2/a.py", "/project-2/a.py"),
        ("..a.py", "..a.py"),
    ],
)
def test_paths_are_relative_below_the_base_only(path, shown):
    assert Display(base="/project").path(path) == shown


def test_widths():
    assert columns("abc") == 3
    assert columns("深層") == 4
    assert columns("e\u0301") == 1
    assert visible("a\tb\x00") == "a    b\u2400"
