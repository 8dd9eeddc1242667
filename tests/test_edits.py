"""Applying fixes, and the proof that nothing else changed."""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work import calls_of

from devlint.edits import apply, prove, splice
from devlint.finding import Applicability, Edit, Fix


def fix(*edits):
    return Fix("Do it", tuple(Edit(*edit) for edit in edits), Applicability.SAFE)


# --- apply ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixes", "text", "done"),
    [
        ([], "abcdef", []),
        ([fix((0, 1, "X"))], "Xbcdef", [0]),
        ([fix((6, 6, "!"))], "abcdef!", [0]),
        ([fix((4, 5, "Y"), (1, 2, "X"))], "aXcdYf", [0]),
        ([fix((4, 5, "Y")), fix((1, 2, "X"))], "aXcdYf", [0, 1]),
        # Overlaps: the first in order wins, and the other is left out as a whole.
        ([fix((1, 4, "X")), fix((3, 5, "Y"), (0, 0, "Z"))], "aXef", [0]),
        ([fix((3, 5, "Y"), (0, 0, "Z")), fix((1, 4, "X"))], "ZabcYf", [0]),
        ([fix((1, 4, "X")), fix((2, 3, "Y"))], "aXef", [0]),
        ([fix((1, 4, "X")), fix((2, 2, "Y"))], "aXef", [0]),
        ([fix((1, 4, "X")), fix((1, 4, "Y"))], "aXef", [0]),
        # What is left out does not stand in the way of a third.
        ([fix((1, 3, "X")), fix((2, 5, "Y")), fix((4, 6, "Z"))], "aXdZ", [0, 2]),
        # Side by side is no overlap; an insertion at an end is, as its order would be a guess.
        ([fix((1, 3, "X")), fix((3, 5, "Y"))], "aXYf", [0, 1]),
        ([fix((1, 3, "X")), fix((3, 3, "Y"))], "aXdef", [0]),
        ([fix((3, 3, "Y")), fix((1, 3, "X"))], "abcYdef", [0]),
        ([fix((1, 1, "X")), fix((1, 1, "Y"))], "aXbcdef", [0]),
        # Within one fix the order is known.
        ([fix((1, 1, "X"), (1, 1, "Y"))], "aXYbcdef", [0]),
        ([fix((1, 3, "X"), (1, 1, "Y"), (3, 3, "Z"))], "aYXZdef", [0]),
        # Equal edits are one.
        ([fix((0, 0, "I"), (2, 3, "X")), fix((0, 0, "I"), (4, 5, "Y"))], "IabXdYf", [0, 1]),
        ([fix((0, 0, "I")), fix((0, 0, "I"))], "Iabcdef", [0, 1]),
        ([fix((2, 3, "X"), (2, 3, "X"))], "abXdef", [0]),
        # An equal edit does not carry a conflicting one with it.
        ([fix((0, 0, "I"), (2, 3, "X")), fix((0, 0, "I"), (2, 4, "Y"))], "IabXdef", [0]),
        # Nothing to change: not applied, so that the loop of passes ends.
        ([fix((1, 2, "b"))], "abcdef", []),
        ([fix((1, 1, ""))], "abcdef", []),
        ([fix()], "abcdef", []),
        ([fix((1, 2, "b")), fix((1, 2, "X"))], "aXcdef", [1]),
        ([fix((1, 2, ""), (2, 3, ""))], "adef", [0]),
    ],
)
def test_apply(fixes, text, done):
    new, edits, keys = apply("abcdef", enumerate(fixes))
    assert (new, list(keys)) == (text, done)
    assert splice("abcdef", edits) == text
    assert list(edits) == sorted(edits, key=lambda edit: (edit.start, edit.end))


@pytest.mark.parametrize(
    "edits", [[(1, 4, "X"), (3, 5, "Y")], [(1, 4, "X"), (2, 2, "Y")], [(-1, 2, "")], [(3, 2, "")], [(5, 7, "")]]
)
def test_a_fix_that_is_no_fix_is_an_error(edits):
    with pytest.raises(ValueError, match="'Do it' overlap or leave the text"):
        apply("abcdef", [(1, fix(*edits))])


EDITS = st.tuples(st.integers(0, 12), st.integers(0, 3), st.text("xyz", max_size=2))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.lists(EDITS, max_size=3), max_size=6))
def test_apply_is_all_or_nothing_and_changes_nothing_else(raw):
    text = "abcdefghijklmno"
    fixes = [fix(*((start, start + length, new) for start, length, new in edits)) for edits in raw]
    good = []
    for number, each in enumerate(fixes):
        try:
            apply(text, [(number, each)])
        except ValueError:
            continue
        good.append((number, each))
    new, edits, done = apply(text, good)
    # Each fix made is wholly among the edits, and each edit comes from one.
    made = [each for number, each in good if number in done]
    assert {edit for each in made for edit in each.edits} == set(edits)
    # A model of the text with a cell for each character and each gap between two.
    cells = [[character] for character in text]
    gaps = [[] for _ in range(len(text) + 1)]
    for edit in edits:
        for index in range(edit.start, edit.end):
            assert cells[index] == [text[index]], "two edits share a character"
            cells[index] = []
        (gaps if edit.start == edit.end else cells)[edit.start].append(edit.text)
    model = "".join("".join(gap + cell) for gap, cell in zip(gaps, [*cells, []], strict=True))
    assert new == model
    if good and any(text[e.start : e.end] != e.text for e in good[0][1].edits):
        assert done[0] == good[0][0], "the first always fits"


# --- prove ------------------------------------------------------------------------------------------------------------


def changed(marked):
    """The old text, the new one and the edits of a text with `<old|new>` at the edited places."""
    old, edits, position = "", [], 0
    for match in re.finditer(r"<([^<>|]*)\|([^<>|]*)>", marked):
        old += marked[position : match.start()]
        edits.append(Edit(len(old), len(old) + len(match[1]), match[2]))
        old += match[1]
        position = match.end()
    old += marked[position:]
    return old, splice(old, edits), edits


RIGHT = {
    "assignment": "<|x = >x.to(d)\n",
    "assignment in a body": "def f(x):\n    <|x = >x.to(d)\n    return x\n",
    "return": "def f(x):\n    <|return >x.to(d)\n",
    "call parentheses": "<|x = >x.cuda<|()>\n",
    "keyword": "y = torch.load(p<|, map_location='cpu'>)\n",
    "first keyword": "y = f(<|device=d>)\n",
    "keyword before another": "y = f(<|a=1, >device=d)\n",
    "keyword dropped": "y = f(a<, device=d|>)\n",
    "positional to keyword": "with <torch.cuda|torch>.autocast(<|'cuda', enabled=>flag, <|dtype=>t.half):\n    f(x)\n",
    "argument becomes a method": "x = from_numpy(a<, device=d|>)<|.to(d)>\n",
    "method becomes an argument": "p = nn.Parameter(t<|.to(d)>)<.to(d)|>\n",
    "method renamed": "x = a + b.<cuda()|to(d)> * c\n",
    "argument replaced by two": "f(<x|x, y>)\n",
    "operand replaced": "y = a * <b|(b + c)>\n",
    "operand wrapped": "y = a * <|(>b<| + c)>\n",
    "sum wrapped": "y = <|(>a + b<|).to(d)>\n",
    "string replaced": "x = f('<cuda:0,1|cuda:0>', y)\n",
    "string with line ends": "x = '''a\nb <c|d>\n'''\n",
    "one of two joined strings": "x = 'a' '<b|c>'\n",
    "comparison": "if d<|.type> == 'cuda' and x:\n    y\n",
    "string wrapped": "if d == <|torch.device(>'cuda:0'<|)>:\n    y\n",
    "import line added": "<|import q\n>import a\nx = 1\n",
    "import line dropped": "<import a\n|>import b\nx = 1\n",
    "import lines swapped": "<import a\n|>import b\n<|import c\n>x = 1\n",
    "alias dropped": "from torch.<cuda.amp|amp> import autocast<, GradScaler|>\n",
    "alias replaced by two": "from a import <b|b, c>\n",
    "a line comes before one that goes": "if x:\n    a\n<|    q\n>    b<|(1)>\n<    c\n|>    d\n",
    "one of two lines moves behind the other": "if x:\n<    a(b)\n|>    c\n<|    a(d)\n>    e\n",
    "a block and the line behind it move": "a\n<if x:\n    b\n\n|>if y:\n    c\n<|if x:\n    b\n>\nd\n",
    "line in a body": "def f():\n    a\n<|    q\n>    b\n",
    "only line of a body": "if x:\n    <pass|y = 1>\n",
    "branch": "if x:\n    a\n<|else:\n    q\n>b\n",
    "condition": "if <x|x and y>:\n    a\n    b\n",
    "statement to block": "<|if c: >x.to(d)\n",
    "header to another": "<if x|while y>:\n    a\n    b\n",
    "block around": "a\n<|with q:\n    >b\n<|    >c\nd\n",
    "block around, indented": "if x:\n<|    with q:\n    >    b\n<|    >    c\n    d\n",
    "value becomes target": "x<| = 1>\n",
    "decorator": "@f(<1|2>)\ndef g(x): return x\n",
    "decorator dropped": "<@f\n|>def g(x):\n    return x\n",
    "default": "def g(x, d=<0|None>, *, e=1):\n    return x\n",
    "parameter": "def g(x<|, d=None>):\n    return x\n",
    "base": "class A(<B|B, C>):\n    x = 1\n",
    "subscript": "x = a[<0|1>][i]\n",
    "dictionary": "x = {**a, 'k': <b|c>, 'l': d<|, 'm': e>}\n",
    "comprehension": "x = [t<|.to(d)> for t in batch if t]\n",
    "lambda": "f = lambda x: x<|.to(d)>\n",
    "lambda of a whole": "x = <|lambda: >a if b else c\n",
    # An insertion at the end of an operation and of its last operand may be meant for either.
    "last operand": "y = a + b<|.to(x)>\n",
    "operand of a sign": "y = -d<|.to(x)>\n",
    "first operand": "y = a<|.to(x)> + b\n",
    "operand of a test": "y = a if b<|.c> else d\n",
    "sum goes on": "y = a + b<| + c>\n",
    "test goes on": "if a == b<| or c == d>:\n    x\n",
    "line behind a block": "def f():\n    a\n    if x:\n        b  # c\n<|        q\n    r\n>d\n",
    "await": "async def f():\n    x = <|await >g()\n",
    "f-string": "x = <f'{a} b'|f'{a} c'> + y\n",
    "beside an f-string": "f'{x!r:>{w}}' + y.<cuda()|to(d)>\n".replace("<w", "w").replace(":>{", ":{"),
    "global": "def f():\n    global <a|b>, c\n    a\n",
    "star": "f(*a, <|k=1, >**b)\n",
    "walrus": "if (y := <x|z>):\n    pass\n",
    "comment": "x = 1  # <a|b>\ny = 2\n",
    "blank line": "x = 1\n<|\n>y = 2\n",
    "crlf": "x = 'é'\r\n<|x = >x.to(d)\r\ny = 1\r",
    "form feed": "x = 1\n\x0c\n<|x = >x.to(d)\n\x0cy = 2\n",
    "non-ascii": "x = 'é漢😀', y.<cuda()|to('é')>, 'é'\n",
    "no final newline": "x = 1\n<|x = >x.to(d)",
    "empty": "<|import a\n>",
    "all of it": "<x = 1\n|y = 2\n>",
    "match": "match x:\n    case <1|2>:\n        y\n    case A(b=c) if <d|e>:\n        z\n",
    "try": "try:\n    a\nexcept <A|B> as e:\n    b\nfinally:\n    c\n",
    "nothing": "x = 1\n",
    "semicolon": "x.to(d)<\n|; >y\n",
    "elif": "if a:\n    b\nelif <c|d>:\n    e\nelse:\n    f\n",
    "negative zero": "x = -0.0 + y.<cuda()|to(d)> + 1e400 * 1j\n",
    "old code that does not compile": "return x<|.to(d)>\n",
}


@pytest.mark.parametrize("marked", RIGHT.values(), ids=RIGHT)
def test_a_right_edit_is_proven(marked):
    old, new, edits = changed(marked)
    assert prove(old, new, edits) is None


WRONG = {
    "precedence of an operand": "y = a * <b|b + c>\n",
    "precedence of an inserted operand": "y = a<| + c> * b\n",
    "precedence before an attribute": "y = a<| + c>.b\n",
    "another sign": "y = a < <|b or >c\n",
    "swallowed operand": "y = f(a<| or q> and b)\n",
    "string swallows code": "f(<|'>a, b<|'>)\n",
    "string swallows lines": "x = <|'''>\na\nb = <|'''>1\n",
    "comment swallows a statement": "while x:\n    a\n    <|# >break\n    c\n",
    "comment swallows an import": "<|y = 1  # >import a\n",
    "comment swallows the last of a body": "if x:\n    y\n    <|z = 1 # >pass\n",
    "statement moves to a new block": "if x:\n    a\n<|if y:\n>    b\n    c\nd\n",
    "statement moves to another branch": "if x:\n    a\n<|else:\n>    b\n    c\nd\n",
    "statement moves behind a loop": "for x in y:\n    a\n<|else:\n    q\n>    b\n    c\n",
    "string ends early": "print('<cuda:0|cpu', 'q>', x)\n",
    "keyword twice": "y = torch.load(p<|, map_location='cpu'>, map_location=q)\n",
    "parameter twice": "def f(a<|, b>, b): pass\n",
    "return outside": "<|return >x.to(d)\n",
    "import before __future__": "<|import a\n>from __future__ import annotations\n",
    "not Python": "x = <1|1 +>\n",
    "unbalanced": "x = f(<a|a)>)\n",
    "bad indentation": "x = 1\n<| >y = 2\n",
    "tuple from operand": "x = <a|a, b> + c\n",
}


@pytest.mark.parametrize("marked", WRONG.values(), ids=WRONG)
def test_a_wrong_edit_is_refused(marked):
    old, new, edits = changed(marked)
    reason = prove(old, new, edits)
    assert reason is not None
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("new", "edits", "reason"),
    [
        ("x = 2\ny = 1\n", [], "a character outside of the edits changed"),
        ("x = 1\ny = 1", [], "a character outside of the edits changed"),
        ("x = 1\ny = 1\n\n", [], "a character outside of the edits changed"),
        ("x = 2\ny = 2\n", [Edit(4, 5, "2")], "a character outside of the edits changed"),
        ("x = 2\ny = 1\n", [Edit(4, 5, "3")], "an edit is not in the new text"),
        ("z = 2\ny = 1\n", [Edit(4, 5, "2")], "a character outside of the edits changed"),
        ("x = 2\ny = 1\n", [Edit(4, 5, "2"), Edit(4, 5, "2")], "the edits overlap or leave the text"),
        ("x = 2\ny = 1\n", [Edit(4, 99, "2")], "the edits overlap or leave the text"),
    ],
)
def test_a_text_that_is_not_the_old_one_with_the_edits_is_refused(new, edits, reason):
    assert prove("x = 1\ny = 1\n", new, edits) == reason


def test_a_line_end_that_changed_is_refused():
    assert (
        prove("x = 1\r\ny = 1\r\n", "x = 2\ny = 1\r\n", [Edit(4, 5, "2")]) == "a character outside of the edits changed"
    )


def test_the_reason_says_where_it_does_not_parse_or_compile():
    assert (
        prove("a\nb\n", "a\nb +\n", [Edit(3, 3, " +")]) == "the new text is not valid Python: invalid syntax (line 2)"
    )
    assert prove("a\nb +\n", "a\nb + c\n", [Edit(5, 5, " c")]).startswith("the old text is not valid Python")
    repeated = prove("a\nf(b=1)\n", "a\nf(b=2, b=1)\n", [Edit(4, 4, "b=2, ")])
    assert repeated == "the new text does not compile: keyword argument repeated: b (line 2)"
    assert "line 3" in prove("a\n\nb * c\n", "a\n\nb * c + d\n", [Edit(7, 8, "c + d")])


def test_warnings_are_not_shown(recwarn):
    old, new, edits = changed("x = '\\d' + y.<cuda()|to(d)>\nassert (x, 'y')\n1 is 1\n")
    assert prove(old, new, edits) is None
    assert not recwarn.list


DEEP = {
    "elif": "if a0:\n    x.<cuda()|to(d)>\n" + "".join(f"elif a{i}:\n    b\n" for i in range(500)),
    "elif, deep": "if a:\n    b\n" + "elif a:\n    b\n" * 500 + "else:\n    x.<cuda()|to(d)>\n",
    "attributes": "x" + ".a" * 499 + ".<cuda()|to(d)>\n",
    "attributes, deep": "x<|.to(d)>" + ".a" * 500 + "\n",
    "sum": " + ".join(["a"] * 500) + " + x.<cuda()|to(d)>\n",
    "sum, deep": "x.<cuda()|to(d)> + " + " + ".join(["a"] * 500) + "\n",
    "calls": "x.<cuda()|to(d)>" + "(1)" * 500 + "\n",
    "untouched": "x.<cuda()|to(d)>\n" + "y" + ".a" * 500 + "\n",
    "brackets": "[" * 90 + "x.<cuda()|to(d)>" + "]" * 90 + "\n",
    "signs": "not " * 500 + "x.<cuda()|to(d)>\n",
}


@pytest.mark.parametrize("marked", DEEP.values(), ids=DEEP)
def test_depth_ends_no_proof(marked):
    old, new, edits = changed(marked)
    assert prove(old, new, edits) is None
    old, new, edits = changed(
        marked.replace("<cuda()|to(d)>", "<cuda()|cuda() + q> * 2").replace("<|.to(d)>", "<| * 2>")
    )
    assert prove(old, new, edits) is not None


# --- real files -------------------------------------------------------------------------------------------------------

LIBRARY = Path(sysconfig.get_path("stdlib"))
REAL = ("argparse", "ast", "dataclasses", "enum", "functools", "pprint", "shutil", "statistics", "textwrap", "typing")


def expressions(text):
    """Expressions that are read, that can stand in a call, with the offsets of their text."""
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    outside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.pattern):
            outside.update(ast.walk(node))
        elif isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elts):
            outside.add(node)
    for node in ast.walk(tree):
        wrong = (ast.GeneratorExp, ast.Starred, ast.Slice)
        if isinstance(node, ast.expr) and node not in outside and not isinstance(node, wrong):
            if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                continue
            start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            yield node, start, end


@pytest.mark.parametrize("name", REAL)
def test_wrapping_an_expression_of_a_real_file_is_proven_and_all_else_is_not(name):
    text = (LIBRARY / f"{name}.py").read_text(encoding="utf-8")
    if not text.isascii():
        text = text.encode("ascii", "replace").decode()
    chance = random.Random(name)
    found = list(expressions(text))
    for _, start, end in chance.sample(found, 6):
        edits = [Edit(start, start, "wrapped("), Edit(end, end, ")")]
        new = splice(text, edits)
        assert prove(text, new, edits) is None, text[start:end]
        # The same text is no longer what was fixed when a name elsewhere changes with it.
        _, other, _ = chance.choice(
            [each for each in found if isinstance(each[0], ast.Name) and not start <= each[1] <= end]
        )
        assert prove(text, splice(text, sorted([*edits, Edit(other, other, "x")], key=lambda e: e.start)), edits)
    factors = [node for node, *_ in found if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Mod)]
    places = {id(node): place for node, *place in found}
    for node in factors[:3]:
        if id(node.right) in places and isinstance(node.right, ast.Name):
            start, end = places[id(node.right)]
            edits = [Edit(start, end, f"{text[start:end]} + 1")]
            assert prove(text, splice(text, edits), edits) is not None


def test_the_proof_of_many_fixes_grows_with_the_file():
    def work(count):
        text = "def f(x, d):\n    y = x.cuda() * 2\n    return [y, {'a': d}]\n\n\n" * count
        fixes = [(n, fix((m.start(), m.end(), "to(d)"))) for n, m in enumerate(re.finditer(r"cuda\(\)", text))]
        new, edits, done = apply(text, fixes)
        assert new == text.replace("cuda()", "to(d)")
        assert len(done) == count
        return calls_of(lambda: prove(text, new, edits))

    assert work(400) < 1.5 * 4 * work(100)
