"""What tests of several folders use: where the checkout is, and an environment that no user's settings reach."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
_PERSONAL = ("NO_COLOR", "FORCE_COLOR", "PYTHONWARNINGS", "PYTHONUTF8", "PYTHONIOENCODING")


def environment(**extra: str) -> dict[str, str]:
    """This process's environment without what changes output, with the checkout to import from."""
    kept = {key: value for key, value in os.environ.items() if key not in _PERSONAL}
    paths = [str(CHECKOUT), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"} | extra


def copy_shipped(target: Path) -> None:
    """Copy what an installer needs of the checkout, as it stands now, whether or not it is committed."""
    target.mkdir(exist_ok=True)
    for name in ("devlint", "rules", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
