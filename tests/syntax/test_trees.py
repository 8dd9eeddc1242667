"""Walks over `ast`: the same nodes as the standard library's, but for operators and contexts."""

from __future__ import annotations

import ast

import pytest
from syntax.real_files import real_files

from devlint.syntax.names import Names
from devlint.syntax.trees import children, walk

_LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.TypeIgnore)
EACH_KIND = """
import a.b as c
from .d import e as f, g
type_ = {**h, "i": j}
def k(l, /, m: n = o, *p, q=r, **s) -> t: return lambda u, *v, w=x: (yield y)
async def z():
    async with aa as (bb, cc): await dd
    async for ee in ff: yield from gg
    return [hh async for hh in ii if jj]
@kk
class ll(mm, metaclass=nn): oo: pp = qq
match rr:
    case None | [1, *ss] | {"tt": uu, **vv} | ww(xx, yy=zz): pass
try: assert ab, ac
except* ad as ae: raise af from ag
else: del ah[ai:aj:ak], al.am
finally: global an
an = f"{ao!r:{ap}}" if (aq := ar) and not as_ < at <= au else {av: aw for av in ax}
while ay: az += ba @ bb; continue
for bc, *bd in be: break
"""


if not hasattr(ast, "TryStar"):
    EACH_KIND = EACH_KIND.replace("except*", "except")


@pytest.fixture(params=["each kind", *real_files(30, 40_000)], ids=str)
def tree(request: pytest.FixtureRequest) -> ast.Module:
    return ast.parse(EACH_KIND if request.param == "each kind" else request.param.read_bytes())


def test_children_are_those_of_the_standard_library(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, _LEFT_OUT):
            wanted = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _LEFT_OUT)]
            assert children(node) == wanted, ast.dump(node)


def test_parents_lead_from_each_node_to_the_module(tree: ast.Module) -> None:
    assert Names(tree).parents == {child: node for node in walk(tree) for child in children(node)}
