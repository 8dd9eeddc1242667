"""Files that no person writes, each in one dimension of size, and what devlint says of them.

Run as a program it checks them in a thread with a small stack, as an editor's or a test runner's threads have one, and
prints a line of JSON for each: its name, the codes found, and the CPU seconds it took. A crash ends the output early.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable

HEAD = """\
import torch


def f(x, d):
    x.unsqueeze(0)
    x.to(d)
    return x.to("cuda:0,1")


"""
"""Makes rules fire, so that no file is passed over."""
FIRED = ["DEV101", "DEV401"]

Make = Callable[[int], str]


def _nested(left: str, middle: str, right: str) -> Make:
    return lambda n: left * n + middle + right * n


def _blocks(header: str, tail: str = "") -> Make:
    """n blocks in each other, each with a tail behind it on its own level."""

    def make(n: int) -> str:
        opened = "".join(f"{' ' * level}{header}\n" for level in range(n)) + " " * n + "pass\n"
        return opened + ("".join(f"{' ' * level}{tail}\n" for level in reversed(range(n))) if tail else "")

    return make


DEEP: dict[str, Make] = {
    "lists": lambda n: "y = " + "[" * n + "]" * n,
    "tuples": _nested("(", "x", ",)"),
    "parentheses": _nested("(", "x", ")"),
    "sets": _nested("{", "x", "}"),
    "dicts": _nested("{1: ", "x", "}"),
    "starred": _nested("[*", "x", "]"),
    "calls in calls": _nested("f(", "x", ")"),
    "keywords": _nested("f(a=", "x", ")"),
    "double stars": _nested("f(**", "x", ")"),
    "subscripts in subscripts": _nested("a[", "x", "]"),
    "slices": _nested("a[1:", "x", "]"),
    "comprehensions": _nested("[", "x", " for x in y]"),
    "comprehended": _nested("[x for x in ", "y", "]"),
    "generators": _nested("(", "x", " for x in y)"),
    "dict comprehensions": _nested("{1: ", "x", " for x in y}"),
    "walrus": _nested("(y := ", "x", ")"),
    "awaits": lambda n: "async def g():\n    " + "(await " * n + "x" + ")" * n,
    "yields": lambda n: "def g():\n    " + "(yield " * n + "x" + ")" * n,
    "elif": lambda n: "if x: pass\n" + "elif y: pass\n" * n,
    "attributes": lambda n: "x" + ".a" * n,
    "called": lambda n: "x" + "()" * n,
    "methods": lambda n: "x" + ".a(y)" * n,
    "subscripts": lambda n: "x" + "[0]" * n,
    "mixed chain": lambda n: "x" + ".a(y)[0]" * n,
    "sums": lambda n: "x" + " + y" * n,
    "powers": lambda n: "x" + " ** y" * n,
    "bracketed sums": _nested("(y + ", "x", ")"),
    "nots": lambda n: "not " * n + "x",
    "minuses": lambda n: "-" * n + "x",
    "lambdas": lambda n: "lambda: " * n + "x",
    "lambda defaults": lambda n: "lambda y=" * n + "x" + ": 0" * n,
    "ternaries": lambda n: "x if y else " * n + "z",
    "and or": lambda n: "(x and (y or " * (n // 2) + "z" + "))" * (n // 2),
    "import": lambda n: "import a" + ".a" * n,
    "from": lambda n: "from a" + ".a" * n + " import b",
    "decorator": lambda n: "@a" + ".a(x)" * n + "\ndef g(): pass",
    "base class": lambda n: "class A(" + "f(" * n + "x" + ")" * n + "): pass",
    "annotation": lambda n: "y: " + "a[" * n + "x" + "]" * n,
    "default": lambda n: "def g(y=" + "[" * n + "x" + "]" * n + "): pass",
    "targets": lambda n: "[" * n + "x" + "]" * n + " = y",
    "loops in a comprehension": lambda n: "[x " + "for x in y " * n + "]",
    "f-strings": lambda n: "f'" + "{f'" * n + "x" + "'}" * n + "'",
    "formats": lambda n: "f'" + "{x:" * n + "}" * n + "'",
    "ifs": _blocks("if x:"),
    "loops": _blocks("for y in x:", "else: pass"),
    "tries": _blocks("try:", "except y: pass"),
    "withs": _blocks("with x as y:"),
    "functions": _blocks("def g():"),
    "classes": _blocks("class A:"),
    "list patterns": lambda n: "match x:\n    case " + "[" * n + "]" * n + ": pass",
    "tuple patterns": lambda n: "match x:\n    case " + "(" * n + "1" + ",)" * n + ": pass",
    "bracketed patterns": lambda n: "match x:\n    case " + "(" * n + "1" + ")" * n + ": pass",
    "dict patterns": lambda n: "match x:\n    case " + "{1: " * n + "1" + "}" * n + ": pass",
    "class patterns": lambda n: "match x:\n    case " + "A(b=" * n + "1" + ")" * n + ": pass",
    "or patterns": lambda n: "match x:\n    case " + "[(" * (n // 2) + "1" + ")|1]" * (n // 2) + ": pass",
    "deleted tuples": lambda n: "del " + "(" * n + "x" + ",)" * n,
    "deleted tuples in lists": lambda n: "del " + "[(" * (n // 2) + "x" + ",)]" * (n // 2),
}
"""Nested deeper with n."""

WIDE: dict[str, Make] = {
    "and": lambda n: "x" + " and y" * n,
    "or": lambda n: "x" + " or y" * n,
    "and or": lambda n: "x and y or " * n + "z",
    "comparisons": lambda n: "x" + " < y" * n,
    "joined strings": lambda n: "y = (" + "'a'\n" * n + ")",
    "joined f-strings": lambda n: "y = (" + "f'{x}'\n" * n + ")",
    "f-string": lambda n: "y = f'" + "{x}" * n + "'",
    "targets": lambda n: "y = " * n + "x",
    "ifs in a comprehension": lambda n: "[x for x in y " + "if x " * n + "]",
    "decorators": lambda n: "@x\n" * n + "def g(): pass",
    "arguments": lambda n: "f(" + "x, " * n + ")",
    "parameters": lambda n: "def g(" + ", ".join(f"a{i}" for i in range(n)) + "): pass",
    "elements": lambda n: "y = [" + "x, " * n + "]",
    "statements": lambda n: "x.a()\n" * n,
    "semicolons": lambda n: "x.a();" * n,
    "withs": lambda n: "with " + ", ".join(["x"] * n) + ": pass",
    "relative import": lambda n: "from " + "." * n + " import x",
    "imports": lambda n: "import " + ", ".join(f"a{i}" for i in range(n)),
    "patterns": lambda n: "match x:\n    case " + "|".join(["1"] * n) + ": pass",
    "cases": lambda n: "match x:\n" + "    case [A(b=1), _]: pass\n" * n,
    "handlers": lambda n: "try: pass\n" + "except x: pass\n" * n,
    "continued lines": lambda n: "y = \\\n" + "\\\n" * n + "x",
    "blank lines": lambda n: "y = (" + "\n" * n + "x)",
    "comments": lambda n: "y = (" + "# c\n" * n + "x)",
    "text": lambda n: "y = '" + "a" * n + "'",
    "deletions": lambda n: "del " + ", ".join(["x"] * n),
}
"""Longer with n, at no depth."""


def source(make: Make, n: int) -> bytes:
    return f"{HEAD}{make(n)}\n".encode()


def deepest(make: Make, most: int = 600) -> int:
    """The largest n that Python and the screen let through; found by halving."""
    from devlint import screen
    from devlint.source import decode_source

    def passes(n: int) -> bool:
        text = decode_source(source(make, n), "")
        try:
            screen.look(screen.parse(text.text), text)
        except (SyntaxError, screen.TooComplex):
            return False
        return True

    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def cases() -> Iterable[tuple[str, bytes]]:
    for name, make in DEEP.items():
        yield f"10,000 {name}", source(make, 10_000)
        most = deepest(make)
        yield f"deepest {name}", source(make, most)
        yield f"deeper {name}", source(make, most + 2)
    for name, make in WIDE.items():
        yield f"wide {name}", source(make, 3_000)
    yield "wide and (30,000)", source(WIDE["and"], 30_000)
    yield "wide joined strings (30,000)", source(WIDE["joined strings"], 30_000)
    yield "1,600 chained calls", source(DEEP["called"], 1_600)
    yield "1,600 chained subscripts", source(DEEP["subscripts"], 1_600)
    yield "1,000,000 attributes", source(DEEP["attributes"], 1_000_000)
    yield "1,000,000 sums", source(DEEP["sums"], 1_000_000)
    yield "40 deep statements", source(lambda n: ("x" + "[0]" * 300 + "\n") * n, 40)
    yield "valid for Python alone", f"{HEAD}(y): int = 1\n".encode()
    yield "50 MB", HEAD.encode() + b"x = 1\n" * (50_000_000 // 6)
    yield "NUL", HEAD.encode() + b"y = '\0'\n"
    yield "Python 2", HEAD.encode() + b"print 'torch'\n"
    yield "not UTF-8", HEAD.encode() + b"# \xff\n"
    yield "unknown encoding", b"# coding: torch\n" + HEAD.encode()
    yield "lone carriage returns", HEAD.replace("\n", "\r").encode()
    yield "form feeds", HEAD.replace("\n", "\n\f").encode()
    yield "100,000 digits", HEAD.encode() + b"y = " + b"1" * 100_000 + b"\n"


def main() -> None:
    from devlint.config import Config
    from devlint.engine import check_bytes

    files = list(cases())

    def run() -> None:
        for name, data in files:
            start = time.process_time()
            codes = [finding.code for finding in check_bytes(data, "hostile.py", Config()).findings]
            print(json.dumps([name, codes, time.process_time() - start]), flush=True)

    threading.stack_size(256 * 1024)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main()
