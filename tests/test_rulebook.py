"""Reading the pages: file names, headings, fenced blocks, look-up."""

from __future__ import annotations

import ast

import pytest

from devlint import rulebook
from devlint.rulebook import Block, PageError, UnknownRule, find_page, page_url, pages, read_page

PAGE = """\
# DEV101 discarded-transfer

What it is. `inline`

```python bad
x.to(d)  # DEV101
```

```python fixed
x = x.to(d)
```

- a list:

  ```toml
  ignore = ["DEV101"]
  ```

~~~~python good
s = '''
```python bad
~~~
'''
~~~~
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that stands for rules/."""
    monkeypatch.setattr(rulebook, "pages_folder", lambda: tmp_path)
    pages.cache_clear()
    yield tmp_path
    pages.cache_clear()


def write(folder, text=PAGE, name="DEV101-discarded-transfer.md"):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_a_page(folder):
    page = read_page(write(folder))
    assert (page.code, page.name, page.title) == ("DEV101", "discarded-transfer", "DEV101 discarded-transfer")
    assert page.text == PAGE
    assert page.blocks == (
        Block("python", "bad", "x.to(d)  # DEV101\n", 6),
        Block("python", "fixed", "x = x.to(d)\n", 10),
        Block("toml", "", 'ignore = ["DEV101"]\n', 16),
        Block("python", "good", "s = '''\n```python bad\n~~~\n'''\n", 20),
    )


def test_rows_are_those_of_the_file(folder):
    lines = PAGE.splitlines()
    for block in read_page(write(folder)).blocks:
        assert lines[block.row - 1].strip() == block.text.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# DEV101 discarded-transfer\n```python\nx\n```\n",
            ":2: a block of Python is one of bad, fixed, good, not ''",
        ),
        ("# DEV101 discarded-transfer\n```python godo\nx\n```\n", ":2: a block of Python is one of bad, fixed, good"),
        ("# DEV101 discarded-transfer\n\n```python bad\nx\n", ":3: this block is not closed"),
        ("# DEV102 discarded-transfer\n", ":1: the first line is a heading with DEV101 and discarded-transfer"),
        ("DEV101 discarded-transfer\n", ":1: the first line is a heading"),
        ("", ":1: the first line is a heading"),
    ],
)
def test_a_page_with_a_fault_is_refused(folder, text, said):
    with pytest.raises(PageError) as raised:
        read_page(write(folder, text))
    assert f"DEV101-discarded-transfer.md{said}" in str(raised.value)


def test_a_misnamed_page_is_refused_and_other_files_are_passed_over(folder):
    write(folder)
    write(folder, "no page", "README.md")
    assert [page.code for page in pages()] == ["DEV101"]
    pages.cache_clear()
    write(folder, name="DEV102_container.md")
    with pytest.raises(PageError, match=r"DEV102_container\.md: a page is named CODE-NAME\.md"):
        pages()


def test_two_pages_of_one_code_are_refused(folder):
    write(folder)
    write(folder, "# DEV101 other-name\n", "DEV101-other-name.md")
    with pytest.raises(PageError, match="two pages have the code DEV101"):
        pages()


@pytest.mark.parametrize("wanted", ["DEV101", "dev101", "discarded-transfer", "Discarded_Transfer", " DEV101 "])
def test_a_page_is_found_by_code_or_name(folder, wanted):
    write(folder)
    assert find_page(wanted).code == "DEV101"


@pytest.mark.parametrize(("wanted", "hint"), [("discarded-transfers", "discarded-transfer"), ("dev110", "DEV101")])
def test_the_nearest_rule_is_named(folder, wanted, hint):
    write(folder)
    with pytest.raises(UnknownRule) as raised:
        find_page(wanted)
    assert f"no rule has the code or name {wanted!r}; did you mean {hint}?" in str(raised.value)


def test_nothing_near_is_not_guessed(folder):
    write(folder)
    with pytest.raises(UnknownRule, match=r"'xyz'$"):
        find_page("xyz")


def test_the_url_is_the_file(folder):
    file = write(folder)
    assert page_url("DEV101", "discarded-transfer") == file.as_uri()
    assert page_url("DEV999", "crash") is None


def test_the_real_pages_are_read():
    found = pages()
    assert len(found) >= 8
    assert [page.code for page in found] == sorted(page.code for page in found)
    for page in found:
        for block in page.blocks:
            if block.language == "python":
                ast.parse(block.text)
