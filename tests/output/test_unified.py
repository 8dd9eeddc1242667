"""Unified diffs, proven by the programs that read them."""

from __future__ import annotations

import re
import subprocess

import pytest

from devlint.output.unified import unified

CASES = {
    "plain": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "crlf": (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
    "lone cr": (b"a\rb\nc\n", b"a\rB\nc\n"),
    "latin-1": (b"# coding: latin-1\ns = '\xe9'\nx\n", b"# coding: latin-1\ns = '\xe9'\ny\n"),
    "bom": (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nB\n"),
    "form feed": (b"a\n\x0c\nb\n", b"a\n\x0c\nB\n"),
    "no final newline": (b"a\nb", b"a\nB"),
    "final newline added": (b"a\nb", b"a\nb\n"),
    "far apart": (b"".join(b"%d\n" % i for i in range(50)), b"".join(b"%d\n" % (i or 7) for i in range(49)) + b"x\n"),
    "dashes": (b"-- a\n++ b\n", b"-- a\n++ c\n"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("file_name", ["a.py", "a b.py", "über.py"])
def test_git_applies_it(tmp_path, name, file_name):
    old, new = CASES[name]
    target = tmp_path / file_name
    target.write_bytes(old)
    patch = tmp_path / "change.patch"
    patch.write_bytes(unified(file_name, old, new))
    done = subprocess.run(
        ["git", "apply", "-p0", "--whitespace=nowarn", patch.name], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == new


def test_the_form():
    assert unified("a.py", b"a\nb", b"a\nB") == (
        b"--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n"
    )


def test_equal_files_give_nothing():
    assert unified("a.py", b"a\n", b"a\n") == b""


def test_colour_only_adds_codes():
    old, new = CASES["far apart"]
    coloured = unified("a.py", old, new, colour=True)
    assert b"\x1b[31m-" in coloured and b"\x1b[32m+" in coloured
    assert re.sub(rb"\x1b\[\d+m", b"", coloured) == unified("a.py", old, new)
