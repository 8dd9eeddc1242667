"""What a script prints and writes: once, by the first process."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from devlint.checks.ddp.flows import Flows
from devlint.checks.ddp.script import ByHand, Script, argument
from devlint.checks.ddp.wrapping import Wraps
from devlint.finding import Edit
from devlint.placement.infer import Function
from devlint.syntax.trees import last_name, walk

_WRITES = frozenset(
    (
        *("torch.save", "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "json.dump"),
        *("pickle.dump", "yaml.dump", "joblib.dump", "os.remove", "os.rename", "os.replace"),
        *("os.unlink", "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.move", "shutil.rmtree"),
        *("matplotlib.pyplot.savefig", "matplotlib.pyplot.show", "sys.stdout.write", "sys.stderr.write"),
        *("sys.stdout.flush", "sys.stderr.flush", "torchvision.utils.save_image"),
    )
)
_FOLDERS = frozenset({"os.mkdir", "os.makedirs"})
_WRITING_METHODS = frozenset({"to_csv", "write_text", "write_bytes", "savefig", "unlink"})
_WRITERS = ("torch.utils.tensorboard.", "tensorboardX.")
_SERVICES = frozenset({"wandb", "mlflow", "comet_ml", "neptune", "visdom", "clearml", "aim"})
_LIBRARIES = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "torchmetrics", "torchinfo", "torchsummary", "tensorboardX", "timm"),
        *("numpy", "scipy", "sklearn", "pandas", "matplotlib", "tqdm", "PIL", "cv2", "transformers", "apex", "thop"),
        *sys.stdlib_module_names,
    }
)
_WRITING = re.compile(r"save|log_|log$|write|dump|plot|progress|display|print|show", re.IGNORECASE)
"""What the name of another file's function says where it shows or writes something."""
_BARS = re.compile(r"tqdm(\.\w+)*\.(tqdm|trange|tqdm_notebook)")


class Output:
    def __init__(self, script: Script, flows: Flows, wraps: Wraps) -> None:
        self._script = script
        self._flows = flows
        self._wraps = wraps
        self._writers = [c for c in script.calls if script.name(c.func).startswith(_WRITERS)]
        self.returning = [function for function in script.functions if self._only_writes(function)]
        """The functions that do nothing but write: processes other than the first leave them at once."""
        self.groups = list(self._find_groups())
        """Statements that follow each other and write."""

    def migrate(self) -> None:
        """The edits; those of numbers within the guarded statements must have been made before."""
        script = self._script
        self._check()
        for call in script.calls:
            if script.is_builtin(call.func, "print") and self.group_of(call) is None:
                if not self._in_returning(call):
                    script.need("print_once")
                    script.replace(call.func, "print_once")
                    self._align(call)
            elif script.name(call.func) in _FOLDERS or last_name(call.func) == "mkdir":
                self._make_folder(call)
            elif _BARS.fullmatch(script.name(call.func)) and argument(call, "disable") is None:
                script.need("RANK")
                append_argument(script, call, "disable=RANK != 0")
            elif script.name(call.func).startswith("logging."):
                script.need("logging")
        for call in self._writers:
            statement = script.parents[call]
            if not isinstance(statement, ast.Assign):
                raise ByHand(f"the SummaryWriter of line {call.lineno}")
            script.need("RANK")
            script.insert(script.span(call)[1], " if RANK == 0 else None")
        for function in self.returning:
            script.need("RANK")
            first = next(s for s in function.body if not _is_docstring(s))
            script.insert_before(first, "if RANK != 0:", f"{script.step}return")
        for group in self.groups:
            self._guard(group)

    def group_of(self, node: ast.AST) -> list[ast.stmt] | None:
        """The guarded statements among which node stands."""
        for group in self.groups:
            if any(node is statement or statement in set(self._script.ancestors(node)) for statement in group):
                return group
        return None

    # --- reading ------------------------------------------------------------------------------------------------

    def _find_groups(self) -> list[list[ast.stmt]]:
        script = self._script
        found: list[list[ast.stmt]] = []
        for node in script.nodes:
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if not isinstance(block, list):
                    continue
                group: list[ast.stmt] = []
                for statement in block:
                    if isinstance(statement, ast.stmt) and self._writes(statement) and self._is_free(found, statement):
                        group.append(statement)
                        continue
                    if group:
                        found.append(group)
                        group = []
                if group:
                    found.append(group)
        return found

    def _is_free(self, groups: list[list[ast.stmt]], statement: ast.stmt) -> bool:
        """Whether a statement is not guarded already, by what is around it."""
        around = set(self._script.ancestors(statement))
        return not self._in_returning(statement) and not any(one in around for group in groups for one in group)

    def _in_returning(self, node: ast.AST) -> bool:
        around = set(self._script.ancestors(node))
        return any(function in around for function in self.returning)

    def _writes(self, statement: ast.stmt) -> bool:
        """Whether a statement does nothing but write."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if not self._is_write(statement.value):
                return False
            if self._computes(statement):
                raise ByHand(f"what line {statement.lineno} writes is computed there, which all processes have to do")
            return True
        if isinstance(statement, ast.With):
            return any(self._opens(item.context_expr) for item in statement.items) and not self._computes(statement)
        if isinstance(statement, ast.If):
            prints = [s for s in statement.body if self._is_print(s)]
            return (
                not statement.orelse
                and len(prints) < len(statement.body)
                and all(self._writes(s) or s in prints for s in statement.body)
                and not self._computes(statement)
            )
        return False

    def _is_print(self, statement: ast.stmt) -> bool:
        return (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and self._script.is_builtin(statement.value.func, "print")
        )

    def _is_write(self, call: ast.Call) -> bool:
        script = self._script
        name = script.name(call.func)
        if name in _WRITES:
            return True
        if is_foreign(name) and _WRITING.search(last_name(call.func)):
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr in _WRITING_METHODS:
            return True
        return any(writer in set(self._flows.origins(call.func.value)) for writer in self._writers)

    def _opens(self, node: ast.expr) -> bool:
        """Whether an expression opens a file to write into."""
        if not (isinstance(node, ast.Call) and last_name(node.func) == "open"):
            return False
        mode = argument(node, "mode", 1 if isinstance(node.func, ast.Name) else 0)
        return isinstance(mode, ast.Constant) and bool(set(str(mode.value)) & set("wax"))

    def _computes(self, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether a statement or function runs a model, here or in a function of the file that it calls, or loads a
        file: every process has to do that."""
        for part in walk(node):
            if not isinstance(part, ast.Call):
                continue
            if self._wraps.holds(part.func) or self._script.name(part.func) == "torch.load":
                return True
            function = self._script.called(part)
            if function is not None and function not in seen and self._computes(function, seen | {function}):
                return True
        return False

    def _only_writes(self, function: Function) -> bool:
        """Whether a function gives nothing back and only writes; what it makes for that stays in it."""
        body = [statement for statement in function.body if not _is_docstring(statement)]
        if not any(self._writes(s) for s in body) or function.name.startswith("__"):
            return False
        if not self._script.callers(function) or self._computes(function):
            return False
        return all(self._writes(s) or self._prepares(s) for s in body)

    def _prepares(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Assign):
            return all(isinstance(target, ast.Name) for target in statement.targets)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return self._is_print(statement) or last_name(statement.value.func) in ("mkdir", "makedirs")
        if isinstance(statement, ast.If):
            return all(self._writes(s) or self._prepares(s) for s in (*statement.body, *statement.orelse))
        return False

    # --- pieces of the edits -------------------------------------------------------------------------------------

    def _make_folder(self, call: ast.Call) -> None:
        """All processes make a folder, since all may look for it; none minds if another was faster."""
        script = self._script
        if argument(call, "exist_ok", 2) is not None:
            return
        if script.name(call.func) == "os.mkdir" and len(call.args) == 1 and isinstance(call.func, ast.Attribute):
            _, end = script.span(call.func)
            script.edits.append(Edit(end - len("mkdir"), end, "makedirs"))
        append_argument(script, call, "exist_ok=True")

    def _align(self, call: ast.Call) -> None:
        """Keep lines that were aligned with the first argument of a print below it."""
        script = self._script
        first, end = script.span(call.func)[1] + 1, script.span(call)[1]
        column = first - script.lines(script.statement(call))[0]
        strings = list(_long_strings(script, script.statement(call)))
        for offset in script.context.source.line_starts:
            blank = len(script.text[offset:]) - len(script.text[offset:].lstrip(" "))
            within = first < offset < end and not any(a < offset < b for a, b in strings)
            if within and blank >= column:
                script.edits.append(Edit(offset, offset, " " * (len("print_once") - len("print"))))

    # --- what is not read ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        script = self._script
        for name, modules in script.context.names.module.imports.items():
            if any(module.split(".")[0] in _SERVICES for module in modules):
                raise ByHand(f"what is sent to `{name}`: from the first process only")
        for call in script.calls:
            if self._opens(call) and self.group_of(call) is None and not self._in_returning(call):
                raise ByHand(f"the file opened in line {call.lineno}: write it in the first process only")
            if script.name(call.func) in _WRITES and self.group_of(call) is None and not self._in_returning(call):
                raise ByHand(f"what line {call.lineno} writes: in the first process only")

    # --- writing ------------------------------------------------------------------------------------------------

    def _guard(self, group: list[ast.stmt]) -> None:
        script = self._script
        script.need("RANK")
        if not all(script.alone(statement) for statement in group):
            raise ByHand(f"line {group[0].lineno} holds several statements")
        start, end = script.lines(group[0])[0], script.lines(group[-1])[1]
        script.insert(start, f"{script.indent(group[0])}if RANK == 0:{script.newline}")
        strings = [span for statement in group for span in _long_strings(script, statement)]
        for offset in script.context.source.line_starts:
            within = start <= offset < end and not any(first < offset < last for first, last in strings)
            if within and script.text[offset] not in "\r\n":
                script.edits.append(Edit(offset, offset, script.step))


def _long_strings(script: Script, statement: ast.stmt) -> Iterator[tuple[int, int]]:
    """The strings over several lines in a statement, whose lines are not to be indented."""
    for node in walk(statement):
        # Strings that are joined by standing behind each other are one node, whose lines may be indented.
        over_lines = isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno
        if over_lines and any(sign in script.source(node) for sign in ('"""', "'''", "\\\n", "\\\r")):
            yield script.span(node)


def is_foreign(name: str) -> bool:
    """Whether a qualified name is of another file of the project, as far as known libraries tell."""
    return name.startswith(".") or (bool(name) and name.split(".")[0] not in _LIBRARIES)


def append_argument(script: Script, call: ast.Call, text: str) -> None:
    """Add an argument behind the last one of a call."""
    end = script.span(call)[1] - 1
    nodes: list[ast.AST] = [*call.args, *call.keywords]
    if not nodes:
        script.insert(end, text)
        return
    last = max(script.span(node)[1] for node in nodes)
    gap = script.text[last:end]
    if "#" in gap or isinstance(nodes[-1], ast.GeneratorExp):
        raise ByHand(f"the arguments of line {call.lineno}")
    if "," in gap:
        comma = last + gap.index(",") + 1
        script.insert(comma, f" {text},")
    else:
        script.insert(last + len(gap.rstrip()), f", {text}")


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
