"""The walk against LibCST's own visitor: same nodes, same order, on files that people wrote."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import libcst as cst
import pytest
from syntax.real_files import real_files

from devlint.syntax.walk import as_visitor, handlers, walk

_PUNCTUATION = (
    *(cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Newline, cst.Comment),
    *(cst.Comma, cst.Semicolon, cst.Colon, cst.Dot, cst.AssignEqual, cst.LeftParen, cst.RightParen),
    *(cst.LeftSquareBracket, cst.RightSquareBracket, cst.LeftCurlyBrace, cst.RightCurlyBrace),
)
"""What the walk leaves out."""


class _Recorder(cst.CSTVisitor):
    def __init__(self) -> None:
        self.nodes: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _PUNCTUATION):
            return False
        self.nodes.append(node)
        return True


def _recorded(module: cst.Module) -> list[cst.CSTNode]:
    recorder = _Recorder()
    module.visit(recorder)
    return recorder.nodes


def _modules(chunk: int) -> Iterator[tuple[str, cst.Module]]:
    for path in real_files(200, 9_000)[chunk::8]:
        try:
            yield str(path), cst.parse_module(path.read_bytes())
        except cst.ParserSyntaxError:
            continue


@pytest.mark.parametrize("chunk", range(8))
def test_on_real_files(chunk):
    for path, module in _modules(chunk):
        walked, recorded = list(walk(module)), _recorded(module)
        assert len(walked) == len(recorded), path
        assert all(a is b for a, b in zip(walked, recorded, strict=True)), path


EVERY_STATEMENT = """\
from __future__ import annotations
from .. import a as b, c
from d import *
import e.f as g, h

@dec.a(1)
@dec
async def function(p, /, q: int = 1, *r: str, s=2, t, **u) -> None:
    global v
    async with w as x, y: pass
    async for (z, *aa) in bb: continue
    else: break
    await (yield)
    return [cc async for cc in dd if ee if ff for gg in hh]

def one(*, only, after=1): nonlocal_ = lambda ii, *jj, kk=1, **ll: (ii, jj)
def two(*args, only): yield from args
class Klass(Base, metaclass=Meta, **rest):
    x: int
    y: "str" = 'a' f"b{c!r:>{d}}e" "f"
    def m(self): nonlocal z; raise E from None
x = y = a if b else c; del x, (y, z); assert a, b
x += -a ** ~b @ c // d << e | f & g ^ h
x = {1: 2, **a}, {1, *b}, [*c], {k: v for k, v in w}, {s for s in t}, (g for g in h)
x = a[1], a[1:2], a[::3], a[1:2, ...], a.b.c(d, *e, f=g, **h), (yield_ := 1), not a
x = a < b <= c is not d not in e in f is g != h, a and b or c, None, True, 1j, 1.5, b"x", rb'y'
for i in j: pass
else: pass
while k: break
else: pass
try: pass
except A as e: pass
except (B, C): pass
except: pass
else: pass
finally: pass
if a: pass
elif b: pass
else: pass
with (a as b, c): pass
match a, b:
    case [1, -1.5, "s", None, *rest] | (1 | 2) as c if d: pass
    case {"k": v, **others}: pass
    case A.B(x, y=z): pass
    case _: pass
print(a, end="")
"""
NEWER = {
    (3, 11): "try: pass\nexcept* A as b: pass\nx = a[1:2, ..., *b], a[*b]\n",
    (3, 12): "type A[T: int, *U, **V] = list[T]\ndef f[T](x: T): ...\nclass B[T]: ...\nx = f'{f'{a}'}'\n",
    (3, 13): "type A[T = int] = list[T]\n",
    (3, 14): "x = t'a{b}c'\n",
}


def _newest() -> str:
    return "".join(text for version, text in NEWER.items() if version <= sys.version_info)


def test_on_every_statement():
    text = EVERY_STATEMENT + _newest()
    ast.parse(text)
    module = cst.parse_module(text)
    assert [type(node).__name__ for node in walk(module)] == [type(node).__name__ for node in _recorded(module)]


_RARE = """
Asynchronous Await CompFor CompIf DictComp ExceptHandler FormattedStringExpression From Lambda MatchClass MatchMapping
MatchStar NamedExpr ParamSlash ParamStar Slice StarredDictElement StarredElement
"""


def test_the_statements_above_hold_rare_nodes():
    built = {type(node).__name__ for node in walk(cst.parse_module(EVERY_STATEMENT))}
    assert set(_RARE.split()) <= built


class _Rule:
    def __init__(self) -> None:
        self.met: list[tuple[str, str]] = []

    def visit_Call(self, node: cst.Call) -> bool:
        self.met.append(("call", type(node.func).__name__))
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.met.append(("name", node.value))


def test_a_rule_as_a_visitor_meets_the_same():
    module = cst.parse_module("f(g(h), i).j(k)\nimport l.m\n")
    ours, theirs = _Rule(), _Rule()
    table = handlers(ours)
    for node in walk(module):
        if type(node).__name__ in table:
            table[type(node).__name__](node)
    visitor = as_visitor(theirs)
    assert isinstance(visitor, cst.CSTVisitor)
    module.visit(visitor)
    # What a handler gives back means nothing: LibCST would leave out what is below the first call.
    assert ours.met == theirs.met
    assert [name for kind, name in ours.met if kind == "name"] == ["f", "g", "h", "i", "j", "k", "l", "m"]
