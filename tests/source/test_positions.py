"""Rows, columns and offsets: `ast` and the file objects of Python are the measure."""

from __future__ import annotations

import ast
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work import calls_of

from devlint.finding import Location
from devlint.source import Source, decode_source

TEXTS = st.text(st.sampled_from("ab é漢😀\t\x0c\x0b\x1c\x85\u2028\n\r"), max_size=40)


def lines_of(text):
    """The lines as Python's file objects cut them: at LF, CRLF and lone CR."""
    return list(io.StringIO(text, newline="")) or [""]


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_line_starts_are_where_pythons_lines_start(text):
    lines = lines_of(text)
    starts = [sum(map(len, lines[:index])) for index in range(len(lines))]
    if lines[-1].endswith(("\n", "\r")):
        starts.append(len(text))
    source = Source("x.py", text)
    assert list(source.line_starts) == starts
    for row, line in enumerate(lines, 1):
        assert source.line(row) == line.rstrip("\r\n")


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_offsets_locations_and_byte_columns_agree(text):
    source = Source("x.py", text)
    for offset in range(len(text) + 1):
        place = source.location(offset)
        start = source.line_starts[place.row - 1]
        assert start + place.column - 1 == offset
        assert not set(text[start:offset].rstrip("\r")) & {"\n", "\r"}
        assert source.offset(place.row, len(text[start:offset].encode())) == offset


CODE = [
    "x = 'é', yy\n",
    "def f(a, ä='漢', *b):\r\n\treturn a + ä # ö\r\n\x0c\r\nf(1)\r\n",
    "if 1:\r  x = '''a\r\n  é\n b''' + y\r\r  z(x)\r",
    "\x0cx = 1\n\x0c\ny = ('a'\n 'é') + x\n",
    "x = \\\n  yé\nz = [\n 'é', x,\t y]",
    "",
    "x",
]


@pytest.mark.parametrize("code", CODE)
def test_ast_positions_find_their_text(code):
    source = decode_source(code.encode(), "x.py")
    nodes = [node for node in ast.walk(ast.parse(code)) if hasattr(node, "lineno")]
    assert nodes or not code
    for node in nodes:
        start = source.offset(node.lineno, node.col_offset)
        end = source.offset(node.end_lineno, node.end_col_offset)
        assert source.text[start:end] == ast.get_source_segment(code, node)


def test_positions_outside_of_the_text_become_the_nearest_inside():
    source = Source("x.py", "ab\né\n")
    assert source.offset(0, 5) == 0
    assert source.offset(9, 0) == 5
    assert source.offset(1, -3) == 0
    assert source.offset(1, 99) == 3
    assert source.offset(2, 99) == 5
    assert source.offset(2, 1) == 3, "the middle of a character is where it starts"
    assert source.location(-1) == Location(1, 1)
    assert source.location(99) == Location(3, 1)


def test_lines():
    source = Source("x.py", "a\r\n\rb\n\nc")
    assert [source.line(row) for row in range(1, 6)] == ["a", "", "b", "", "c"]
    for row in (0, 6, -1):
        with pytest.raises(IndexError):
            source.line(row)
    assert Source("x.py", "").line(1) == ""


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        ("", "\n"),
        ("x", "\n"),
        ("x\ny\n", "\n"),
        ("x\r\ny\r\n", "\r\n"),
        ("x\ry\r", "\r"),
        ("a\r\nb\r\nc\n", "\r\n"),
        ("a\r\nb\nc\n", "\n"),
        ("a\r\nb\n", "\r\n"),
        ("a\nb\r\n", "\n"),
        ("a\n\rb\n\r", "\n"),
    ],
)
def test_the_prevailing_line_end(text, newline):
    assert Source("x.py", text).newline == newline


def test_no_line_table_is_made_before_it_is_asked_for():
    text = "x = 'é' + y\n" * 100_000
    source = decode_source(text.encode(), "x.py")
    assert source._starts is None
    assert source.offset(100_000, 9) == 12 * 99_999 + 8
    assert source._starts is not None


def test_a_position_costs_the_same_in_a_short_file_and_in_a_long_one():
    def work(rows):
        source = decode_source(("x = 'é' + y\n" * rows).encode(), "x.py")
        return calls_of(lambda: [source.offset(row, 9) for row in range(1, 500)])

    assert work(100_000) <= work(600) + 10
