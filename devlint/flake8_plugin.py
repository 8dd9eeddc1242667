"""The flake8 plugin: the codes DEV, over the tree that flake8 has parsed.

flake8 itself applies `# noqa`, select, ignore and per-file-ignores to what the plugin yields; the plugin applies
`[tool.devlint]`. flake8 selects all that a plugin reports, so a rule that is off by default is yielded only where
`[tool.devlint]` selects it, or where an entry of flake8's `select` or `extend-select` with at least four characters is
a prefix of its code (`DEV4`, `DEV402`; `DEV` alone means the default rules). flake8's `extend_default_ignore` would not
do: a user's own `ignore =` replaces that list, and would switch these rules on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from devlint import __version__

if TYPE_CHECKING:
    import ast
    from argparse import Namespace

    from devlint.config import Config

_SHORTEST_SELECTOR = len("DEV4")


class Plugin:
    """What flake8 makes for each file. `lines` are the file's, decoded, with line ends as \\n and without the BOM."""

    name = "devlint"
    version = __version__
    selectors: ClassVar[tuple[str, ...]] = ()
    paths: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tree: ast.Module, filename: str, lines: list[str]) -> None:
        self.tree = tree
        self.filename = filename
        self.lines = lines

    @classmethod
    def parse_options(cls, options: Namespace) -> None:
        """Note what flake8's options say; flake8 calls this once in each of its processes.

        Nothing more happens here, so that files without torch cost a run of flake8 nothing.
        """
        chosen = [*(options.select or ()), *(options.extend_select or ())]
        cls.selectors = tuple(entry for entry in chosen if len(entry) >= _SHORTEST_SELECTOR)
        cls.paths = tuple(options.stdin_display_name if path == "-" else path for path in options.filenames)

    def run(self) -> Iterator[tuple[int, int, str, type[Any]]]:
        """Row, column from 0, code and message, and the type that flake8 asks for."""
        if not any("torch" in line for line in self.lines):
            return
        from devlint.engine import check_text
        from devlint.files import is_excluded
        from devlint.source.text import Source

        config = _config(self.paths, self.selectors)
        if is_excluded(self.filename, config):
            return
        report = check_text(Source(self.filename, "".join(self.lines)), config, self.tree, noqa=False)
        for finding in report.findings:
            yield finding.start.row, finding.start.column - 1, f"{finding.code} {finding.message}", type(self)


@cache
def _config(paths: tuple[str, ...], selectors: tuple[str, ...]) -> Config:
    """The configuration of this run.

    Raises:
        flake8.exceptions.ExecutionError: `[tool.devlint]` is wrong; flake8 prints the message and ends.
    """
    from devlint.checks import catalogue
    from devlint.config import ConfigError
    from devlint.session import settle

    known = [selector for selector in selectors if any(code.startswith(selector) for code in catalogue())]
    try:
        return settle(paths, {"extend-select": known} if known else {})[0]
    except ConfigError as error:
        from flake8.exceptions import ExecutionError

        raise ExecutionError(f"devlint: {error}") from None
