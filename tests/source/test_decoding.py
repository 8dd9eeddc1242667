"""Bytes to text and back: what Python itself makes of the same bytes is the measure."""

from __future__ import annotations

import ast
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devlint.source import Source, SourceError, decode_source, encode_source

BOM = b"\xef\xbb\xbf"


def dump(code):
    return ast.dump(ast.parse(code))


READABLE = {
    "empty": b"",
    "only a line end": b"\n",
    "only a BOM": BOM,
    "no final newline": b"x = 1",
    "utf-8 without declaration": 'x = "é漢😀"\n'.encode(),
    "BOM": BOM + 'x = "é"\n'.encode(),
    "BOM with its declaration": BOM + '# coding: utf-8\nx = "é"\n'.encode(),
    "BOM with utf-8-sig": BOM + '# coding: utf-8-sig\nx = "é"\n'.encode(),
    "BOM with another case": BOM + '# -*- coding: UTF_8 -*-\nx = "é"\n'.encode(),
    "utf-8-sig without a BOM": '# coding: utf-8-sig\nx = "é"\n'.encode(),
    "utf8": '# coding: utf8\nx = "é"\n'.encode(),
    "latin-1": '# coding: latin-1\nx = "é"\n'.encode("latin-1"),
    "Latin_1": '# coding: Latin_1\nx = "é"\n'.encode("latin-1"),
    "latin-1-unix": '# -*- coding: latin-1-unix -*-\nx = "é"\n'.encode("latin-1"),
    "iso-8859-15": '# -*- coding: iso-8859-15 -*-\nx = "€"\n'.encode("iso-8859-15"),
    "cp1252": '# vim: set fileencoding=cp1252 :\nx = "€"\n'.encode("cp1252"),
    "koi8-r": '# coding=koi8-r\nx = "ж"\n'.encode("koi8-r"),
    "gbk": '# coding: gbk\nx = "漢"\n'.encode("gbk"),
    "shift_jis with a backslash byte": '# coding: shift_jis\nx = "ソ"\n'.encode("shift_jis"),
    "second line": '#!/usr/bin/python\n# coding: latin-1\nx = "é"\n'.encode("latin-1"),
    "second line after an empty one": '\x0c \n#coding=latin1\nx = "é"\n'.encode("latin-1"),
    "second line with CRLF": '#!a\r\n# coding: latin-1\r\nx = "é"\r\n'.encode("latin-1"),
    "second line with lone CR": '#!a\r# coding: latin-1\rx = "é"\r'.encode("latin-1"),
    "declared twice": b"# coding: ascii\n# coding: latin-1\nx = 1\n",
    "not first in the comment": '# see also: coding : x, coding: latin-1\nx = "é"\n'.encode("latin-1"),
    "declaration behind code": b"x = 1  # coding: nonsense\n",
    "declaration after code": b"x = 1\n# coding: nonsense\n",
    "third line": b"#\n#\n# coding: nonsense\nx = 1\n",
    "in a string": b'"""\n# coding: nonsense\n"""\n',
    "form feeds and tabs": b"\x0cif 1:\n\tx = 1\n\x0c\n\ty = 2\n",
    "mixed line ends": b"x = 1\r\ny = 2\nz = 3\rw = 4",
    "line separators that are none": 'x = "a\u2028b\x85c\x0bd"\n'.encode(),
}


@pytest.mark.parametrize("data", READABLE.values(), ids=READABLE)
def test_decoding_reads_what_python_reads_and_encoding_gives_it_back(data):
    source = decode_source(data, "x.py")
    assert dump(source.text) == dump(data)
    assert encode_source(source, source.text) == data
    assert not source.text.startswith("\ufeff")


UNREADABLE = {
    "not utf-8": (
        b'x = 1\ny = "\xe9"\n',
        2,
        6,
        "byte 0xe9 is not valid in UTF-8, and the file declares no other encoding",
    ),
    "not ascii": (
        b'# coding: ascii\r\rx = "\xc3\xa9"',
        3,
        6,
        'byte 0xc3 is not valid in the declared encoding "ascii"',
    ),
    "not cp1252": (b'# coding: cp1252\n"\xe9\x81"\n', 2, 3, 'byte 0x81 is not valid in the declared encoding "cp1252"'),
    "cut off": (
        "x = 'é".encode()[:-1],
        1,
        6,
        "byte 0xc3 is not valid in UTF-8, and the file declares no other encoding",
    ),
    "surrogate": (
        b'"\xed\xa0\x80"\n',
        1,
        2,
        "byte 0xed is not valid in UTF-8, and the file declares no other encoding",
    ),
    "unknown": (b"#\n# coding: nope\nx = 1\n", 2, 1, 'the file declares the unknown encoding "nope"'),
    "bytes to bytes": (b"# coding: hex\nx = 1\n", 1, 1, 'the declared encoding "hex" is none of text'),
    "text to text": (b"# coding: rot13\nx = 1\n", 1, 1, 'the declared encoding "rot13" is none of text'),
    "never defined": (b"# coding: undefined\nx = 1\n", 1, 1, 'the text cannot be decoded as the declared "undefined"'),
    "utf-16": (b"# coding: utf-16\nx = 1\n", 1, 1, 'is not valid in the declared encoding "utf-16"'),
    "BOM and latin-1": (
        BOM + b"# coding: latin-1\nx = 1\n",
        1,
        1,
        'the file declares the encoding "latin-1" and starts',
    ),
    "NUL": (b"x = 1\n\0y = 2\n", 2, 1, "the file holds a NUL byte"),
    "utf-16 bytes": ("import torch\n".encode("utf-16-le"), 1, 2, "the file holds a NUL byte"),
}


@pytest.mark.parametrize(("data", "row", "column", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_python_refuses_is_refused_with_its_place(data, row, column, message):
    with pytest.raises((SyntaxError, ValueError)):
        ast.parse(data)
    with pytest.raises(SourceError) as caught:
        decode_source(data, "x.py")
    assert message in caught.value.message
    if "utf-16" not in message:
        assert (caught.value.row, caught.value.column) == (row, column)


@pytest.mark.parametrize("encoding", ["utf-7", "unicode_escape", "raw_unicode_escape", "iso2022_jp"])
def test_text_that_does_not_survive_is_refused_although_python_reads_it(encoding):
    """Each can write one text in several ways, so that writing it back would change bytes that no fix touched."""
    odd = {"utf-7": b'x = "+AGE-"', "iso2022_jp": b'x = "\x1b(J\x1b(Ba"'}.get(encoding, b'x = "\\u0061"')
    data = f"# coding: {encoding}\n".encode() + odd + b"\n"
    ast.parse(data)
    with pytest.raises(SourceError, match="does not give the same bytes"):
        decode_source(data, "x.py")


def test_an_encoding_with_several_spellings_is_read_where_the_usual_ones_stand():
    data = b"# coding: utf-7\nx = 1\n"
    source = decode_source(data, "x.py")
    assert encode_source(source, source.text) == data
    assert encode_source(source, "x = 'é'") == "x = 'é'".encode("utf-7")


def test_encoding_keeps_the_encoding_and_the_bom():
    latin = decode_source('# coding: latin-1\nx = "é"\n'.encode("latin-1"), "x.py")
    assert encode_source(latin, latin.text + "ü\n") == '# coding: latin-1\nx = "é"\nü\n'.encode("latin-1")
    marked = decode_source(BOM + b"x = 1\n", "x.py")
    assert encode_source(marked, 'y = "é"\n') == BOM + 'y = "é"\n'.encode()


def test_a_character_that_the_encoding_lacks_is_said_with_its_place():
    source = decode_source(b"# coding: latin-1\nx = 1\n", "x.py")
    with pytest.raises(SourceError, match=r"has no character '€'") as caught:
        encode_source(source, "# coding: latin-1\r\nx = '€'\n")
    assert (caught.value.row, caught.value.column) == (2, 6)


def test_text_that_would_be_read_otherwise_is_not_written():
    with pytest.raises(SourceError, match="does not give the same text"):
        encode_source(Source("x.py", "", "raw_unicode_escape"), "\\u0061")
    with pytest.raises(SourceError, match="cannot be encoded"):
        encode_source(Source("x.py", "", "undefined"), "x")


def test_errors_and_sources_pass_between_processes():
    error = pickle.loads(pickle.dumps(SourceError("m", 3, 4)))
    assert (error.message, error.row, error.column) == ("m", 3, 4)
    source = decode_source(b"x\ny\n", "x.py")
    assert source.line_starts == (0, 2, 4)
    assert pickle.loads(pickle.dumps(source)) == source


LINES = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=8),
        st.sampled_from(["\n", "\r\n", "\r", ""]),
    )
)


@settings(max_examples=300, deadline=None)
@given(LINES, st.sampled_from([b"", BOM]))
def test_any_utf_8_text_survives(lines, bom):
    data = bom + "".join("#" + text + end for text, end in lines).encode()
    try:
        tree = dump(data)
    except SyntaxError:
        tree = None  # a comment that happens to declare an encoding
    try:
        source = decode_source(data, "x.py")
    except SourceError:
        assert tree is None
        return
    assert encode_source(source, source.text) == data
    assert tree is None or dump(source.text) == tree


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=40),
    st.sampled_from(["utf-8", "latin-1", "cp1252", "shift_jis", "gbk", "utf-7", "big5", "koi8-r"]),
)
def test_any_bytes_survive_or_are_refused(tail, encoding):
    data = f"# coding: {encoding}\n".encode() + tail
    try:
        source = decode_source(data, "x.py")
    except SourceError as error:
        assert 1 <= error.row <= 1 + len(tail) + 1
        assert error.column >= 1
        return
    assert encode_source(source, source.text) == data
    assert source.text == data.decode(encoding)
