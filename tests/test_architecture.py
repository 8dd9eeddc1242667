"""The shape of the house: which part may import which, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHECKOUT, environment

PACKAGE = CHECKOUT / "devlint"

# Each part may import those before it and those of its own place.
ORDER = (
    ("finding", "config"),
    ("source",),
    ("screen",),
    ("syntax",),
    ("placement",),
    ("checks",),
    ("rulebook",),
    ("edits",),
    ("engine",),
    ("files", "output"),
    ("session",),
    ("verifying",),
    ("cli", "flake8_plugin", "lsp", "pytest_plugin", "__init__", "__main__"),
)
PLACE = {part: place for place, parts in enumerate(ORDER) for part in parts}

# The version is plain data, which every part may read; the package imports nothing when it is imported.
SLOW_LIBCST = ("libcst.matchers", "libcst.metadata", "libcst.codemod")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "_rules" not in path.parts)


def part_of(path: Path) -> str:
    """The first name below the package: `syntax` for devlint/syntax/walk.py, `cli` for devlint/cli.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(
    tree: ast.AST, package: str, *, runtime_only: bool = False, top_only: bool = False
) -> list[tuple[str, int]]:
    """Imported modules, with the names taken from them, and rows. Of `from a import b` both `a` and `a.b` count.

    `package` is where the module lies, for relative imports.
    `runtime_only` leaves out what stands under `if TYPE_CHECKING`, `top_only` what stands in functions.
    """
    found: list[tuple[str, int]] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if runtime_only and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if top_only and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found.append((module, node.lineno))
            found += [(f"{module}.{alias.name}", node.lineno) for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            argument = node.args[0]
            if isinstance(argument, ast.Constant):
                found.append((str(argument.value), node.lineno))
        waiting += ast.iter_child_nodes(node)
    return found


def under(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in modules()}


def faults(tree: ast.AST, part: str, package: str) -> list[str]:
    """What is wrong with the imports of a module of this part, which lies in this package."""
    wrong = []
    for module, row in imports(tree, package):
        if under(module, "devlint") and module.count("."):
            target = module.split(".")[1]
            if target == "__version__":
                continue
            if part == "runtime":
                if target not in ("runtime", "finding"):
                    wrong.append(f"{row}: runtime imports {module}, and may import finding alone")
            elif target == "runtime":
                if PLACE[part] < PLACE["verifying"]:
                    wrong.append(f"{row}: {part} imports {module}, only doors may")
            elif target not in PLACE:
                wrong.append(f"{row}: {module} has no place in ORDER")
            elif PLACE[target] > PLACE[part]:
                wrong.append(f"{row}: {part} imports {module}, which stands above it")
        if under(module, "torch") and part != "runtime":
            wrong.append(f"{row}: torch is imported outside of runtime/")
        if any(under(module, slow) for slow in SLOW_LIBCST):
            wrong.append(f"{row}: {module} is too slow to import")
    for module, row in imports(tree, package, runtime_only=True):
        if under(module, "libcst") and part != "syntax":
            wrong.append(f"{row}: libcst is imported outside of syntax/")
    for module, row in imports(tree, package, runtime_only=True, top_only=True):
        if under(module, "libcst"):
            wrong.append(f"{row}: libcst is imported with the module, not when it is needed")
    return wrong


@pytest.mark.parametrize("path", TREES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_arrows(path):
    assert part_of(path) in PLACE or part_of(path) == "runtime", f"{path} has no place in ORDER"
    package = ".".join(["devlint", *path.relative_to(PACKAGE).parts[:-1]])
    assert faults(TREES[path], part_of(path), package) == []


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("finding", "from devlint.config import Config\nfrom devlint import source"),
        ("source", "def f():\n    from devlint.engine import check_bytes"),
        ("engine", "from devlint.runtime import devices"),
        ("runtime", "from devlint.engine import Report"),
        ("cli", "import torch"),
        ("cli", "from torch.nn import Module"),
        ("engine", "def f():\n    import libcst"),
        ("syntax", "import libcst as cst"),
        ("syntax", "def f():\n    from libcst import matchers"),
        ("checks", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import libcst.metadata"),
        ("checks", "from devlint import rulebook"),
        ("cli", "import devlint.somewhere_new"),
        ("runtime", "from ..engine import Report"),
        ("source", "from .. import engine"),
    ],
)
def test_the_test_itself_sees_a_wrong_import(part, code):
    assert faults(ast.parse(code), part, f"devlint.{part}")


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("cli", "def f():\n    from devlint.runtime.devices import describe"),
        ("runtime", "import torch"),
        ("runtime", "from devlint.finding import Finding"),
        ("syntax", "def f():\n    import libcst"),
        ("checks", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import libcst as cst"),
        ("flake8_plugin", "from devlint import __version__"),
        ("runtime", "from .machine import Machine"),
        ("runtime", "from . import machine"),
        ("runtime", "from ..finding import Finding"),
    ],
)
def test_the_test_itself_lets_a_right_import_pass(part, code):
    assert faults(ast.parse(code), part, f"devlint.{part}") == []


def loaded(code: str, cwd: Path, *arguments: str) -> set[str]:
    """The modules that a fresh interpreter holds after `code`."""
    program = f"{code}\nimport sys; sys.stderr.write('\\n'.join(['', 'MODULES', *sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True
    )
    assert "MODULES\n" in done.stderr, done.stderr
    return set(done.stderr.partition("MODULES\n")[2].split())


COMMAND = (
    "from devlint.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert end.code == {code}, end"
)


def test_importing_devlint_loads_nothing(tmp_path):
    extra = loaded("import devlint", tmp_path) - loaded("", tmp_path)
    assert {module.split(".")[0] for module in extra} - set(sys.stdlib_module_names) == {"devlint"}
    assert {module for module in extra if module.startswith("devlint")} == {"devlint"}


def test_the_version_loads_click_alone(tmp_path):
    modules = loaded(COMMAND.format(code=0), tmp_path, "--version")
    assert {module.split(".")[0] for module in modules} & {"libcst", "torch", "pathspec", "tomllib", "flake8"} == set()
    assert {module for module in modules if under(module, "devlint")} == {"devlint", "devlint.cli"}


def test_a_file_without_torch_loads_no_libcst(tmp_path):
    (tmp_path / "plain.py").write_text("import os\nprint(os.sep)\n")
    modules = loaded(COMMAND.format(code=0), tmp_path, "check", "--isolated", "plain.py")
    assert "devlint.engine" in modules
    assert modules & {"libcst", "torch", "pathspec"} == set()


def test_a_torch_file_in_which_no_rule_can_fire_loads_no_libcst(tmp_path):
    (tmp_path / "plain.py").write_text("import torch\nprint(torch.__version__)\n")
    modules = loaded(COMMAND.format(code=0), tmp_path, "check", "--isolated", "plain.py")
    assert modules & {"libcst", "torch"} == set()


def test_a_finding_loads_no_slow_part_of_libcst(tmp_path):
    (tmp_path / "loads.py").write_text("import torch\ndef f(x: torch.Tensor, d):\n    x.to(d)\n    return x\n")
    modules = loaded(COMMAND.format(code=1), tmp_path, "check", "--isolated", "loads.py")
    assert "libcst" in modules
    # `import libcst` itself loads a few small modules below libcst.metadata; ours may add none.
    extra = modules - loaded("import libcst", tmp_path)
    assert not {module for module in extra if any(under(module, slow) for slow in SLOW_LIBCST)}
    assert "torch" not in modules


def test_the_flake8_plugin_loads_nothing_for_files_without_torch(tmp_path):
    code = (
        "import ast; from devlint.flake8_plugin import Plugin\n"
        "assert list(Plugin(ast.parse('x = 1'), 'a.py', ['x = 1\\n']).run()) == []"
    )
    extra = loaded(code, tmp_path) - loaded("import ast", tmp_path)
    assert {module for module in extra if module.startswith("devlint")} == {"devlint", "devlint.flake8_plugin"}
    assert {module.split(".")[0] for module in extra} - set(sys.stdlib_module_names) == {"devlint"}
