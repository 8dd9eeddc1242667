"""devlint: finds and fixes PyTorch device-placement bugs without running the code.

The public API is `check_source`, `fix_source` and `Finding`; all else may change between versions. Importing this
package costs next to nothing: LibCST is loaded when a file needs it, torch never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.config import Config
    from devlint.finding import Finding

__version__ = "0.1.0"
__all__ = ["Finding", "__version__", "check_source", "fix_source"]


def check_source(text: str, path: str = "<string>", **options: object) -> list[Finding]:
    """The findings in the text of one Python file, sorted by place.

    `options` are the keys of `[tool.devlint]` with underscores, as in `select=["ALL"]` or `target_torch="2.4"`; no
    configuration file is read. `path` is the name under which findings are reported and per-file-ignores apply.

    Raises:
        devlint.config.ConfigError: an option, or a code or name in it, is unknown.
    """
    from devlint.engine import check_text
    from devlint.source.text import Source

    return list(check_text(Source(path, text.removeprefix("\ufeff")), _config(options)).findings)


def fix_source(text: str, path: str = "<string>", **options: object) -> str:
    """The text of one Python file with its fixes applied: the safe ones, and the unsafe ones with `unsafe_fixes=True`.

    Parameters are those of `check_source`. A text that cannot be read as Python comes back as it is.

    Raises:
        devlint.config.ConfigError: an option, or a code or name in it, is unknown.
        UnicodeEncodeError: the encoding that the text declares lacks one of its characters.
    """
    from devlint.engine import fix_bytes

    encoding = _declared_encoding(text)
    return fix_bytes(text.encode(encoding), path, _config(options)).data.decode(encoding)


def _config(options: dict[str, object]) -> Config:
    from devlint.session import settle

    return settle((), options, isolated=True)[0]


def _declared_encoding(text: str) -> str:
    """The encoding that a `# coding:` line of the text names, under which its bytes mean the same text."""
    from tokenize import detect_encoding

    lines = iter(text.encode("utf-8").splitlines(keepends=True))
    try:
        encoding, _ = detect_encoding(lambda: next(lines, b""))
    except SyntaxError:  # unknown, or at odds with a byte order mark: the engine says so
        return "utf-8"
    return "utf-8" if encoding == "utf-8-sig" else encoding


def __getattr__(name: str) -> object:
    """Load `Finding` when it is first asked for."""
    if name == "Finding":
        from devlint.finding import Finding

        return Finding
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
