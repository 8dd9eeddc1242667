"""Configuration: selection, patterns, keys, and what a wrong one is told."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import environment

from devlint.config import DEFAULT_EXCLUDE, Config, ConfigError, find_config, load_config, matches
from devlint.finding import Group, RuleInfo

RULES = {
    code: RuleInfo(code, name, groups, "")
    for code, name, *groups in (
        ("DEV101", "discarded-transfer", Group.BUG),
        ("DEV109", "legacy-type-cast", Group.BUG, Group.PORTABILITY),
        ("DEV301", "load-without-map-location", Group.BUG),
        ("DEV402", "hardcoded-device-index", Group.PORTABILITY),
        ("DEV403", "device-comparison", Group.BUG),
        ("DEV705", "create-then-move", Group.PERFORMANCE),
        ("DEV804", "cuda-amp", Group.DEPRECATED),
        ("DEV900", "invalid-syntax", Group.BUG),
        ("DEV904", "unused-noqa", Group.STYLE),
    )
}
# What each rule reports under; DEV109 has two groups.
REPORTED = [(code, group) for code, rule in RULES.items() for group in rule.groups]
DEFAULT = {"DEV101", "DEV109", "DEV301", "DEV403", "DEV804", "DEV900"}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def enabled(**options):
    config = load_config(None, options, RULES)
    return {
        code if group is not Group.PORTABILITY or code != "DEV109" else "DEV109p"
        for code, group in REPORTED
        if config.enabled(code, group)
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, DEFAULT),
        ({"select": []}, {"DEV900"}),
        ({"select": ["ALL"]}, {*RULES, "DEV109p"}),
        ({"select": ["D"]}, DEFAULT),
        ({"select": ["DE"]}, DEFAULT),
        ({"select": ["DEV"]}, DEFAULT),
        ({"select": ["DEV4"]}, {"DEV402", "DEV403", "DEV900"}),
        ({"select": ["DEV40"]}, {"DEV402", "DEV403", "DEV900"}),
        ({"select": ["DEV402"]}, {"DEV402", "DEV900"}),
        ({"select": ["hardcoded-device-index"]}, {"DEV402", "DEV900"}),
        ({"select": ["portability"]}, {"DEV402", "DEV109p", "DEV900"}),
        ({"select": ["performance", "deprecated"]}, {"DEV705", "DEV804", "DEV900"}),
        ({"select": ["DEV9"]}, {"DEV900", "DEV904"}),
        ({"select": ["DEV904"]}, {"DEV900", "DEV904"}),
        ({"extend-select": ["DEV4"]}, DEFAULT | {"DEV402"}),
        ({"extend_select": ["DEV4"]}, DEFAULT | {"DEV402"}),
        ({"extend-select": ["DEV904"]}, DEFAULT | {"DEV904"}),
        ({"select": ["DEV1"], "extend-select": ["DEV402"]}, {"DEV101", "DEV109", "DEV109p", "DEV402", "DEV900"}),
        # What devlint says of itself cannot be switched off.
        ({"ignore": ["DEV900"]}, DEFAULT),
        ({"ignore": ["DEV101"]}, DEFAULT - {"DEV101"}),
        ({"ignore": ["discarded-transfer"]}, DEFAULT - {"DEV101"}),
        ({"ignore": ["DEV1"]}, DEFAULT - {"DEV101", "DEV109"}),
        ({"ignore": ["bug"]}, {"DEV804", "DEV900"}),
        ({"ignore": ["DEV"]}, {"DEV900"}),
        # The more specific wins, on either side.
        ({"select": ["ALL"], "ignore": ["D"]}, {"DEV402", "DEV109p", "DEV705", "DEV900", "DEV904"}),
        ({"select": ["DEV4"], "ignore": ["DEV402"]}, {"DEV403", "DEV900"}),
        ({"select": ["DEV402"], "ignore": ["DEV4"]}, {"DEV402", "DEV900"}),
        ({"select": ["DEV4"], "ignore": ["DEV40"]}, {"DEV900"}),
        ({"select": ["DEV40"], "ignore": ["DEV4"]}, {"DEV402", "DEV403", "DEV900"}),
        ({"select": ["portability"], "ignore": ["DEV4"]}, {"DEV109p", "DEV900"}),
        ({"select": ["DEV4"], "ignore": ["portability"]}, {"DEV402", "DEV403", "DEV900"}),
        ({"select": ["bug"], "ignore": ["ALL"]}, {"DEV101", "DEV109", "DEV301", "DEV403", "DEV900"}),
        ({"select": ["ALL"], "ignore": ["bug"]}, {"DEV402", "DEV109p", "DEV705", "DEV804", "DEV900", "DEV904"}),
        # Between equals ignore wins.
        ({"select": ["DEV402"], "ignore": ["DEV402"]}, {"DEV900"}),
        ({"select": ["ALL"], "ignore": ["ALL"]}, {"DEV900"}),
        ({"select": ["DEV402"], "ignore": ["hardcoded-device-index"]}, {"DEV900"}),
        # As the command passes them on.
        ({"select": "DEV402,DEV705"}, {"DEV402", "DEV705", "DEV900"}),
        ({"select": ("DEV402, performance", "DEV1")}, {"DEV402", "DEV705", "DEV101", "DEV109", "DEV109p", "DEV900"}),
        ({"select": None, "ignore": None}, DEFAULT),
    ],
)
def test_selection(options, expected):
    assert enabled(**options) == expected


def test_unused_noqa_is_off_whatever_group_it_has():
    assert not Config().enabled("DEV904", Group.BUG)
    assert Config(extend_select=("DEV904",)).enabled("DEV904", Group.BUG)


def written(text, **options):
    Path("pyproject.toml").write_text(text, encoding="utf-8")
    return load_config(Path("pyproject.toml"), options, RULES)


def test_all_keys_of_a_file():
    config = written(
        """
        [project]
        name = "x"

        [tool.devlint]
        select = ["ALL"]
        ignore = ["hardcoded-device-index"]
        extend-select = ["performance"]
        exclude = ["old", "a/b.py"]
        extend-exclude = ["*_pb2.py"]
        force-exclude = true
        respect-gitignore = false
        output-format = "concise"
        target-torch = "2.10"
        unsafe-fixes = true

        [tool.devlint.per-file-ignores]
        "tests/*" = ["DEV301", "discarded-transfer"]
        "__init__.py" = ["bug"]
        """
    )
    here = Path.cwd().as_posix()
    assert config == Config(
        select=("ALL",),
        ignore=("DEV402",),
        extend_select=("performance",),
        per_file_ignores=((f"{here}/tests/*", ("DEV301", "DEV101")), ("__init__.py", ("bug",))),
        exclude=("old", f"{here}/a/b.py"),
        extend_exclude=("*_pb2.py",),
        force_exclude=True,
        respect_gitignore=False,
        output_format="concise",
        target_torch=(2, 10),
        unsafe_fixes=True,
        root=Path.cwd(),
        source=Path("pyproject.toml"),
    )
    assert pickle.loads(pickle.dumps(config)) == config


def test_an_empty_table_is_the_default():
    config = written("[tool.devlint]\n")
    assert config == replace(Config(), source=Path("pyproject.toml"))
    assert (config.select, config.exclude, config.respect_gitignore) == (("DEV",), DEFAULT_EXCLUDE, True)


@pytest.mark.parametrize(
    ("table", "options", "expected"),
    [
        ('select = ["DEV1"]', {"select": ["DEV402"]}, {"DEV402", "DEV900"}),
        ('select = ["DEV1"]\nextend-select = ["DEV3"]', {"select": ["DEV402"]}, {"DEV402", "DEV900"}),
        ('ignore = ["DEV402"]', {"select": ["DEV402"]}, {"DEV402", "DEV900"}),
        ('ignore = ["DEV402"]', {"extend-select": ["DEV402"]}, DEFAULT | {"DEV402"}),
        ('ignore = ["DEV101"]', {"extend-select": ["DEV402"]}, DEFAULT - {"DEV101"} | {"DEV402"}),
        ('ignore = ["DEV101"]', {"ignore": ["DEV301"]}, DEFAULT - {"DEV101", "DEV301"}),
        ('extend-select = ["DEV402"]', {"extend-select": ["DEV705"]}, DEFAULT | {"DEV402", "DEV705"}),
        ('select = ["ALL"]', {"ignore": ["DEV"]}, {"DEV402", "DEV109p", "DEV705", "DEV900", "DEV904"}),
        ('select = ["DEV402"]', {}, {"DEV402", "DEV900"}),
    ],
)
def test_options_over_a_file(table, options, expected):
    config = written(f"[tool.devlint]\n{table}\n", **options)
    names = {
        code if group is not Group.PORTABILITY or code != "DEV109" else "DEV109p"
        for code, group in REPORTED
        if config.enabled(code, group)
    }
    assert names == expected


def test_other_options_replace_or_add():
    table = '[tool.devlint]\nexclude = ["a"]\nextend-exclude = ["b"]\nforce-exclude = true\ntarget-torch = "2.4"\n'
    config = written(table, exclude=["c"], extend_exclude=["d"], force_exclude=False, target_torch="2.6.1+cu124")
    assert (config.exclude, config.extend_exclude) == (("c",), ("b", "d"))
    assert (config.force_exclude, config.target_torch) == (False, (2, 6))
    assert written(table).target_torch == (2, 4)
    assert load_config(None, {"target_torch": (2, 7)}, RULES).target_torch == (2, 7)


@pytest.mark.parametrize(
    "value",
    [
        {"tests/*": ["DEV101", "DEV301"], "x.py": ["ALL"]},
        (("tests/*", ("DEV101", "DEV301")), ("x.py", ("ALL",))),
        "tests/*:DEV101,tests/*:DEV301,x.py:ALL",
        ["tests/*:DEV101,DEV301", "x.py: ALL"],
    ],
)
def test_per_file_ignores_as_option(value):
    here = Path.cwd().as_posix()
    config = load_config(None, {"per-file-ignores": value}, RULES)
    assert config.per_file_ignores == ((f"{here}/tests/*", ("DEV101", "DEV301")), ("x.py", ("ALL",)))


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("tests/*", "tests/test_a.py", True),
        ("tests/*", "tests/deep/test_a.py", True),
        ("tests/*", "src/tests/test_a.py", False),
        ("**/tests/*", "src/tests/test_a.py", True),
        ("**/tests/*", "tests/test_a.py", True),
        ("tests", "tests/test_a.py", True),
        ("tests", "src/tests/deep/a.py", True),
        ("tests", "src/mytests/a.py", False),
        ("tests/", "tests/a.py", True),
        ("./tests/*", "tests/a.py", True),
        ("__init__.py", "a/b/__init__.py", True),
        ("__init__.py", "a/b/x__init__.py", False),
        ("*_pb2.py", "a/x_pb2.py", True),
        ("src/**/a?.py", "src/x/y/a1.py", True),
        ("src/**/a?.py", "src/a1.py", True),
        ("src/**/a?.py", "src/a.py", False),
        ("a[0-9].py", "a1.py", True),
        ("a[!0-9].py", "a1.py", False),
        ("a[!0-9].py", "ax.py", True),
        ("a[]b].py", "a].py", True),
        ("a[z-a].py", "a[z-a].py", True),
        ("a[b.py", "a[b.py", True),
        ("a+(b).py", "a+(b).py", True),
        ("a+(b).py", "aa(b).py", False),
        ("!src/*", "src/a.py", False),
        ("!src/*", "tests/a.py", True),
        ("!src", "src/b/a.py", False),
        ("!a.py", "b.py", True),
    ],
)
def test_per_file_ignores(pattern, path, ignored):
    config = load_config(None, {"per-file-ignores": {pattern: ["DEV101"]}}, RULES)
    for given in (path, f"./{path}", str(Path(path).absolute())):
        assert config.enabled_in("DEV101", Group.BUG, given) is not ignored
        assert config.enabled_in("DEV301", Group.BUG, given)
        assert not config.enabled_in("DEV402", Group.PORTABILITY, given)


def test_per_file_ignores_take_all_selectors_and_spare_devlint_itself():
    selectors = {"a.py": ["bug"], "b.py": ["DEV"], "c.py": ["ALL"], "d.py": ["DEV1"]}
    config = load_config(None, {"select": ["ALL"], "per-file-ignores": selectors}, RULES)
    left = {
        file: {code for code, rule in RULES.items() if config.enabled_in(code, rule.groups[0], file)}
        for file in selectors
    }
    assert left["a.py"] == {"DEV402", "DEV705", "DEV804", "DEV900", "DEV904"}
    assert left["b.py"] == {"DEV402", "DEV705", "DEV900", "DEV904"}
    assert left["c.py"] == {"DEV900"}
    assert left["d.py"] == set(RULES) - {"DEV101", "DEV109"}


def test_patterns_look_below_the_root_only(tmp_path, monkeypatch):
    """A checkout in a folder named build or tests is checked like any other."""
    root = tmp_path / "build" / "tests[1]"
    (root / "src").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[tool.devlint.per-file-ignores]\n"tests*" = ["ALL"]\n"src/b.py" = ["ALL"]\n')
    monkeypatch.chdir(root / "src")
    config = load_config(find_config(Path()), {}, RULES)
    assert config.root == root
    assert config.enabled_in("DEV101", Group.BUG, "a.py")
    assert config.enabled_in("DEV101", Group.BUG, str(root))
    assert not config.enabled_in("DEV101", Group.BUG, "tests1/a.py")
    assert not config.enabled_in("DEV101", Group.BUG, "b.py"), "a pattern of the file counts from the file's folder"
    own = load_config(config.source, {"per-file-ignores": "./b.py:ALL,./x/c.py:ALL"}, RULES)
    assert not own.enabled_in("DEV101", Group.BUG, "x/c.py"), "one of the command from the current folder"
    assert own.enabled_in("DEV101", Group.BUG, str(root / "x" / "c.py"))


def test_matching_outside_of_the_root_is_by_the_last_name():
    assert matches("x.py", "/elsewhere/x.py", "/root")
    assert not matches("elsewhere", "/elsewhere/x.py", "/root")
    assert not matches("root", "/root", "/root")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["DEV1"]', 'unknown key "selct", did you mean "select"?'),
        (
            'extend_select = ["DEV1"]',
            'unknown key "extend_select", did you mean "extend-select"?',
        ),
        ("xyz = 1", 'unknown key "xyz"'),
        ('select = "DEV1"', '"select" must be a list of strings, not a string'),
        ("select = [1]", '"select" must be a list of strings, it holds an integer'),
        (
            'select = ["DEV41"]',
            '"select": unknown rule, code or group "DEV41", did you mean "DEV402"?',
        ),
        (
            'ignore = ["dev101"]',
            '"ignore": unknown rule, code or group "dev101", did you mean "DEV101"?',
        ),
        (
            'ignore = ["portabilty"]',
            '"ignore": unknown rule, code or group "portabilty", did you mean "portability"?',
        ),
        (
            'ignore = ["cuda_amp"]',
            '"ignore": unknown rule, code or group "cuda_amp", did you mean "cuda-amp"?',
        ),
        (
            'ignore = ["all"]',
            '"ignore": unknown rule, code or group "all", did you mean "ALL"?',
        ),
        ('exclude = "a"', '"exclude" must be a list of strings, not a string'),
        (
            'force-exclude = "yes"',
            '"force-exclude" must be true or false, not a string',
        ),
        ("unsafe-fixes = 1", '"unsafe-fixes" must be true or false, not an integer'),
        (
            'output-format = "jsn"',
            '"output-format": unknown format "jsn", did you mean "json"?',
        ),
        ("output-format = 3", '"output-format" must be a string, not an integer'),
        (
            "target-torch = 2.10",
            '"target-torch" must be a string such as "2.6", not a number',
        ),
        (
            'target-torch = "two"',
            '"target-torch": "two" is no version of torch, write it as "2.6"',
        ),
        (
            'per-file-ignores = ["a:DEV1"]',
            '"per-file-ignores" must be a table of patterns, not a list',
        ),
        (
            'per-file-ignores = {"a" = "DEV1"}',
            '"per-file-ignores", "a" must be a list of strings, not a string',
        ),
        (
            'per-file-ignores = {"a" = ["DEV77"]}',
            '"per-file-ignores": unknown rule, code or group "DEV77", did you mean "DEV705"?',
        ),
    ],
)
def test_a_wrong_file_is_told_what_is_right(text, message):
    with pytest.raises(ConfigError) as caught:
        written(f"[tool.devlint]\n{text}\n")
    assert str(caught.value).startswith("pyproject.toml: ")
    assert str(caught.value).removeprefix("pyproject.toml: ").replace(" in [tool.devlint]", "", 1) == message


def test_the_whole_message():
    with pytest.raises(ConfigError) as caught:
        written('[tool.devlint]\nselct = ["DEV1"]\n')
    assert str(caught.value) == 'pyproject.toml: unknown key "selct" in [tool.devlint], did you mean "select"?'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selct": ["DEV1"]}, 'unknown option "selct", did you mean "select"?'),
        ({"extend_slect": ["DEV1"]}, 'unknown option "extend_slect", did you mean "extend-select"?'),
        (
            {"extend_select": "DEV77"},
            'option "extend-select": unknown rule, code or group "DEV77", did you mean "DEV705"?',
        ),
        ({"select": 3}, 'option "select" must be a list of strings, not an integer'),
        ({"target_torch": "x"}, 'option "target-torch": "x" is no version of torch, write it as "2.6"'),
        ({"per_file_ignores": "a"}, 'option "per-file-ignores": "a" must be written as PATTERN:CODE'),
        ({"per_file_ignores": "a:"}, 'option "per-file-ignores": "a:" must be written as PATTERN:CODE'),
        ({"per_file_ignores": {1: ["DEV1"]}}, 'option "per-file-ignores" must have patterns as keys, not an integer'),
    ],
)
def test_a_wrong_option_is_told_what_is_right(options, message):
    with pytest.raises(ConfigError) as caught:
        load_config(None, options, RULES)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[tool.devlint]\nselect = [\n", "pyproject.toml: is not valid TOML: "),
        (b"[tool.devlint]\n# \xe9\n", "pyproject.toml: is not UTF-8 (byte 17)"),
        (b"[tool]\ndevlint = 3\n", "pyproject.toml: tool.devlint must be a table"),
        (b"[tool.ruff]\n", "pyproject.toml: there is no table [tool.devlint] in it"),
    ],
)
def test_a_file_that_is_no_configuration(data, message):
    Path("pyproject.toml").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_config(Path("pyproject.toml"), {}, RULES)
    assert str(caught.value).startswith(message)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"^x\.toml: cannot be read: No such file or directory$"):
        load_config(tmp_path / "x.toml", {}, RULES)


# --- finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[tool.devlint]\n", True),
        ('[ tool . "devlint" ]\nselect = []\n', True),
        ("[tool]\ndevlint = {select = []}\n", True),
        ("[tool.devlint.per-file-ignores]\n", True),
        ("[tool.devlint\n", True),
        ("[tool]\ndevlint = 3\n", True),
        ('[project]\ndependencies = ["devlint"]\n', False),
        ("[tool.ruff]\n", False),
        ("[tool.ruff\n", False),
        ("", False),
    ],
)
def test_only_a_file_with_the_table_is_taken(tmp_path, text, found):
    """One without it does not hide the one above; a broken one that names devlint is taken, so that it is seen."""
    (tmp_path / "pyproject.toml").write_text("[tool.devlint]\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text(text)
    assert find_config(inner) == (tmp_path / "a" if found else tmp_path) / "pyproject.toml"


def test_nothing_is_found_where_nothing_is(tmp_path):
    # Above the temporary folder there is no configuration either.
    assert find_config(tmp_path / "not" / "there") is None
    (tmp_path / "pyproject.toml").mkdir()
    assert find_config(tmp_path) is None


def test_a_toml_reader_is_loaded_only_for_a_file_that_names_devlint(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    code = (
        "import sys\nfrom pathlib import Path\nfrom devlint.config import find_config, load_config\n"
        "load_config(find_config(Path()), {'select': ['DEV1']}, {'DEV101': None})\n"
        "print([name for name in ('tomllib', 'tomli', 'difflib', 'torch', 'libcst') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
