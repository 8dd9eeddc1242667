"""`cst`: LibCST, imported when it is first used (the import costs more than most runs take)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst
else:

    class _Lazy:
        def __getattr__(self, name: str) -> Any:
            import libcst

            return getattr(libcst, name)

    cst = _Lazy()

__all__ = ["cst"]
