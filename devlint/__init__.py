"""devlint: finds and fixes PyTorch device-placement bugs without running the code.

The public API is `check_source`, `fix_source` and `Finding`; all else may change between versions. Importing this
package costs next to nothing: LibCST is loaded when a file needs it, torch never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.finding import Finding

__version__ = "0.1.0"
__all__ = ["Finding", "__version__", "check_source", "fix_source"]


def __getattr__(name: str) -> object:
    """Load `Finding` when it is first asked for."""
    if name == "Finding":
        from devlint.finding import Finding

        return Finding
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
