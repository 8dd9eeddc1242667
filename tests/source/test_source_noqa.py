"""`# noqa`: the real flake8 process is the measure, over a table of spellings and over made files."""

from __future__ import annotations

import random
import subprocess
import sys
import tokenize

import pytest
from support import environment

from devlint.source import Noqa, Source, decode_source

CODES = ("DEV101", "DEV402", "DEV804")

PLUGIN = f"""
class Plugin:
    name = "reports-all"
    version = "1"

    def __init__(self, tree, lines):
        self.rows = len(lines)

    def run(self):
        for row in range(1, self.rows + 1):
            for code in {CODES}:
                yield row, 0, code + " here", type(self)
"""

SPELLINGS = [
    "# noqa",
    "#noqa",
    "#  noqa",
    "# noqa ",
    "# NOQA",
    "# NoQa: DEV101",
    "# noqa: DEV101",
    "# noqa:DEV101",
    "# noqa:  DEV101",
    "# noqa : DEV101",
    "# noqa:\tDEV101",
    "# noqa: DEV101,DEV402",
    "# noqa: DEV101, DEV402",
    "# noqa: DEV101 DEV402",
    "# noqa: DEV101 , DEV402",
    "# noqa: DEV101,,DEV402",
    "# noqa: DEV101;DEV402",
    "# noqa: E501, DEV402",
    "# noqa: E501",
    "# noqa: DEV",
    "# noqa: DEV1",
    "# noqa: DEV10",
    "# noqa: DEV1,DEV4",
    "# noqa: D1",
    "# noqa: D",
    "# noqa: DEV1011",
    "# noqa: dev101",
    "# noqa: Dev101, DEV402",
    "# noqa: DEV101 because the caller moves it",
    "# noqa: DEV101 - see #12, DEV402",
    "# noqa: because DEV101",
    "# noqa: DEV101because",
    "# noqa:",
    "# noqa: ",
    "# noqa DEV101",
    "# noqa-DEV101",
    "# noqa:DEV101:DEV402",
    "# noqa(DEV101)",
    "# noqaDEV101",
    "# a note # noqa: DEV402",
    "# noqa: DEV101 # noqa: DEV402",
    "# noqa: E1 # noqa",
    "# type: ignore # noqa",
    "# xnoqa",
    "# x noqa",
    "## noqa: DEV101",
    "# no qa",
    "# n\u00f6qa",
    "# flake8: noqa",
    "# flake8: noqa: DEV101",
    "# ruff: noqa",
    "# pylint: disable=all",
    "# noqa: DEV101\u00a0DEV402",
    "# noqa: D\u0130V101",
]

STRUCTURES = {
    "nothing": "x = 1\n",
    "empty": "",
    "first of three": "x = 1  # noqa\ny = 2\nz = 3\n",
    "no final newline": "x = 1\ny = 2  # noqa: DEV101",
    "string over lines, end": 's = """a\nb\nc"""  # noqa: DEV101\ny = 2\n',
    "string over lines, inside": 's = """a\nb # noqa: DEV101\nc"""\ny = 2\n',
    "string over lines, two": 's = """a\nb # noqa: DEV101\nc"""  # noqa\ny = 2\n',
    "docstring": 'def f():\n    """Do.\n\n    More.\n    """  # noqa: DEV101\n    return 1\n',
    "backslash, end": "x = 1 + \\\n    2 + \\\n    3  # noqa: DEV402\ny = 2\n",
    "brackets, end": "x = f(\n    1,\n    2,\n)  # noqa\ny = 2\n",
    "brackets, first": "x = f(  # noqa\n    1,\n    2,\n)\ny = 2\n",
    "brackets and a string": 'x = f("""a\nb""",  # noqa: DEV101\n    2,\n)\ny = 2\n',
    "brackets and backslash": "x = f(1, \\\n   2,  # noqa: DEV101\n   3)\n",
    "string in a line": 'x = "# noqa: DEV101"\ny = 2\n',
    "comment line": "# noqa\nx = 1\n",
    "blank lines around": "\n\nx = 1  # noqa\n\n\n",
    "crlf": "x = 1  # noqa: DEV101\r\ny = 2\r\ns = '''a\r\nb'''  # noqa\r\n",
    "lone cr": "x = 1  # noqa: DEV101\ry = 2\rs = '''a\rb'''  # noqa\r",
    "mixed line ends": "x = 1  # noqa\ry = 2\r\nz = 3  # noqa: DEV4\nw = 4\n",
    "form feed": "x = 1\n\x0c\ny = 2  # noqa\n",
    "form feed in a line": "x = 1 \x0c # noqa\ny = 2\n",
    "f-string over lines": 's = f"""a\n{x}\nb"""  # noqa: DEV101\ny = 2\n',
    "f-string over lines, nested": 's = f"""a\n{f(\n  1)}\nb""" + g(\n 2)  # noqa: DEV101\ny = 2\n',
    "whole file": "x = 1\n# flake8: noqa\ny = 2\n",
    "whole file, indented": "if x:\n    # flake8: noqa\n    y = 2\n",
    "whole file, =": "x = 1\n# FLAKE8= NOQA\n",
    "whole file, in a string": '"""\n# flake8: noqa\n"""\nx = 1\n',
    "not the whole file": "x = 1  # flake8: noqa\ny = 2\n",
    "over a line end": "# flake8:\nnoqa = 1\nx = 1  # noqa:\nDEV101 = 1\n",
    "decorator": "@f  # noqa\ndef g():\n    pass\n",
    "semicolons": "x = 1; y = 2  # noqa: DEV402\n",
    "non-ascii": "ä = 'é'  # noqa: DEV101\nö = 2\n",
    "two strings in a row": 's = """a\nb""" + """c\nd"""  # noqa: DEV804\nx = 1\n',
    "string then backslash": 's = """a\nb""" + \\\n  c  # noqa: DEV804\nx = 1\n',
    "backslash in a comment": "x = 1  # a \\\ny = 2  # noqa\n",
    "backslash in a string": "x = 'a\\\nb'  # noqa: DEV101\ny = 2\n",
}

PIECES = [
    "x = 1{}\n",
    's = """a{}\n b{}\n"""{}\n',
    "y = f({}\n    x,{}\n)\n",
    "z = x + \\\n    y{}\n",
    "if x:{}\n    y = 2{}\n",
    "{}\n",
    "f('''a{}\n''', \\\n  '''{}b\n''',{}\n 1){}\n",
]


def made(count):
    """Files of random pieces with random comments; the same ones in each run."""
    chance = random.Random(7)
    for number in range(count):
        text = ""
        for _ in range(chance.randint(1, 6)):
            piece = chance.choice(PIECES)
            # Whatever looks at the whole file would hide all else.
            notes = [note for note in SPELLINGS if "flake8" not in note]
            text += piece.format(*("  " + chance.choice(notes) if chance.random() < 0.4 else "" for _ in range(9)))
        if number % 3 == 0:
            text = text.replace("\n", "\r\n")
        yield f"made {number}", text


FILES = {
    **{f"spelling {note}": f"x = 1  {note}\ny = 2\n" for note in SPELLINGS},
    **{f"line of its own {note}": f"x = 1\n{note}\ny = 2\n" for note in SPELLINGS},
    **STRUCTURES,
    **dict(made(150)),
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """What flake8 lets through: for each of FILES the rows and codes."""
    folder = tmp_path_factory.mktemp("noqa")
    names = {}
    for number, (name, text) in enumerate(FILES.items()):
        (folder / f"f{number}.py").write_bytes(text.encode())
        names[f"f{number}.py"] = name
    (folder / "plugin").mkdir()
    (folder / "plugin" / "reports_all.py").write_text(PLUGIN)
    plugins = folder / "setup.cfg"
    plugins.write_text("[flake8:local-plugins]\nextension =\n    DEV = reports_all:Plugin\npaths = plugin\n")
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "flake8",
            "--config",
            str(plugins),
            "--select",
            "DEV",
            "-j1",
            "--exclude",
            "plugin",
            "--format",
            "%(path)s:%(row)d:%(code)s",
            ".",
        ],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not result.stderr
    found = {name: set() for name in FILES}
    for line in result.stdout.splitlines():
        path, row, code = line.removeprefix("./").split(":")
        found[names[path]].add((int(row), code))
    return found


def lines_of(text):
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def test_flake8_did_report_and_did_suppress(reported):
    """Else all comparisons below would hold for nothing."""
    assert len(reported["nothing"]) == len(CODES)
    assert reported["spelling # noqa"] == {(2, code) for code in CODES}
    assert reported["spelling # noqa: DEV101"] == {(1, "DEV402"), (1, "DEV804")} | {(2, code) for code in CODES}


@pytest.mark.parametrize("name", FILES)
def test_the_same_is_suppressed_as_by_flake8(reported, name):
    text = FILES[name]
    noqa = Noqa(decode_source(text.encode(), "x.py"))
    lines = lines_of(text)
    rows = range(1, len(lines) + (1 if lines[-1] else 0))
    assert {(row, code) for row in rows for code in CODES if not noqa.suppresses(code, row)} == reported[name]


def test_a_bom_does_not_hide_the_first_line():
    source = decode_source(b"\xef\xbb\xbf# flake8: noqa\nx = 1\n", "x.py")
    assert Noqa(source).suppresses("DEV101", 2)


def test_rows_that_are_not_there_are_not_suppressed():
    noqa = Noqa(Source("x.py", "x = 1  # noqa\n"))
    assert not noqa.suppresses("DEV101", 0)
    assert not noqa.suppresses("DEV101", 99)


def test_text_without_tokens_goes_by_its_lines():
    """A finding that the file is not valid Python can be silenced in its own line."""
    noqa = Noqa(Source("x.py", 'x = ("""a\nb"""  # noqa: DEV900\ny = """\n'))
    assert noqa.suppresses("DEV900", 2)
    assert not noqa.suppresses("DEV900", 1)


@pytest.mark.parametrize("text", ["s = '''a\nb'''\n" * 2000, "x = 1  # noqa\n" * 2000])
def test_no_tokens_are_made_without_need(monkeypatch, text):
    def refuse(*_):
        raise AssertionError("tokens were made")

    monkeypatch.setattr(tokenize, "generate_tokens", refuse)
    noqa = Noqa(Source("x.py", text))
    assert noqa.suppresses("DEV101", 2) is ("noqa" in text)
