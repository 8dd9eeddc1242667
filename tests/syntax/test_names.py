"""Qualified names against LibCST's QualifiedNameProvider, on files that people wrote and on the rules of scopes."""

from __future__ import annotations

import ast

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, QualifiedNameProvider, QualifiedNameSource
from syntax.real_files import real_files

from devlint.syntax.names import Names
from devlint.syntax.pairing import pair


def _is_chain(node: ast.AST) -> bool:
    """A name, or attributes of one; LibCST also follows what calls and subscripts give."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_bound_too(names: Names, node: ast.AST) -> bool:
    """Whether the scope that imports a name assigns to it as well."""
    while isinstance(node, ast.Attribute):
        node = node.value
    assert isinstance(node, ast.Name)
    scope = names.homes[node].defining(node.id)
    return scope is not None and node.id in scope.imports and node.id in scope.bound


def _compared(text: str) -> tuple[int, list[str]]:
    """How many imported names there were, and where the two differ."""
    tree, module = ast.parse(text), cst.parse_module(text)
    theirs = MetadataWrapper(module, unsafe_skip_copy=True).resolve(QualifiedNameProvider)
    names = Names(tree)
    count, different = 0, []
    for node, other in pair(module, tree).items():
        if not isinstance(other, ast.Name | ast.Attribute) or not _is_chain(other):
            continue
        found = theirs.get(node)
        found = found() if callable(found) else found
        if not found:  # it gives no scope to a bare name that is an argument, an index or a base class
            continue
        wanted = frozenset(name.name for name in found)
        imported = all(name.source is QualifiedNameSource.IMPORT for name in found)
        ours = names.qualified(other)
        if imported and not ours and _is_bound_too(names, other):
            continue  # `__version__ = __version__` of an imported name: which one is meant depends on the flow
        count += imported
        if (imported or ours) and ours != wanted:
            different.append(f"{other.lineno}: {ast.unparse(other)}: {set(ours)} for {set(wanted)}")
    return count, different


@pytest.mark.parametrize("chunk", range(4))
def test_on_real_files(chunk):
    total = 0
    for path in real_files(200, 9_000)[chunk::8]:  # the provider costs eight parses of a file: half of them is enough
        try:
            text = path.read_text(encoding="utf-8")
            count, different = _compared(text)
        except (SyntaxError, UnicodeDecodeError, cst.ParserSyntaxError):
            continue
        assert different == [], path
        total += count
    assert total > 200


SCOPES = {
    "import a.b": {"a.b.c": "a.b.c", "a.d": "a.d"},
    "import a.b as x": {"x.c": "a.b.c", "a": None},
    "import a, c as d": {"a.x": "a.x", "d.x": "c.x"},
    "from a.b import c as d, e": {"d.f": "a.b.c.f", "e": "a.b.e", "c": None},
    "from . import a": {"a.b": ".a.b"},
    "from ..x import a": {"a": "..x.a"},
    "from a import *": {"b": None},
    "import a\na = 1": {"a": None},
    "import a\nfor a in b: pass": {"a": None},
    "import a\ndef f(x=a): global a": {"a": None},
    "import a\nif (a := 1): pass": {"a": None},
    "import a\nwith b as a: pass": {"a": None},
    "import a\ntry: pass\nexcept E as a: pass": {"a": None},
    "import a\nclass a: pass": {"a": None},
    "import a\n[a for a in b]": {"a": "a"},
    "import a\n[(a := 1) for x in b]": {"a": None},
    "import a\nlambda a: 0": {"a": "a"},
    "import a\ndel a": {"a": "a"},
    "import a\na = 1\ndel a": {"a": None},
    "import a\nmatch b:\n    case [*a]: pass": {"a": None},
    "import a\nmatch b:\n    case {**a}: pass": {"a": None},
    "import a\nmatch b:\n    case C(a): pass": {"a": None},
}


@pytest.mark.parametrize("text", SCOPES)
def test_module_scope(text):
    for name, wanted in SCOPES[text].items():
        tree = ast.parse(f"{text}\n{name}\n")
        last = tree.body[-1]
        assert isinstance(last, ast.Expr)
        assert Names(tree).name_of(last.value) == wanted


def _last_call(text: str) -> str | None:
    """What the callee of the last call named `probe.it(...)`, or the argument of `probe`, stands for."""
    tree = ast.parse(text)
    (call,) = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "probe")
    return Names(tree).name_of(call.args[0])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import a\ndef f(): probe(a.b)", "a.b"),
        ("import a\ndef f(a): probe(a.b)", None),
        ("import a\ndef f():\n    probe(a.b)\n    a = 1", None),
        ("import a\nclass A:\n    a = 1\n    def f(self): probe(a.b)", "a.b"),
        ("import a\nclass A:\n    a = 1\n    probe(a.b)", None),
        ("import a\ndef f():\n    def g(): probe(a)\n    a = 1", None),
        ("import a\ndef f():\n    import c as a\n    probe(a)", "c"),
        ("import a\ndef f():\n    a = 1\n    def g():\n        global a\n        probe(a)", None),
        ("import a\nglobal a\nprobe(a)", None),
        ("import a\ndef f():\n    probe(a)\nif b: global a", None),
        ("import a\nglobal b\nprobe(a)", "a"),
        ("import a\ndef f(x=probe(a)): a = 1", "a"),
        ("import a\ndef f(a: probe(a)): pass", "a"),
        ("import a\n@probe(a)\ndef f(): a = 1", "a"),
        ("import a\n[x for a in probe(a)]", "a"),
        ("import a\n[probe(a) for a in b]", None),
        ("import a\n[x for x in b for a in c if probe(a)]", None),
        ("import a\nlambda a: probe(a)", None),
        ("import a\nlambda x=probe(a): a", "a"),
        ("import a\nclass A(probe(a)): a = 1", "a"),
        ("import a\nclass A:\n    a = 1\n    x = [probe(a) for y in z]", "a"),
        ("def f():\n    import a\n    def g(): probe(a.b)", "a.b"),
        ("def f():\n    import a\nprobe(a)", None),
        ("import a\ndef f():\n    for i in x: a = 2\n    probe(a)", None),
        ("try: import a\nexcept E: import b as a\nprobe(a)", None),
        ("import a\ndef f():\n    nonlocal_ = 1\n    def g():\n        nonlocal nonlocal_\n        probe(a)", "a"),
    ],
)
def test_scopes(text, wanted):
    assert _last_call(text) == wanted


def test_two_imports_of_one_name_are_both_known():
    tree = ast.parse("try:\n    import a\nexcept E:\n    import b as a\na.c")
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert Names(tree).qualified(last.value) == {"a.c", "b.c"}
    assert Names(tree).name_of(last.value) is None


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("make = torch.zeros\nmake(3)", True),
        ("make = torch.zeros if x else torch.ones\nmake(3)", True),
        ("make, n = torch.zeros, 3\nmake(3)", True),
        ("for make in (torch.zeros, torch.ones): make(3)", True),
        ("make = partial(torch.zeros, 3)\nmake()", True),
        ("class A:\n    def __init__(self): self.make = torch.zeros\n    def f(self): self.make(3)", True),
        ("make = build()\nmake(3)", False),
        ("make = 3\nmake(3)", False),
        ("def make(n): ...\nmake(3)", False),
        ("def f(make): make(3)", False),
        ("class A:\n    def f(self): self.make(3)", False),
        ("print(3)", False),
    ],
)
def test_variables_that_may_stand_for_an_imported_name(lines: str, wanted: bool) -> None:
    tree = ast.parse(f"import torch\nfrom functools import partial\n{lines}")
    names = Names(tree)
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)][-1]
    assert names.may_rename(called) is wanted
