"""Python files that people wrote: the standard library, and what is installed beside these tests."""

from __future__ import annotations

import random
import sysconfig
from functools import cache
from pathlib import Path

PACKAGES = ("torch", "libcst", "flake8", "hypothesis", "_pytest", "pip", "click", "packaging", "setuptools", "mypy")
"""Those that the development extra brings, or that every environment has; a missing one is passed over."""


@cache
def real_files(count: int, largest: int) -> tuple[Path, ...]:
    """`count` files of at most `largest` bytes, the same ones at each run, half of them from the standard library."""
    paths = sysconfig.get_paths()
    library = _python_files(Path(paths["stdlib"]), largest)
    folders = [Path(paths["purelib"]) / package for package in PACKAGES]
    packages = [file for folder in folders if folder.is_dir() for file in _python_files(folder, largest)]
    chosen = random.Random(20)
    return tuple(chosen.sample(library, count // 2) + chosen.sample(packages, min(count - count // 2, len(packages))))


def _python_files(folder: Path, largest: int) -> list[Path]:
    inner = len(folder.parts)
    return sorted(
        file
        for file in folder.rglob("*.py")
        if 200 <= file.stat().st_size <= largest
        and not {"site-packages", "lib2to3", "bad_coding", "badsyntax"} & set(file.parts[inner:])
        and not file.name.startswith("bad")
    )
