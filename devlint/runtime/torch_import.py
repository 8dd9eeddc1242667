"""torch is an extra of devlint: imported when first used; where it is missing the message says how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

INSTALL = "pip install 'devlint[runtime]'"


class TorchMissing(RuntimeError):
    """torch cannot be imported; the message names the command that installs it."""


def require_torch() -> ModuleType:
    """The torch module; raises TorchMissing where it cannot be imported."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise TorchMissing(
            f"PyTorch is needed here and could not be imported ({error}); install it with: {INSTALL}"
        ) from error
