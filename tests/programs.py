"""Programs with and without faults: the blocks of the rule book, the fixtures, and cases kept beside the checkout."""

from __future__ import annotations

from functools import cache

from support import CHECKOUT

from devlint.rulebook import pages

FOLDERS = (CHECKOUT / "fixtures", CHECKOUT.parent / "shared" / "cases")
"""The second one is not part of this repository: it is used where it is there."""


@cache
def programs() -> dict[str, str]:
    """Text by a name that says where it stands."""
    texts = {f"{page.code}:{block.row}": block.text for page in pages() for block in page.blocks if block.kind}
    for folder in FOLDERS:
        texts |= {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}
    return texts
