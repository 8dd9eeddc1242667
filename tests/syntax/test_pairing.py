"""Pairs of LibCST and `ast` nodes: on files that people wrote, they stand at the same place and hold the same text."""

from __future__ import annotations

import ast
import sys
import sysconfig
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from syntax.real_files import real_files
from syntax.test_walk import EVERY_STATEMENT, _newest

from devlint.source import Source, SourceError, decode_source
from devlint.syntax.pairing import Unpaired, pair
from devlint.syntax.walk import walk

_IN_F_STRINGS = sys.version_info >= (3, 12)
"""Whether `ast` knows where the parts of an f-string stand."""

_HOLDERS = (cst.Arg, cst.Param, cst.BaseElement, cst.SubscriptElement, cst.FormattedStringExpression, cst.CompFor)
"""What is paired with the nearest thing that `ast` has: a parameter without its default, an element without its
parentheses."""


def _source(path: Path) -> Source | None:
    try:
        source = decode_source(path.read_bytes(), str(path))
        ast.parse(source.text)
        cst.parse_module(source.text)
    except (SyntaxError, SourceError, cst.ParserSyntaxError):
        return None
    return None if "\f" in source.text else source  # LibCST counts form feeds in its columns


def _differences(source: Source) -> list[str]:
    """The pairs whose places differ, parentheses that only one of both trees counts in aside."""
    tree = ast.parse(source.text)
    module = cst.parse_module(source.text)
    places = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    pairs = pair(module, tree)
    different = []
    for node, other in pairs.items():
        if isinstance(node, (cst.Module, *_HOLDERS)) or not hasattr(other, "lineno"):
            continue
        wanted = places[node]
        start = source.location(source.offset(other.lineno, other.col_offset))
        end = source.location(source.offset(other.end_lineno, other.end_col_offset))  # type: ignore[attr-defined]
        found = [(start.row, start.column - 1), (end.row, end.column - 1)]
        if isinstance(node, (cst.Tuple, cst.GeneratorExp)) and found[0] < (wanted.start.line, wanted.start.column):
            # `ast` counts the parentheses of these in.
            text = source.text[source.offset(other.lineno, other.col_offset) :]
            assert text.startswith("(")
            continue
        if found != [(wanted.start.line, wanted.start.column), (wanted.end.line, wanted.end.column)]:
            different.append(f"{source.path}:{found}: {type(node).__name__} {type(other).__name__} {wanted}")
    return different


def _covered(source: Source) -> None:
    """Every call, attribute and name that `ast` knows has its pair, and they read the same."""
    tree = ast.parse(source.text)
    module = cst.parse_module(source.text)
    pairs = pair(module, tree)
    others = set(pairs.values())
    in_patterns = {
        part for node in ast.walk(tree) if isinstance(node, ast.match_case) for part in ast.walk(node.pattern)
    }
    type_parameters = {
        part for node in ast.walk(tree) for p in getattr(node, "type_params", ()) for part in ast.walk(p)
    }
    # The name that a type alias defines is no expression.
    aliases = {getattr(node, "name", None) for node in ast.walk(tree) if type(node).__name__ == "TypeAlias"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.Attribute | ast.Name | ast.stmt | ast.keyword | ast.arg | ast.Constant):
            if node in others or node in in_patterns | type_parameters | aliases:
                continue
            assert isinstance(node, ast.Constant), f"{source.path}:{node.lineno}: {ast.dump(node)[:200]}"
    for node, other in pairs.items():
        if isinstance(node, cst.Name) and isinstance(other, ast.Name):
            assert node.value == other.id
        elif isinstance(node, cst.Attribute):
            assert isinstance(other, ast.Attribute) and node.attr.value == other.attr
        elif isinstance(node, (cst.Call, cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            assert _KINDS.get(type(node).__name__, type(node).__name__) in (
                type(other).__name__,
                type(other).__name__.removeprefix("Async"),
            )


_KINDS = {"Del": "Delete"}


@pytest.mark.parametrize("chunk", range(8))
def test_places_on_real_files(chunk):
    for path in real_files(200, 9_000)[chunk::8]:
        source = _source(path)
        if source is not None:
            assert _differences(source) == []
            _covered(source)


@pytest.mark.parametrize(
    "name", ["patma", "fstring", "unpack_ex", "with", "coroutines", "lambda", "positional_only_arg"]
)
def test_pairs_in_the_tests_of_python_itself(name):
    path = Path(sysconfig.get_paths()["stdlib"]) / "test" / f"test_{name}.py"
    source = _source(path) if path.exists() else None
    if source is not None:
        _covered(source)


def test_every_statement_is_paired():
    source = Source("every", EVERY_STATEMENT + _newest())
    _covered(source)
    assert _differences(source) == []


def _texts(text: str) -> dict[str, str]:
    """The text of each pair by LibCST's own code for the node."""
    source = Source("x", text)
    module = cst.parse_module(text)
    found = {}
    for node, other in pair(module, ast.parse(text)).items():
        if isinstance(node, cst.BaseExpression) and hasattr(other, "lineno"):
            at: Any = other
            start, end = (
                source.offset(*at_) for at_ in ((at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset))
            )
            found[module.code_for_node(node)] = text[start:end]
    return found


def test_parentheses_commas_and_stars():
    star = ", *h" if sys.version_info >= (3, 11) else ", h"
    found = _texts(f"x = f((a), *(b), k=(c,), **d)[(e), (f):g{star}] + ((yield_))\n")
    assert found["(a)"] == "a"
    assert found["(c,)"] == "(c,)"
    assert found["((yield_))"] == "yield_"
    assert found["f((a), *(b), k=(c,), **d)"] == "f((a), *(b), k=(c,), **d)"
    assert {"(e)", "(f)", "g", "h"} <= set(found)


def test_operators_of_one_level_are_flat():
    """`ast` holds `a and b and c` as one node, LibCST as two: the outer one is paired, and so is each operand."""
    text = "x = a and (b and c) and d or e\n"
    module = cst.parse_module(text)
    pairs = pair(module, ast.parse(text))
    names = {node.value for node in walk(module) if isinstance(node, cst.Name) and node in pairs}
    assert names == {"x", "a", "b", "c", "d", "e"}


@pytest.mark.skipif(not _IN_F_STRINGS, reason="before 3.12 the parts of f-strings have places of their own")
def test_places_in_f_strings():
    found = _texts("x = f'{a.to(b)!r:>{c}}' 'd' f'{e}'\n")
    assert found["a.to(b)"] == "a.to(b)"
    assert found["c"] == "c"
    assert found["e"] == "e"


def test_parts_of_f_strings_are_paired():
    text = "x = f'{a.to(b)!r:>{c}}' 'd' f'{e}'\n"
    module = cst.parse_module(text)
    pairs = pair(module, ast.parse(text))
    names = {node.value for node in walk(module) if isinstance(node, cst.Name) and node in pairs}
    assert names >= {"a", "b", "c", "e"}


def test_other_trees_are_refused():
    for one, other in (
        ("f(a)", "f(a, b)"),
        ("x = 1", "x"),
        ("if a: b", "if a: b\nelse: c"),
        ("a and b", "a"),
        ("a; b", "a"),
    ):
        with pytest.raises(Unpaired):
            pair(cst.parse_module(one), ast.parse(other))
