"""The rule book, executed: what each page says is what its rule does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from programs import programs
from support import CHECKOUT
from syntax.real_files import real_files

from devlint import engine
from devlint.checks import rules
from devlint.config import Config
from devlint.engine import check_text, fix_bytes
from devlint.finding import Applicability, Finding
from devlint.rulebook import Block, Page, pages
from devlint.source import Source
from devlint.syntax.walk import as_visitor

PAGES = {page.code: page for page in pages()}
_WANTED = re.compile(r"#.*\bDEV\d{3}\b")


def _config(code: str) -> Config:
    """What a user has who also switched this rule on."""
    return Config(extend_select=(code,), unsafe_fixes=True)


def _findings(text: str, code: str) -> tuple[Finding, ...]:
    return check_text(Source("page.py", text), _config(code)).findings


def _found(text: str, code: str) -> list[tuple[int, str]]:
    return sorted((finding.start.row, finding.code) for finding in _findings(text, code))


def _wanted(text: str) -> list[tuple[int, str]]:
    """Row and code of each `# DEVnnn` comment."""
    return sorted(
        (row, code)
        for row, line in enumerate(text.splitlines(), 1)
        if (comment := _WANTED.search(line)) is not None
        for code in re.findall(r"DEV\d{3}", comment[0])
    )


def _blocks(kind: str) -> Iterator[tuple[Page, Block]]:
    return ((page, block) for page in PAGES.values() for block in page.blocks if block.kind == kind)


def _pairs() -> Iterator[tuple[Page, Block, Block | None]]:
    """Each bad block with the fixed one that follows it before the next bad one, None where there is none."""
    for page in PAGES.values():
        blocks = [block for block in page.blocks if block.kind in ("bad", "fixed")]
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if block.kind == "bad":
                yield page, block, after if after is not None and after.kind == "fixed" else None


def _each(found: Iterator[tuple]) -> pytest.MarkDecorator:
    values = list(found)
    return pytest.mark.parametrize("value", values, ids=[f"{page.code}:{block.row}" for page, block, *_ in values])


def test_every_rule_has_a_page_and_every_page_a_rule():
    assert list(PAGES) == list(rules())
    for code, rule in rules().items():
        assert PAGES[code].name == rule.info.name
        assert rule.__module__ == f"devlint.checks.{rule.info.name.replace('-', '_')}"


@pytest.mark.parametrize("code", PAGES)
def test_a_page_shows_a_fault_and_what_stays_silent(code):
    kinds = [block.kind for block in PAGES[code].blocks if block.language == "python"]
    assert {"bad", "good"} <= set(kinds)
    assert any((_wanted(block.text)) for block in PAGES[code].blocks if block.kind == "bad")


@_each(_blocks("bad"))
def test_a_bad_block_gives_the_findings_of_its_comments(value):
    page, block = value
    assert _wanted(block.text)
    assert _found(block.text, page.code) == _wanted(block.text)


@_each(_blocks("good"))
def test_a_good_block_is_silent(value):
    page, block = value
    assert _found(block.text, page.code) == []


@_each(_pairs())
def test_a_fixed_block_is_what_the_fix_gives(value):
    page, bad, fixed = value
    result = fix_bytes(bad.text.encode(), "page.py", _config(page.code))
    assert result.data.decode() == (bad if fixed is None else fixed).text
    if fixed is not None:
        assert result.fixed
        assert _found(fixed.text, page.code) == []
        compile(fixed.text, "page.py", "exec")
        assert fix_bytes(result.data, "page.py", _config(page.code)).data == result.data


@pytest.mark.parametrize("code", PAGES)
def test_no_fixed_block_stands_alone(code):
    kinds = [block.kind for block in PAGES[code].blocks if block.kind in ("bad", "fixed")]
    assert all(before == "bad" for before, kind in zip(["", *kinds], kinds, strict=False) if kind == "fixed")


@pytest.mark.parametrize("code", PAGES)
def test_the_group_on_the_page_is_the_rules(code):
    (named,) = re.findall(r"^Group: (.+)$", PAGES[code].text, re.MULTILINE)
    declared = rules()[code].info.groups
    assert set(re.findall(r"\b(?:bug|deprecated|performance|portability|style)\b", named)) == {
        g.value for g in declared
    }
    for page, block in _blocks("bad"):
        if page.code == code:
            assert {f.group for f in _findings(block.text, code) if f.code == code} <= set(declared)


@pytest.mark.parametrize("code", PAGES)
def test_the_safety_on_the_page_is_that_of_the_fixes(code):
    (said,) = re.findall(r"^## Fix safety\n(.*?)(?=^## |\Z)", PAGES[code].text, re.MULTILINE | re.DOTALL)
    fixes = [f.fix for page, block in _blocks("bad") if page.code == code for f in _findings(block.text, code)]
    made = {fix.applicability for fix in fixes if fix is not None and code in PAGES}
    words = {
        Applicability.SAFE: r"(?<!not )(?<!un)\bsafe\b",
        Applicability.UNSAFE: r"\bunsafe\b",
        Applicability.SUGGESTION: r"\bsuggest",
    }
    for applicability in made:
        assert re.search(words[applicability], said, re.IGNORECASE), f"the page does not name {applicability.value}"
    if not made:
        assert re.search(r"\bno fix\b|\bnot fixed\b|\bby hand\b", said, re.IGNORECASE)


def test_the_style_of_messages_and_titles():
    seen = 0
    for text in programs().values():
        for finding in check_text(Source("x.py", text), Config(select=("ALL",)), noqa=False).findings:
            seen += 1
            for line in (finding.message, finding.no_fix or "x"):
                assert "\n" not in line and line == line.strip(), finding
                assert not line.endswith((".", "!")) or line.endswith("..."), finding
                assert not re.match(r"[A-Z][a-z]+ed? ", line), finding
            if finding.fix is not None:
                title = finding.fix.title
                assert "\n" not in title and not title.endswith("."), finding
                assert re.match(r"[A-Z][a-z]+\b(?<!ing)(?<!ed)(?<![^s]s) ?", title), f"no imperative: {title}"
    assert seen > 100


@pytest.mark.parametrize("code", PAGES)
def test_words_of_the_catalogue(code):
    info = rules()[code].info
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", info.name)
    assert info.summary and not info.summary.endswith(".") and "\n" not in info.summary
    assert "When not to use it" in PAGES[code].text or "What stays silent" in PAGES[code].text


def _under_libcsts_visitor(source: Source, config: Config) -> list[Finding]:
    """The findings where LibCST itself walks the tree."""
    context = engine.make_context(source, engine.project_of(config).of(source), config)
    running = [rule for rule in (kind(context) for kind in rules().values()) if rule.suspects()]
    for rule in running:
        context.module.visit(as_visitor(rule))
    return sorted((f for rule in running for f in rule.findings), key=lambda f: (f.sort_key, f.message))


def _torch_files() -> dict[str, str]:
    files = [path for path in real_files(400, 30_000) if "torch" in path.parts]
    texts = {str(path): path.read_text(encoding="utf-8") for path in files}
    return {name: text for name, text in texts.items() if re.search(r"\.(to|cuda|load|device|autocast)\(", text)}


@pytest.mark.parametrize("origin", ["programs", "installed"])
def test_rules_are_visitors(origin):
    config = Config(select=("ALL",))
    texts = programs() if origin == "programs" else _torch_files()
    total = 0
    for name, text in texts.items():
        source = Source(name, text)
        found = check_text(source, config, noqa=False).findings
        if any(f.code.startswith("DEV9") for f in found):
            continue
        assert list(found) == _under_libcsts_visitor(source, config), name
        total += len(found)
    assert total > (100 if origin == "programs" else 0)


def test_pages_are_in_the_checkout():
    """Else nothing above would have run."""
    assert len(PAGES) >= 8
    assert {path.stem.partition("-")[0] for path in (CHECKOUT / "rules").glob("DEV*.md")} == set(PAGES)


def test_the_blocks_parse():
    for kind in ("bad", "fixed", "good"):
        for page, block in _blocks(kind):
            ast.parse(block.text, f"{page.code}:{block.row}")
