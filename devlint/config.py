"""What the user wants: `[tool.devlint]` of a pyproject.toml and the options of the command, as one frozen value.

Selectors are `ALL`, the name of a group, a code, a prefix of codes (`DEV4`) or the name of a rule; `D`, `DE` and `DEV`
mean the rules that are on by default. Where several fit, the most specific speaks: ALL, then the default rules, then a
group, then prefixes by their length, then one code; between equals `ignore` wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from devlint.finding import Group, RuleInfo

OUTPUT_FORMATS = ("text", "concise", "json", "github")
"""The formats that `output-format` may name."""

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
"""What Ruff leaves out unless it is told otherwise, so that both tools look at the same files."""

_DEFAULT_RULES = ("D", "DE", "DEV")
_GROUPS = {group.value: group for group in Group}
_TORCH_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?(?:[a-z+.].*)?")
_OPT_IN_OWN = "DEV904"
_SPECIAL = re.compile(r"([*?\[])")


class ConfigError(Exception):
    """A wrong key, value, code or name; the message says where it stands, and the nearest right one."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a run. Selectors are stored as they are compared: groups, prefixes and codes, no names of rules.

    A pattern without a slash is compared with each name on a path, one with a slash is absolute here. `root` is the
    folder of the file `source`, the current one where there is no file.
    """

    select: tuple[str, ...] = ("DEV",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    output_format: str = "text"
    target_torch: tuple[int, int] | None = None
    unsafe_fixes: bool = False
    api: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What the user says of libraries that devlint does not know, as tables of the fact files."""
    root: Path = field(default_factory=Path.cwd)
    source: Path | None = None

    def enabled(self, code: str, group: Group) -> bool:
        """Whether findings of this code and group are wanted at all. What devlint says of itself is, except DEV904."""
        if _always(code):
            return True
        selectors = (*self.select, *self.extend_select)
        return _closest(selectors, code, group) > _closest(self.ignore, code, group)

    def enabled_in(self, code: str, group: Group, path: str) -> bool:
        """Whether findings of this code and group are wanted in this file; `path` as it was given or absolute."""
        if not self.enabled(code, group):
            return False
        if not self.per_file_ignores or _always(code):
            return True
        absolute, root = posix(os.path.abspath(path)), posix(str(self.root))
        return not any(
            _closest(selectors, code, group) >= 0
            and matches(pattern.removeprefix("!"), absolute, root) is not pattern.startswith("!")
            for pattern, selectors in self.per_file_ignores
        )


def _always(code: str) -> bool:
    return code.startswith("DEV9") and code != _OPT_IN_OWN


def _closest(selectors: Iterable[str], code: str, group: Group) -> int:
    return max((_specificity(selector, code, group) for selector in selectors), default=-1)


def _specificity(selector: str, code: str, group: Group) -> int:
    """How closely a selector fits; -1 where it does not."""
    if selector == "ALL":
        return 0
    if selector in _DEFAULT_RULES:
        return 1 if group.on_by_default and code != _OPT_IN_OWN else -1
    if selector in _GROUPS:
        return 2 if selector == group.value else -1
    return 3 + len(selector) if code.startswith(selector) else -1


def posix(path: str) -> str:
    """A path with slashes, whatever the system writes."""
    return path.replace(os.sep, "/") if os.sep != "/" else path


def matches(pattern: str, absolute: str, root: str) -> bool:
    """Whether a pattern fits a path or a folder above it; both paths absolute and with slashes.

    A pattern without a slash is compared with each name on the path below `root` (outside of it with the last name),
    any other with the whole path. `*` and `?` stand for any characters, slashes too, as in Ruff; `**/` also stands for
    no folder at all; `[...]` is a set of characters.
    """
    if "/" not in pattern.rstrip("/"):
        below = root.rstrip("/") + "/"
        if absolute == root:
            return False
        absolute = absolute[len(below) :] if absolute.startswith(below) else absolute.rpartition("/")[2]
    return _compiled(pattern).search(absolute) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    pattern = pattern.rstrip("/")
    whole = "/" in pattern
    # Without a slash a name is compared, and then `*` stays within it.
    some, one = (".*", ".") if whole else ("[^/]*", "[^/]")
    out: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        closing = pattern.find("]", position + 2 + pattern.startswith("!", position + 1)) if character == "[" else -1
        if pattern.startswith("**/", position):
            out.append("(?:.*/)?")
            position += 3
        elif closing >= 0:
            out.append(_set(pattern[position + 1 : closing]))
            position = closing + 1
        else:
            out.append({"*": some, "?": one}.get(character) or re.escape(character))
            position += 1
    start = "^" if whole else "(?:^|/)"
    try:
        return re.compile(f"{start}{''.join(out)}(?:/|$)", re.DOTALL)
    except re.error:
        # Such a set as [z-a] fits nothing but itself.
        return re.compile(f"{start}{re.escape(pattern)}(?:/|$)")


def _set(body: str) -> str:
    negated = body.startswith(("!", "^"))
    return f"[{'^' if negated else ''}{re.sub(r'([^-0-9A-Za-z])', _ESCAPED, body[1:] if negated else body)}]"


_ESCAPED = r"\\\1"


def find_config(start: Path) -> Path | None:
    """The nearest pyproject.toml with a table [tool.devlint], in `start` or a folder above it.

    A file that names devlint and is no valid TOML is taken too, so that loading it says so.
    """
    start = Path(os.path.abspath(start))
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if b"devlint" not in data:
            continue
        try:
            table = _tool_table(data, path)
        except ConfigError:
            return path
        if table is not None:
            return path
    return None


def load_config(path: Path | None, overrides: Mapping[str, object], rules: Mapping[str, RuleInfo]) -> Config:
    """The settings of a file (none if `path` is None), with those of the command over them.

    `overrides` has the keys of [tool.devlint], with hyphens or underscores; None means not given. `select` in it starts
    anew: the file's `select`, `extend-select` and `ignore` no longer count. Lists may be written as text with commas,
    `per-file-ignores` as `PATTERN:CODE,...`. `rules` are the known rules by code.

    Raises ConfigError for what cannot be read, unknown keys, wrong values and unknown selectors.
    """
    config = Config()
    file_values: dict[str, Any] = {}
    if path is not None:
        file_values = _read(path, rules)
        config = replace(config, root=Path(os.path.abspath(path)).parent, source=path)
    given = {key: value for key, value in overrides.items() if value is not None}
    option_values = _checked(given, "", Path.cwd(), rules)
    return replace(config, **_merged(file_values, option_values))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(below)
    if "select" in above:
        for key in ("select", "extend_select", "ignore"):
            values.pop(key, None)
    elif "extend_select" in above:
        # What the command asks for by name is not kept off by the same name in the file.
        values["ignore"] = tuple(s for s in values.get("ignore", ()) if s not in above["extend_select"])
    for key in ("ignore", "extend_select", "per_file_ignores", "extend_exclude"):
        if key in values and key in above:
            values[key] = (*values[key], *above[key])
    return {**values, **{key: value for key, value in above.items() if key not in values or key not in _ADDED}}


_ADDED = frozenset({"ignore", "extend_select", "per_file_ignores", "extend_exclude"})


def _read(path: Path, rules: Mapping[str, RuleInfo]) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{_shown(path)}: cannot be read: {error.strerror or error}") from None
    table = _tool_table(data, path)
    if table is None:
        raise ConfigError(f"{_shown(path)}: there is no table [tool.devlint] in it")
    return _checked(table, _shown(path), Path(os.path.abspath(path)).parent, rules)


def _tool_table(data: bytes, path: Path) -> Mapping[str, object] | None:
    """The table [tool.devlint]; None where the file has none."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{_shown(path)}: is not UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{_shown(path)}: is not valid TOML: {error}") from None
    tool = document.get("tool")
    if not isinstance(tool, dict) or "devlint" not in tool:
        return None
    table = tool["devlint"]
    if not isinstance(table, dict):
        raise ConfigError(f"{_shown(path)}: tool.devlint must be a table")
    return table


def _checked(table: Mapping[str, object], file: str, base: Path, rules: Mapping[str, RuleInfo]) -> dict[str, Any]:
    """The values of a table under the names of Config's fields. `file` is empty for the options of the command."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-") if not file else key
        where = f'{file}: "{key}" in [tool.devlint]' if file else f'option "{name}"'
        if name not in _KEYS:
            place = f'{file}: unknown key "{key}" in [tool.devlint]' if file else f'unknown option "{key}"'
            raise ConfigError(place + _nearest(name, _KEYS))
        values[name.replace("-", "_")] = _value(name, value, where, bool(file), base, rules)
    return values


_SELECTING = ("select", "ignore", "extend-select")
_PATTERNS = ("exclude", "extend-exclude")
_SWITCHES = ("force-exclude", "respect-gitignore", "unsafe-fixes")
_KEYS = (*_SELECTING, "per-file-ignores", *_PATTERNS, *_SWITCHES, "output-format", "target-torch", "api")


def _value(key: str, value: object, where: str, in_file: bool, base: Path, rules: Mapping[str, RuleInfo]) -> object:
    if key in _SELECTING:
        return tuple(_selector(item, where, rules) for item in _strings(value, where, in_file))
    if key in _PATTERNS:
        return tuple(_anchored(item, base) for item in _strings(value, where, in_file))
    if key in _SWITCHES:
        if not isinstance(value, bool):
            raise ConfigError(f"{where} must be true or false, not {_kind(value)}")
        return value
    if key == "per-file-ignores":
        return tuple(
            (_anchored(pattern, base), tuple(_selector(code, where, rules) for code in codes))
            for pattern, codes in _ignores_by_file(value, where, in_file)
        )
    if key == "output-format":
        if not isinstance(value, str):
            raise ConfigError(f"{where} must be a string, not {_kind(value)}")
        if value not in OUTPUT_FORMATS:
            raise ConfigError(f'{where}: unknown format "{value}"{_nearest(value, OUTPUT_FORMATS)}')
        return value
    if key == "api":
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a table, not {_kind(value)}")
        return value
    return _torch_version(value, where)


def _torch_version(value: object, where: str) -> tuple[int, int]:
    if isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value):
        return (value[0], value[1])
    # A number would do for 2.6, and mean 2.1 for 2.10.
    if not isinstance(value, str):
        raise ConfigError(f'{where} must be a string such as "2.6", not {_kind(value)}')
    match = _TORCH_VERSION.fullmatch(value.strip())
    if match is None:
        raise ConfigError(f'{where}: "{value}" is no version of torch, write it as "2.6"')
    return (int(match[1]), int(match[2]))


def _strings(value: object, where: str, in_file: bool) -> tuple[str, ...]:
    """A list of strings; on the command line its items may hold several, with commas between them."""
    if isinstance(value, str) and not in_file:
        value = (value,)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{where} must be a list of strings, not {_kind(value)}")
    items: list[str] = []
    for item in value:
        if not isinstance(item, str):
            raise ConfigError(f"{where} must be a list of strings, it holds {_kind(item)}")
        items += [item] if in_file else [part.strip() for part in item.split(",")]
    return tuple(item for item in items if item)


def _ignores_by_file(value: object, where: str, in_file: bool) -> Iterable[tuple[str, tuple[str, ...]]]:
    pairs = value.items() if isinstance(value, Mapping) else value if _are_pairs(value) and not in_file else None
    if pairs is not None:
        for pattern, codes in pairs:
            if not isinstance(pattern, str):
                raise ConfigError(f"{where} must have patterns as keys, not {_kind(pattern)}")
            yield pattern, _strings(codes, f'{where}, "{pattern}"', in_file)
        return
    if in_file:
        raise ConfigError(f"{where} must be a table of patterns, not {_kind(value)}")
    # Several codes of one pattern may follow it: "tests/*:DEV101,DEV301" as well as "tests/*:DEV101,tests/*:DEV301".
    by_pattern: dict[str, list[str]] = {}
    pattern = ""
    for item in _strings(value, where, in_file):
        code = item
        if ":" in item:
            pattern, _, code = item.rpartition(":")
        if not pattern.strip() or not code.strip():
            raise ConfigError(f'{where}: "{item}" must be written as PATTERN:CODE')
        by_pattern.setdefault(pattern.strip(), []).append(code.strip())
    yield from ((key, tuple(codes)) for key, codes in by_pattern.items())


def _are_pairs(value: object) -> TypeGuard[Sequence[tuple[object, object]]]:
    return isinstance(value, Sequence) and all(isinstance(item, tuple) and len(item) == 2 for item in value)


def _selector(text: str, where: str, rules: Mapping[str, RuleInfo]) -> str:
    """A selector in its stored form. Raises ConfigError where it selects nothing that is known."""
    if text == "ALL" or text in _DEFAULT_RULES or text in _GROUPS or any(code.startswith(text) for code in rules):
        return text
    for code, rule in rules.items():
        if text == rule.name:
            return code
    known = ("ALL", *_GROUPS, *rules, *(rule.name for rule in rules.values()))
    raise ConfigError(f'{where}: unknown rule, code or group "{text}"{_nearest(text, known)}')


def _anchored(pattern: str, base: Path) -> str:
    """A pattern with a slash as an absolute one, so that it means the same from every folder."""
    negation, pattern = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    pattern = posix(pattern)
    if pattern.startswith("./"):
        pattern = pattern[2:]
    if "/" not in pattern.rstrip("/") or os.path.isabs(pattern):
        return negation + pattern
    folder = _SPECIAL.sub(r"[\1]", posix(str(base))).rstrip("/")
    return f"{negation}{folder}/{pattern}"


def _shown(path: Path) -> str:
    """The path from the current folder where it lies in it."""
    absolute = Path(os.path.abspath(path))
    return str(absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else path)


def _kind(value: object) -> str:
    names = {bool: "a boolean", str: "a string", int: "an integer", float: "a number", list: "a list", dict: "a table"}
    return names.get(type(value), type(value).__name__)


def _nearest(text: str, known: Iterable[str]) -> str:
    import difflib

    folded = text.casefold()
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(folded, by_folded, n=5, cutoff=0.5)
    if folded.startswith("dev"):
        # Of equally close codes that which begins alike: for DEV41 it is DEV402, not DEV904.
        close.sort(
            key=lambda name: (next((-i for i in range(len(name), 0, -1) if folded.startswith(name[:i])), 0), name)
        )
    return f', did you mean "{by_folded[close[0]]}"?' if close else ""
