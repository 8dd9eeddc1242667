"""One file through all the steps: rules that fail, fixes that fail, the fix loop, bytes that stay as they are."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs

from devlint import checks, engine
from devlint.checks.base import Rule
from devlint.config import Config
from devlint.engine import check_bytes, check_text, fix_bytes
from devlint.finding import Applicability, Edit, Finding, Fix, Group, RuleInfo
from devlint.placement.infer import Inference
from devlint.screen import Mentions, Seen
from devlint.source import Source
from devlint.syntax.parse import RECURSION, on_large_stack

TEXT = """\
import torch


def f(x, d):
    x.unsqueeze(0)
    x.to(d)
    return x
"""
FIXED = TEXT.replace("    x.to(d)", "    x = x.to(d)")
UNSAFE = Config(unsafe_fixes=True)


def _codes(text: str, config: Config | None = None) -> list[str]:
    return [finding.code for finding in check_text(Source("x.py", text), config or Config()).findings]


# --- rules that fail --------------------------------------------------------------------------------------------------

Plant = Callable[..., type[Rule]]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Add a rule to the built ones; its class is made from the methods given."""
    built = dict(checks.rules())
    monkeypatch.setattr(checks, "rules", lambda: dict(sorted(built.items())))

    def add(code: str = "DEV190", **methods: object) -> type[Rule]:
        info = RuleInfo(code, "planted-rule", (Group.BUG,), "planted by a test")
        members = {"info": info, "screen": (Mentions(frozenset({"torch"})),), **methods}
        rule = type("Planted", (Rule,), members)
        built[code] = rule
        return rule

    return add


def _raise(error: BaseException) -> Callable[..., None]:
    def method(*_: object) -> None:
        raise error

    return method


class _Sign:
    def holds(self, seen: Seen) -> bool:
        raise KeyError("sign")


@pytest.mark.parametrize("where", ["__init__", "suspects", "visit_Call", "visit_Module"])
@pytest.mark.parametrize(
    "error", [ValueError("what\nhappened"), RecursionError("deep"), MemoryError(), AssertionError(), StopIteration()]
)
def test_a_rule_that_raises_is_named_and_the_others_go_on(plant, where, error):
    plant(**{where: _raise(error)})
    found = check_text(Source("some/file.py", TEXT), Config()).findings
    assert [f.code for f in found] == ["DEV999", "DEV101"] or [f.code for f in found] == ["DEV101", "DEV999"]
    (crash,) = (f for f in found if f.code == "DEV999")
    assert "planted-rule (DEV190) crashed" in crash.message
    assert type(error).__name__ in crash.message
    assert "\n" not in crash.message
    assert crash.path == "some/file.py"


def test_two_rules_that_raise_are_both_named(plant):
    plant("DEV190", suspects=_raise(ValueError()))
    plant("DEV191", suspects=_raise(ValueError()))
    found = check_text(Source("x.py", TEXT), Config()).findings
    assert [f.code for f in found] == ["DEV999", "DEV999", "DEV101"]
    assert {"DEV190", "DEV191"} == {word for f in found for word in ("DEV190", "DEV191") if word in f.message}


def test_a_sign_that_raises_is_a_crash_of_its_rule(plant):
    plant(screen=(_Sign(),))
    found = check_text(Source("x.py", TEXT), Config()).findings
    assert sorted(f.code for f in found) == ["DEV101", "DEV999"]


def test_a_crash_is_placed_at_the_node(plant):
    plant(visit_Return=_raise(ValueError()))
    found = check_text(Source("x.py", TEXT), Config()).findings
    assert [(f.code, f.start.row) for f in found] == [("DEV101", 6), ("DEV999", 7)]


def test_a_crashed_rule_keeps_what_it_found_before(plant):
    def visit_call(self: Rule, node: object) -> None:
        self.report((0, 6), "found")
        raise ValueError

    plant(visit_Call=visit_call)
    assert sorted(_codes(TEXT)) == ["DEV101", "DEV190", "DEV999"]


def test_a_rule_that_is_off_does_not_run(plant):
    plant(__init__=_raise(ValueError()))
    assert _codes(TEXT, Config(ignore=("DEV190",))) == ["DEV101"]


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("maximum recursion depth exceeded")])
@pytest.mark.parametrize("name", ["__init__", "value", "run"])
def test_an_inference_without_room_is_said(monkeypatch, error, name):
    monkeypatch.setattr(Inference, name, _raise(error))
    found = check_bytes(TEXT.encode(), "x.py", Config()).findings
    assert found and {f.code for f in found} <= {"DEV902", "DEV999"}
    assert all(type(error).__name__ in f.message for f in found)


def test_an_interrupt_ends_the_run(plant):
    plant(visit_Call=_raise(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        check_text(Source("x.py", TEXT), Config())


# --- the large stack --------------------------------------------------------------------------------------------------


def test_the_limits_of_the_process_are_set_back():
    limit, size = sys.getrecursionlimit(), threading.stack_size()
    assert _codes(TEXT) == ["DEV101"]
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit, size)


def test_the_recursion_limit_is_raised_while_rules_run(plant):
    limits = []
    plant(suspects=lambda self: limits.append(sys.getrecursionlimit()))
    _codes(TEXT)
    assert limits == [RECURSION]


def test_many_threads_at_once():
    limit = sys.getrecursionlimit()
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(_codes(TEXT))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [["DEV101"]] * 8
    assert sys.getrecursionlimit() == limit


def test_results_and_errors_come_from_the_large_stack():
    assert on_large_stack(lambda: threading.current_thread().name) == "devlint"
    with pytest.raises(ZeroDivisionError):
        on_large_stack(lambda: 1 // 0)


# --- the fix loop -----------------------------------------------------------------------------------------------------


def test_a_fix():
    result = fix_bytes(TEXT.encode(), "x.py", UNSAFE)
    assert result.data.decode() == FIXED
    assert result.old == TEXT.encode()
    assert [f.code for f in result.fixed] == ["DEV101"]
    assert result.report.findings == ()


def test_unsafe_fixes_are_made_when_asked_for():
    result = fix_bytes(TEXT.encode(), "x.py", Config())
    assert (result.data, result.fixed) == (TEXT.encode(), ())
    assert [f.code for f in result.report.findings] == ["DEV101"]


def test_a_file_without_torch_is_left_alone():
    result = fix_bytes(b"x.to(d)\n", "x.py", UNSAFE)
    assert (result.data, result.report.findings) == (b"x.to(d)\n", ())


ENCODED = {
    "CRLF": TEXT.replace("\n", "\r\n").encode(),
    "lone CR": TEXT.replace("\n", "\r").encode(),
    "mixed line ends": TEXT.replace("\n\n\n", "\r\n\r\n").replace("x\n", "x\r").encode(),
    "no final line end": TEXT.rstrip("\n").encode(),
    "BOM": b"\xef\xbb\xbf" + TEXT.encode(),
    "BOM and CRLF": b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n# \xe9\xff\n" + TEXT.replace("(0)", "(0)  # \xfc").encode("latin-1"),
    "cp1252": b"# coding: cp1252\n# \x80\n" + TEXT.encode(),
    "utf-8": ("# \u00e9 \U0001f525\n" + TEXT.replace("    x.to(d)", "    '\u00e9\U0001f525'; x.to(d)")).encode(),
    "form feeds": TEXT.replace("\n\n\n", "\n\f\n\f")
    .replace("return", "\f    return", 1)
    .replace("    \f", "\f")
    .encode(),
    "tabs": TEXT.replace("    ", "\t").encode(),
    "trailing white space": TEXT.replace("\n", " \t\n").encode(),
    "backslash": TEXT.replace("x.to(d)", "x.to( \\\n  d)").encode(),
    "semicolons": TEXT.replace("    x.to(d)", "    y = 1;  x.to(d) ; z = 2").encode(),
    "one line": b"import torch\ndef f(x, d): x.unsqueeze(0); x.to(d); return x\n",
}


@pytest.mark.parametrize("name", ENCODED)
def test_every_other_byte_stays(name):
    data = ENCODED[name]
    ast.parse(data)
    result = fix_bytes(data, "x.py", UNSAFE)
    assert result.data == data.replace(b"x.to(", b"x = x.to(")
    compile(result.data, "x.py", "exec")
    again = fix_bytes(result.data, "x.py", UNSAFE)
    assert (again.data, again.fixed) == (result.data, ())


@given(
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    indent=st.sampled_from(["    ", "\t", "  ", "\t  "]),
    text=st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20),
    bom=st.booleans(),
    final=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_other_byte_stays_in_any_layout(line_end, indent, text, bom, final):
    lines = [f"# {text}", "import torch", "def f(x, d):", f"{indent}{text!r}", f"{indent}x.unsqueeze(0)"]
    lines += [f"{indent}x.to(d)  # {text}", f"{indent}return x"]
    body = line_end.join(lines) + (line_end if final else "")
    data = (b"\xef\xbb\xbf" if bom else b"") + body.encode()
    try:
        ast.parse(data)
    except SyntaxError:
        return
    result = fix_bytes(data, "x.py", UNSAFE)
    head, tail = data.rsplit(b"x.to(d)", 1)
    # What the comment says can silence the finding, or name an encoding.
    assert result.data in (head + b"x = x.to(d)" + tail, data)
    assert result.data != data or "noqa" in body.lower() or "coding" in body


@pytest.mark.parametrize("name", programs())
def test_fixes_of_all_rules_settle(name):
    config = Config(select=("ALL",), unsafe_fixes=True)
    data = programs()[name].encode()
    result = fix_bytes(data, name, config)
    assert [f for f in result.report.findings if f.code.startswith("DEV9")] == []
    compile(result.data, name, "exec", dont_inherit=True)
    again = fix_bytes(result.data, name, config)
    assert (again.data, again.fixed) == (result.data, ())
    assert again.report.findings == result.report.findings
    applicable = (Applicability.SAFE, Applicability.UNSAFE)
    assert not [f for f in result.report.findings if f.fix is not None and f.fix.applicability in applicable]


# --- fixes that fail --------------------------------------------------------------------------------------------------


def _fixing(*edits: Edit, title: str = "Break it") -> Callable[[Rule, object], None]:
    def visit(self: Rule, node: object) -> None:
        self.report((0, 6), "planted", fix=Fix(title, edits, Applicability.SAFE))

    return visit


BROKEN = {
    "no longer Python": Edit(0, 6, "import import"),
    "a statement lost": Edit(TEXT.index("    x.unsq"), TEXT.index("    x.to"), ""),
    "a statement joins another": Edit(TEXT.index("    x.to"), TEXT.index("x.to"), "  "),
    "out of the text": Edit(0, len(TEXT) + 5, ""),
    "backwards": Edit(9, 3, ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_fix_that_cannot_be_proven_is_not_written(plant, name):
    plant(visit_Module=_fixing(BROKEN[name]))
    result = fix_bytes(TEXT.encode(), "x.py", UNSAFE)
    assert result.data == TEXT.encode()
    assert result.fixed == ()
    assert sorted(f.code for f in result.report.findings) == ["DEV101", "DEV190", "DEV903"]
    (said,) = (f for f in result.report.findings if f.code == "DEV903")
    assert "DEV190" in said.message and "'Break it'" in said.message


def test_a_fix_that_the_encoding_cannot_hold_is_not_written(plant):
    head = "# coding: latin-1\n"
    plant(visit_Module=_fixing(Edit(len(head), len(head), "# \N{FIRE}\n")))
    data = (head + TEXT).encode("latin-1")
    result = fix_bytes(data, "x.py", Config())
    assert result.data == data
    assert [f.code for f in result.report.findings if f.code.startswith("DEV9")] == ["DEV903"]


def test_a_keyword_given_twice_is_no_proof(plant):
    text = "import torch\ny = f(device=1)\n"
    plant(visit_Module=_fixing(Edit(text.index(")"), text.index(")"), ", device=2")))
    result = fix_bytes(text.encode(), "x.py", Config())
    assert result.data == text.encode()
    assert "DEV903" in [f.code for f in result.report.findings]


def test_fixes_that_undo_each_other_are_not_written(plant):
    def visit(self: Rule, node: object) -> None:
        text = self.context.source.text
        other = {"1": "2", "2": "1"}[text[-2]]
        edit = Edit(len(text) - 2, len(text) - 1, other)
        self.report((0, 6), "planted", fix=Fix("Turn it", (edit,), Applicability.SAFE))

    plant(visit_Module=visit)
    data = b"import torch\ny = 1\n"
    result = fix_bytes(data, "x.py", Config())
    assert result.data == data
    assert [f.code for f in result.report.findings] == ["DEV190", "DEV903"]
    assert "DEV190 do not come to an end" in result.report.findings[1].message


def test_a_fix_that_changes_nothing_ends_the_loop(plant):
    plant(visit_Module=_fixing(Edit(0, 6, "import")))
    result = fix_bytes(b"import torch\n", "x.py", Config())
    assert (result.data, result.fixed) == (b"import torch\n", ())
    assert [f.code for f in result.report.findings] == ["DEV190"]


def test_a_suggestion_is_never_made(plant):
    def visit(self: Rule, node: object) -> None:
        self.report((0, 6), "planted", fix=Fix("Try it", (Edit(0, 0, "import os\n"),), Applicability.SUGGESTION))

    plant(visit_Module=visit)
    assert fix_bytes(b"import torch\n", "x.py", UNSAFE).data == b"import torch\n"


def test_what_a_fix_brings_to_light_is_fixed_in_the_same_run(plant):
    def visit(self: Rule, node: object) -> None:
        text = self.context.source.text
        if "level = 3" not in text:
            at = text.index("level = ") + 8
            edit = Edit(at, at + 1, str(int(text[at]) + 1))
            self.report((at, at + 1), "planted", fix=Fix("Raise it", (edit,), Applicability.SAFE))

    plant(visit_Module=visit)
    result = fix_bytes(b"import torch\nlevel = 0\n", "x.py", Config())
    assert result.data == b"import torch\nlevel = 3\n"
    assert len(result.fixed) == 3
    assert result.report.findings == ()


# --- what is asked of one file ----------------------------------------------------------------------------------------


def test_findings_are_sorted_and_said_once(plant):
    def visit(self: Rule, node: object) -> None:
        for start in (20, 0, 20):
            self.report((start, start + 1), f"at {start}")

    plant(visit_Module=visit)
    found = [f for f in check_text(Source("x.py", TEXT), Config()).findings if f.code == "DEV190"]
    assert [f.message for f in found] == ["at 0", "at 20"]


def test_noqa_can_be_left_to_flake8():
    text = TEXT.replace("x.to(d)", "x.to(d)  # noqa: DEV101")
    assert _codes(text) == []
    assert [f.code for f in check_text(Source("x.py", text), Config(), noqa=False).findings] == ["DEV101"]


def test_the_tree_of_the_caller_is_used(monkeypatch):
    tree = ast.parse(TEXT)
    monkeypatch.setattr(engine.screen, "parse", _raise(AssertionError("parsed again")))
    assert [f.code for f in check_text(Source("x.py", TEXT), Config(), tree).findings] == ["DEV101"]


def test_a_text_over_the_limit_of_size():
    (found,) = check_text(Source("x.py", "import torch\n" + "#" * 4_000_001), Config()).findings
    assert (found.code, found.message) == ("DEV902", "larger than 4,000,000 bytes, not checked")


def _all(findings: tuple[Finding, ...]) -> Iterator[tuple[str, int, str]]:
    return ((f.code, f.start.row, f.message) for f in findings)


def test_the_same_findings_at_each_run():
    config = Config(select=("ALL",))
    for name, text in list(programs().items())[::7]:
        first = list(_all(check_text(Source(name, text), config).findings))
        assert first == list(_all(check_text(Source(name, text), config).findings))
