"""The counts at the end."""

from __future__ import annotations

from devlint.finding import Applicability
from devlint.output.closing import check_line, fix_line


def some(make_report, **numbers):
    """Reports with so many findings of each applicability (`none` for those without a fix), in two files."""
    kinds = [word for word, number in numbers.items() for _ in range(number)]
    return [
        make_report(
            "x.to(d)\n",
            "to",
            path=f"{i % 2}.py",
            replace=None if kind == "none" else {"x": "y"},
            applicability=Applicability.SAFE if kind == "none" else Applicability(kind),
        )
        for i, kind in enumerate(kinds)
    ]


def test_check(make_report):
    assert check_line([]) == ""
    assert check_line(some(make_report, none=1)) == "1 finding in 1 file, none fixable"
    assert check_line(some(make_report, safe=2, none=1)) == "3 findings in 2 files, 2 fixable with `devlint fix`"
    assert check_line(some(make_report, unsafe=2, suggestion=2)) == (
        "4 findings in 2 files, 2 fixable with `devlint fix --unsafe-fixes`"
    )
    assert check_line(some(make_report, safe=1, unsafe=2)) == (
        "3 findings in 2 files, 1 fixable with `devlint fix`, 2 more with `devlint fix --unsafe-fixes`"
    )


def findings(make_report, **numbers):
    return [finding for report in some(make_report, **numbers) for finding in report.findings]


def test_fix(make_report):
    fixed, left = findings(make_report, safe=3), findings(make_report, unsafe=2, none=1)
    assert fix_line([], [], unsafe=False, written=True) == ""
    assert fix_line(fixed, [], unsafe=False, written=True) == "3 fixed in 2 files, 0 left"
    assert fix_line(fixed, left, unsafe=False, written=True) == (
        "3 fixed in 2 files, 3 left, 2 of them fixable with `--unsafe-fixes`"
    )
    assert fix_line([], left, unsafe=True, written=True) == "0 fixed, 3 left"
    assert fix_line(fixed, left, unsafe=True, written=False) == "3 would be fixed in 2 files, 3 left"
