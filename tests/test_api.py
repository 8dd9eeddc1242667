"""The public functions: `check_source` and `fix_source`."""

from __future__ import annotations

import pytest

import devlint
from devlint import check_source, fix_source
from devlint.config import ConfigError

TEXT = 'import torch\nd = torch.device("cuda:0,1")\nif d == "cuda":\n    e = torch.ones(1, device="cuda:1")\n'
SAFE = TEXT.replace('"cuda:0,1"', '"cuda:0"')


def test_findings_come_sorted_with_their_places():
    found = check_source(TEXT, "a.py")
    assert [(f.code, f.path, f.start.row, f.start.column) for f in found][:1] == [("DEV401", "a.py", 2, 18)]
    assert [f.code for f in found] == ["DEV401", "DEV403"]
    assert all(isinstance(f, devlint.Finding) for f in found)


def test_options_are_those_of_the_configuration():
    assert [f.code for f in check_source(TEXT, select=["DEV402"])] == ["DEV402"]
    assert [f.code for f in check_source(TEXT, "tests/a.py", per_file_ignores={"a.py": ["DEV401"]})] == ["DEV403"]
    with pytest.raises(ConfigError, match="select"):
        check_source(TEXT, slect=["DEV402"])


def test_a_byte_order_mark_shifts_no_column():
    assert check_source("\ufeff" + TEXT) == check_source(TEXT)


def test_invalid_python_is_a_finding():
    (found,) = check_source("import torch\nx = (\n")
    assert (found.code, found.start.row) == ("DEV900", 2)


def test_fixing():
    assert fix_source(TEXT) == SAFE
    assert fix_source(TEXT, unsafe_fixes=True) == SAFE.replace("d == ", "d.type == ")
    assert fix_source(TEXT, ignore=["DEV401"]) == TEXT


@pytest.mark.parametrize(
    "before",
    ["\ufeff", "# coding: latin-1\n# é\n", "# coding: utf-8\n# 深\n", "# 深\r\n", "# coding: no-such\n", ""],
)
def test_fixing_keeps_every_other_character(before):
    fixed = before + (TEXT if "no-such" in before else SAFE)
    assert fix_source(before + TEXT) == fixed


def test_invalid_python_comes_back():
    assert fix_source("import torch\nx = (\n") == "import torch\nx = (\n"


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such"):
        _ = devlint.no_such
