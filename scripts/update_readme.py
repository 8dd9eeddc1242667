"""Write the table of rules into README.md, from the rules as they are built: python scripts/update_readme.py"""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- rules: scripts/update_readme.py writes this table -->\n"
END = "<!-- end of rules -->\n"


def update(text: str, table: str) -> str:
    """The README's text with this table between its two marks.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md lacks {(END if begin else BEGIN).strip()}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    sys.path.insert(0, str(CHECKOUT))
    from devlint.checks import catalogue
    from devlint.output import Display, rules

    readme = CHECKOUT / "README.md"
    table = rules.render(list(catalogue().values()), "markdown", Display())
    readme.write_text(update(readme.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main()
