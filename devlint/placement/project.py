"""Names of the project: the file that an imported name comes from, and what it is there.

Files are found as Python finds them when the file that imports is run or imported: beside it, or from the folder that
holds its top package; and from the project's root and its `src`. They are read when first asked for, and never run.

Classes are known by their syntax, through any number of files. What a function gives, and what a class keeps in an
attribute, is inferred in its own file, without asking for the functions of further files: so the answer is the same
whichever file asked first, and files that import each other come to an end.
"""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devlint import screen
from devlint.placement import values as v
from devlint.placement.api import Facts, constructor
from devlint.placement.effects import happened, is_as_written
from devlint.placement.values import Origin, Place, Value
from devlint.source import SourceError, decode_source, encode_source
from devlint.source.text import Source
from devlint.syntax.names import Names
from devlint.syntax.trees import walk

if TYPE_CHECKING:
    from devlint.placement.api import Row
    from devlint.placement.calls import Arguments
    from devlint.placement.evaluate import Evaluator
    from devlint.placement.infer import Inference

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KEPT = 6_000_000
"""So many characters of a project's files are kept as trees at a time; a character takes about 35 bytes."""
_LONGEST = 30
"""A name of more parts than these is not looked for: it comes of imports that go round."""
_STARS = 8
"""A file that imports `*` from more files than these is not followed: each would be read for each name."""


@dataclass(eq=False)
class Module:
    """One file of the project that another imports from."""

    path: Path
    text: str
    tree: ast.Module
    seen: screen.Seen
    rows: dict[ast.ClassDef, Row | None] = field(default_factory=dict)
    """What is known of its classes; None while that is worked out."""

    @cached_property
    def names(self) -> Names:
        return Names(self.tree)

    @cached_property
    def name(self) -> str:
        """Its dotted name, from its top package on."""
        parts = self.path.relative_to(_top(self.path)).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")

    @cached_property
    def stars(self) -> list[str]:
        """The modules whose names it imports by `*`."""
        found = (node for node in walk(self.tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
        return ["." * node.level + (node.module or "") for node in found]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a name leads to: a class, function or assigned name at the top of a module, and attributes on it."""

    module: Module
    node: ast.AST
    tail: tuple[str, ...] = ()

    @property
    def of_class(self) -> ast.ClassDef | None:
        """The class that the name leads to; None for anything else, an attribute of a class as well."""
        return self.node if isinstance(self.node, ast.ClassDef) and not self.tail else None


class Project:
    """The files below one root."""

    def __init__(self, root: Path, facts: Facts) -> None:
        self._root = root.resolve()
        self._facts = facts
        self._modules: dict[Path, tuple[tuple[int, int], Module | None]] = {}
        self._weight = 0
        self._imports: dict[Path, Imports] = {}
        self._inferences: dict[Path, Inference] = {}

    def facts_for(self, module: Module) -> Facts:
        """The facts for one file: those of the tables, and those that its imports lead to, where it is a file."""
        return replace(self._facts, beyond=Surroundings(self, module.path)) if module.path.is_file() else self._facts

    def of(self, source: Source, tree: ast.Module | None = None) -> Module:
        """The module of a file that is checked, with its `tree` where the caller has it already.

        It is kept for those that import from it, if the file on the disk has this text.

        Raises:
            SyntaxError: the text is not valid Python.
            TooComplex: it is larger or nested deeper than is checked.
        """
        self._forget_some()
        path = Path(source.path).resolve()
        self._imports.pop(path, None)  # each neighbour is looked at again: it may have changed
        _, known = self._modules.get(path, (None, None))
        if known is not None and known.text == source.text:
            return known
        tree = tree or screen.parse(source.text)
        module = Module(path, source.text, tree, screen.look(tree, source))
        try:
            status = path.stat()
            if status.st_size == len(encode_source(source, source.text)):
                self._keep(path, (status.st_mtime_ns, status.st_size), module)
        except (OSError, SourceError):
            pass
        return module

    def module(self, path: Path) -> Module | None:
        """The module in a file that another imports from; None where it cannot be read."""
        try:
            status = path.stat()
        except OSError:
            return None
        state = (status.st_mtime_ns, status.st_size)
        seen, known = self._modules.get(path, (None, None))
        if seen != state:
            return self._keep(path, state, _read(path, status.st_size))
        self._modules[path] = self._modules.pop(path)  # the one asked for last is forgotten last
        return known

    def _forget_some(self) -> None:
        """Forget files that were long not asked for, where there are too many.

        This is done between two files, so that what one of them was told stays true while it is checked.
        """
        if self._weight <= _KEPT:
            return
        self._imports.clear()  # they hold what they led to
        while self._weight > _KEPT // 2:
            gone = next(iter(self._modules))
            self._weight -= _weight(self._modules.pop(gone)[1])
            self._inferences.pop(gone, None)
        gc.collect()  # an inference and what it asks refer to each other; left to Python, memory doubles

    def _keep(self, path: Path, state: tuple[int, int], module: Module | None) -> Module | None:
        if self._modules.get(path, (None, None))[1] is not None:
            # It changed, and what is known of any other file may hang on it.
            for known in (self._modules, self._imports, self._inferences):
                known.clear()
            self._weight = 0
        self._modules[path] = (state, module)
        self._weight += _weight(module)
        return module

    def imports(self, path: Path) -> Imports:
        """The imports of a file."""
        if path not in self._imports:
            self._imports[path] = Imports(self, path)
        return self._imports[path]

    def inference(self, module: Module) -> Inference:
        """The inference of a module, which knows of other files their classes only."""
        from devlint.placement.infer import Inference

        found = self._inferences.get(module.path)
        if found is None or found.tree is not module.tree:
            facts = replace(self._facts, beyond=Surroundings(self, module.path, classes_only=True))
            found = self._inferences[module.path] = Inference(module.tree, module.names, module.seen, facts)
        return found

    def folders(self, path: Path) -> list[str]:
        """Where the absolute imports of a file are looked for."""
        top = _top(path)
        folders = [top]
        if self._root in path.parents:
            folders += [folder for folder in (self._root, self._root / "src") if folder != top]
        return list(map(str, folders))


class Imports:
    """Where the names that one file imports lead to."""

    def __init__(self, project: Project, path: Path) -> None:
        self._project = project
        self._path = path
        self._found: dict[str, Definition | str | None] = {}
        self._starts: dict[str, str | None] = {}

    def find(self, name: str) -> Definition | str | None:
        """What a qualified name leads to: a definition of the project, a library's name, or neither."""
        if name not in self._found:
            self._found[name] = None  # a name that is imported from itself
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name: str) -> Definition | str | None:
        module, rest = self._split(name)
        return self._inside(Path(module), rest) if module and rest else None

    def _split(self, name: str) -> tuple[str, list[str]]:
        """The file that the first parts of a name stand for, empty where there is none, and the other parts."""
        folder, parts = self._start(name)
        if folder is None or len(parts) > _LONGEST:
            return "", parts
        module = ""
        taken = 0
        for taken, part in enumerate(parts):
            inner = f"{folder}{os.sep}{part}"
            if _is_file(f"{inner}{os.sep}__init__.py"):
                folder, module = inner, f"{inner}{os.sep}__init__.py"
            elif _is_file(f"{inner}.py"):
                module, taken = f"{inner}.py", taken + 1
                break
            elif _is_folder(inner):
                folder, module = inner, ""
            else:
                break
        else:
            taken = len(parts)
        if not module and name.startswith(".") and taken == 0:
            module = f"{folder}{os.sep}__init__.py"
        return module, parts[taken:]

    def _start(self, name: str) -> tuple[str | None, list[str]]:
        """The folder in which the parts of a name are looked for, one by one."""
        stripped = name.lstrip(".")
        level = len(name) - len(stripped)
        parts = stripped.split(".")
        if level:
            return str(self._path.parents[level - 1]) if level <= len(self._path.parents) else None, parts
        root = parts[0]
        if root not in self._starts:
            self._starts[root] = next((folder for folder in self._folders if _has(folder, root)), None)
        return self._starts[root], parts

    @cached_property
    def _folders(self) -> list[str]:
        return self._project.folders(self._path)

    def _inside(self, path: Path, parts: list[str]) -> Definition | str | None:
        """What a name in another file is, through what that file imports."""
        module = self._project.module(path)
        if module is None:
            return None
        scope = module.names.module
        name, tail = parts[0], tuple(parts[1:])
        bound, imports = scope.bound.get(name, []), scope.imports.get(name, set())
        if len(bound) == 1 and not imports:
            node = bound[0]
            plain = isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Name))
            return Definition(module, node, tail) if plain else None
        there = self._project.imports(path)
        if len(imports) == 1 and not bound:
            return there.behind(".".join([next(iter(imports)), *tail]))
        if bound or imports or len(module.stars) > _STARS:
            return None
        files = [star for star in module.stars if not there._split(star)[1]]  # of a file that is there
        names = [f"{star}{'' if star.endswith('.') else '.'}{'.'.join(parts)}" for star in files]
        known = [found for found in map(there.find, names) if found is not None]
        return known[0] if len(known) == 1 else None

    def behind(self, name: str) -> Definition | str | None:
        """What one of the file's own imports leads to: within the project, else the library's name."""
        found = self.find(name)
        if found is not None:
            return found
        return name if not name.startswith(".") and self._start(name)[0] is None else None


class Surroundings:
    """What the imports of one file lead to. Classes alone, or functions and constants as well."""

    def __init__(self, project: Project, path: Path, classes_only: bool = False) -> None:
        self.project = project
        self.classes_only = classes_only
        self._imports = project.imports(path)
        self._canonical: dict[str, str] = {}
        self._full: dict[str, Definition] = {}
        """Definitions by their full names, under which the values of this file know them."""

    # --- asked by the facts ---------------------------------------------------------------------------------------

    def canonical(self, name: str) -> str:
        """The library's name that a name of the project stands for; of its own definitions the full name."""
        known = self._canonical.get(name)
        if known is None:
            found = self._find(name)
            full = found if isinstance(found, str) else self._register(found) if found is not None else None
            known = self._canonical[name] = full or name
        return known

    def row(self, table: str, name: str) -> Row | None:
        """What is known of a class of the project, or of its constructor."""
        found = self._find(name)
        if not isinstance(found, Definition) or found.of_class is None:
            return None
        row = self._class_row(found.module, found.of_class)
        return row if row is None or table == "class" else constructor(name, row)

    def constant(self, name: str) -> Value | None:
        """A device, text or number that is assigned once at the top of another file."""
        found = None if self.classes_only else self._find(name)
        if not isinstance(found, Definition) or found.tail or not isinstance(found.node, ast.Name):
            return None
        module = found.module
        value = self.project.inference(module).run(module.tree).state.names.get(found.node.id)
        if value is None or value.kind not in (v.DEVICE, v.TEXT, v.NUMBER):
            return None
        place = value.place
        if value.kind != v.NUMBER and not place.device:
            place = Place(key=("global", module.path, found.node.id), text=name.rsplit(".", 1)[-1])
        return Value(kind=value.kind, const=value.const, place=place, ids=frozenset([("global", name)]))

    def result(self, name: str, arguments: Arguments, receiver: Value | None, evaluator: Evaluator) -> Value | None:
        """What calling a function of another file gives, or a method of a class there."""
        known = self._function(name)
        if known is None or not is_as_written(known[1]):
            return None
        module, function = known
        callee = Value(kind=v.FUNCTION, node=function)
        inference = self.project.inference(module)
        return self._carried(module, inference.function_result(callee, arguments, receiver, evaluator))

    def called(self, name: str, evaluator: Evaluator, node: ast.Call) -> None:
        """A function of another file, or a method of a class there, was called at `node`."""
        known = self._function(name)
        if known is not None:
            inference = self.project.inference(known[0])
            happened(evaluator, inference.effects, known[1], node, lambda outer: False)

    def _function(self, name: str) -> tuple[Module, ast.FunctionDef] | None:
        found = None if self.classes_only else self._find(name)
        if not isinstance(found, Definition):
            return None
        function: ast.AST | None = found.node
        if isinstance(function, ast.ClassDef) and len(found.tail) == 1:
            function = self.project.inference(found.module).classes.method(function, found.tail[0])
        elif found.tail:
            return None
        return (found.module, function) if isinstance(function, ast.FunctionDef) else None

    def is_function(self, name: str) -> bool:
        """Whether a name is that of a function of another file."""
        found = self._find(name)
        return isinstance(found, Definition) and isinstance(found.node, _FUNCTIONS)

    def attribute(self, name: str, attribute: str) -> Value | None:
        """What instances of a class of another file keep in an attribute, or the method of that name."""
        values: list[Value] = []
        for module, node in () if self.classes_only else self.family(name):
            classes = self.project.inference(module).classes
            method = classes.own_method(node, attribute)
            if method is not None:
                known = None if method.decorator_list else self._register(Definition(module, node))
                return Value(kind=v.NAME, type=f"{known}.{attribute}") if known is not None else None
            values += [
                self._carried(module, _of_instance(value, name, attribute, module))
                for value in classes.stored(node, attribute)
                if value.kind != v.NOTHING
            ]
        return v.join_all(values) if values else None

    def family(self, name: str) -> Iterator[tuple[Module, ast.ClassDef]]:
        """A class of another file and its bases in further files, each with its module."""
        found = self._find(name)
        if not isinstance(found, Definition) or found.of_class is None:
            return
        waiting = [(found.module, found.of_class)]
        seen: set[ast.ClassDef] = set()
        while waiting:
            module, node = waiting.pop(0)
            if node in seen:
                continue
            seen.add(node)
            yield module, node
            there = self.project.imports(module.path)
            for base in self.project.inference(module).classes.bases(node):
                if isinstance(base, ast.ClassDef):
                    waiting.append((module, base))
                further = there.find(base) if isinstance(base, str) else None
                if isinstance(further, Definition) and further.of_class is not None:
                    waiting.append((further.module, further.of_class))

    # --- classes --------------------------------------------------------------------------------------------------

    def _class_row(self, module: Module, node: ast.ClassDef) -> Row | None:
        if node not in module.rows:
            module.rows[node] = None  # a class whose base is made from itself, by way of another file
            module.rows[node] = _row_of(self.project.inference(module), node)
        return module.rows[node]

    def _register(self, found: Definition) -> str | None:
        """A definition's full name, by which it is found again; None where another one has it here."""
        node = found.node
        name = node.id if isinstance(node, ast.Name) else getattr(node, "name", "")
        full = ".".join([found.module.name, name, *found.tail])
        return full if self._full.setdefault(full, found).node is node else None

    def _find(self, name: str) -> Definition | str | None:
        return self._full.get(name) or self._imports.find(name)

    def _carried(self, module: Module, value: Value) -> Value:
        """A value that comes out of another file: its class goes by its name there, a device chosen there by none."""
        name, place = "", value.place
        if isinstance(place.key, tuple) and place.key[-1] in self.project.inference(module).parents:
            place = replace(place, text="")
        if isinstance(value.node, ast.ClassDef) and value.node in module.tree.body:
            name = self._register(Definition(module, value.node)) or ""
        return replace(
            value,
            node=None,
            place=place,
            type=name or value.type,
            items=tuple(self._carried(module, item) for item in value.items) if value.items is not None else None,
            element=self._carried(module, value.element) if value.element is not None else None,
        )


def _row_of(inference: Inference, node: ast.ClassDef) -> Row:
    """A class of the project, as the class table would have it."""
    classes = inference.classes
    bases: dict[str, None] = {}
    for base in classes.lineage(node):
        if isinstance(base, str) and not inference.facts.is_own(base):
            bases[base] = None
    kind = classes.kind(node)
    row: dict[str, Any] = {"kind": kind, "bases": list(bases), "own": True}
    if kind in v.MODULE_KINDS:
        row["state"] = True if classes.has_state(node) else "children"
    row["open"] = not classes.complete(node)
    row["call"] = {"place": "unknown" if classes.places_itself(node) else "factory"}
    return row


def _of_instance(value: Value, name: str, attribute: str, module: Module) -> Value:
    """An attribute's value outside of the file that sets it."""
    place = value.place
    if place.key is not None:
        place = Place(key=("attribute", name, attribute), text=f"self.{attribute}" if place.text else "")
    origin = value.origin
    if origin is not None and origin.row:
        origin = Origin(f"{origin.words} at line {origin.row} of {module.path.name}")
    return replace(
        value, place=place, origin=origin, ids=frozenset([("attribute", name, attribute)]), alternatives=(), keys=None
    )


def _top(path: Path) -> Path:
    """The folder from which a file's package is imported; for a script the one that it lies in."""
    folder = path.parent
    while _is_file(f"{folder}{os.sep}__init__.py") and folder.parent != folder:
        folder = folder.parent
    return folder


def _read(path: Path, size: int) -> Module | None:
    """Read and parse a file of `size` bytes."""
    if size > screen.MAX_BYTES:
        return None
    try:
        source: Source = decode_source(path.read_bytes(), str(path))
        tree = screen.parse(source.text)
        return Module(path, source.text, tree, screen.look(tree, source))
    except (OSError, SourceError, SyntaxError, screen.TooComplex):
        return None


def _weight(module: Module | None) -> int:
    return len(module.text) if module is not None else 0


def _has(folder: str, root: str) -> bool:
    """Whether a folder holds the module, or the folder with modules, that a name starts with."""
    inner = f"{folder}{os.sep}{root}"
    return _is_file(f"{inner}.py") or _is_folder(inner)


@lru_cache(maxsize=65536)
def _is_file(path: str) -> bool:
    return os.path.isfile(path)


@lru_cache(maxsize=65536)
def _is_folder(path: str) -> bool:
    return os.path.isdir(path)
