"""The rule book: finds and reads the pages of `rules/`, one Markdown file per rule.

A page is named CODE-NAME.md, and its first heading holds both again. Its fenced blocks of Python say what they are in
the word after the language: `bad` (must be reported), `fixed` (the exact result of the fix), `good` (must stay silent).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KINDS = ("bad", "fixed", "good")

_FILE_NAME = re.compile(r"(DEV\d{3})-([a-z0-9]+(?:-[a-z0-9]+)*)\.md")
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)")


class PageError(Exception):
    """A page that cannot be read as one; the message names file, row and what is wrong."""


class UnknownRule(LookupError):
    """No rule has this code or name; the message names the nearest ones."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page. `row` is the 1-based row of its first line of text in the page's file."""

    language: str
    kind: str
    """One of `KINDS` for Python, empty for other languages."""
    text: str
    row: int


@dataclass(frozen=True, slots=True)
class Page:
    """One rule's page. `text` is the whole Markdown, `title` its first heading without the mark."""

    code: str
    name: str
    title: str
    text: str
    blocks: tuple[Block, ...]


def pages_folder() -> Path:
    """The folder with the pages: inside an installed package, or beside the package in a checkout."""
    package = Path(__file__).parent
    shipped = package / "_rules"
    return shipped if shipped.is_dir() else package.parent / "rules"


@cache
def pages() -> tuple[Page, ...]:
    """All pages, sorted by code.

    Raises:
        PageError: a file whose name begins with DEV is no page, or two pages share a code or a name.
    """
    folder = pages_folder()
    files = sorted(folder.glob("DEV*.md")) if folder.is_dir() else []
    found = tuple(read_page(file) for file in files)
    for what in ("code", "name"):
        values = [getattr(page, what) for page in found]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise PageError(f"{folder}: two pages have the {what} {twice[0]}")
    return found


def read_page(file: Path) -> Page:
    """Read one page's file.

    Raises:
        PageError: the name or the heading is not a page's, or a fenced block is unmarked or not closed.
    """
    match = _FILE_NAME.fullmatch(file.name)
    if match is None:
        raise PageError(f"{file}: a page is named CODE-NAME.md, as in DEV101-discarded-transfer.md")
    code, name = match.groups()
    text = file.read_text(encoding="utf-8")
    heading = text.partition("\n")[0]
    title = heading.removeprefix("# ").strip()
    if not heading.startswith("# ") or code not in title or name not in title:
        raise PageError(f"{file}:1: the first line is a heading with {code} and {name}")
    return Page(code, name, title, text, _blocks(text, file))


def find_page(code_or_name: str) -> Page:
    """The page of one rule, asked for by code or name in any case.

    Raises:
        UnknownRule: there is no such page.
    """
    wanted = code_or_name.strip().lower().replace("_", "-")
    for page in pages():
        if wanted in (page.code.lower(), page.name):
            return page
    raise UnknownRule(unknown_rule(code_or_name, [word for page in pages() for word in (page.code, page.name)]))


def unknown_rule(wanted: str, words: list[str]) -> str:
    """The message for a rule that does not exist; `words` are the codes and names that do."""
    from difflib import get_close_matches

    by_lower = {word.lower(): word for word in words}
    close = get_close_matches(wanted.strip().lower().replace("_", "-"), by_lower, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(by_lower[word] for word in close)}?" if close else ""
    return f"no rule has the code or name {wanted!r}{hint}"


def page_url(code: str, name: str) -> str | None:
    """Where a reader can open the page of a rule, None if there is no such page.

    The address is that of the file that is installed with devlint: it fits the version, and needs no network.
    """
    file = pages_folder() / f"{code}-{name}.md"
    return file.resolve().as_uri() if file.is_file() else None


def _blocks(text: str, file: Path) -> tuple[Block, ...]:
    """The fenced blocks of a page: CommonMark's fences of backticks or tildes, also indented by up to three spaces."""
    found: list[Block] = []
    fence, indent, language, kind = "", "", "", ""
    lines: list[str] = []
    opened = 0
    for row, line in enumerate(text.split("\n"), start=1):
        match = _FENCE.fullmatch(line.rstrip())
        if not fence:
            if match is not None:
                indent, fence, info = match.groups()
                language, _, kind = info.strip().partition(" ")
                kind = kind.strip()
                if language == "python" and kind not in KINDS:
                    raise PageError(f"{file}:{row}: a block of Python is one of {', '.join(KINDS)}, not {kind!r}")
                lines, opened = [], row
        elif match is not None and not match[3] and match[2][0] == fence[0] and len(match[2]) >= len(fence):
            found.append(Block(language, kind, "".join(f"{line}\n" for line in lines), opened + 1))
            fence = ""
        else:
            lines.append(line.removeprefix(indent))
    if fence:
        raise PageError(f"{file}:{opened}: this block is not closed")
    return tuple(found)
