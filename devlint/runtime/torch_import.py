"""torch is an extra of devlint: imported when first used; where it is missing the message says how to install it."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

INSTALL = "pip install 'devlint[runtime]'"


class TorchMissing(RuntimeError):
    """torch cannot be imported; the message names the command that installs it."""


def require_torch() -> ModuleType:
    """The torch module; raises TorchMissing where it cannot be imported."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise _missing(str(error)) from error


def require_torch_installed() -> None:
    """See that there is a torch to import, without importing it. Raises TorchMissing."""
    if importlib.util.find_spec("torch") is None:
        raise _missing("No module named 'torch'")


def _missing(why: str) -> TorchMissing:
    return TorchMissing(f"PyTorch is needed here and could not be imported ({why}); install it with: {INSTALL}")
