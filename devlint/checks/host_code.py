"""Code that works on the host by design: datasets, collate functions, transforms."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath

from devlint.checks.context import Context
from devlint.checks.guards import main_block
from devlint.placement import values as v
from devlint.syntax.trees import last_name, walk

_NAMES = ("collate", "preprocess", "worker", "onnx")
_CLASSES = ("dataset", "collator", "collate", "imageprocessor", "imageprocessorfast", "featureextractor", "tokenizer")
_FOLDERS = frozenset(
    {
        *("data", "dataset", "datasets", "dataio", "dataloader", "dataloaders", "data_loader", "data_loading"),
        *("preprocessing", "processors", "transforms", "tests", "test", "testing"),
    }
)
_FILES = ("test_", "conftest", "dataset", "dataloader", "data_loader", "transforms", "preprocess", "collat")
"""Where projects keep what prepares data, and their tests, which run on the CPU unless they say otherwise."""
_DATA_FILES = frozenset({"data.py", "data_utils.py", "datautils.py", "data_util.py"})
_GRAPHS = frozenset({"Data", "HeteroData"})
_SAMPLES = frozenset({"img", "image", "pic", "sample", "results", "pointcloud", "clip", "waveform"})
"""What transforms of samples call the one that they are given."""
_DEVICE_WORDS = re.compile(r"cuda|device|gpu|accelerat|\bmps\b|\bxpu\b|\.to\(|lightning", re.IGNORECASE)
"""What a file that works on an accelerator, or lets another do so, speaks of somewhere, be it in a comment."""


def is_host_code(context: Context, owner: ast.AST) -> bool:
    """Whether a function prepares data on the host, so that what it makes on the CPU belongs there."""
    *folders, file = PurePath(context.source.path).parts[-3:]  # those further up are the user's, not the project's
    if not _FOLDERS.isdisjoint(folders) or file.startswith(_FILES) or file.endswith("_test.py"):
        return True
    if any("onnx" in part.lower() for part in (*folders, file)):
        return True  # models are exported on the CPU
    if file in _DATA_FILES or _makes_graph(context, owner):
        return True
    name = getattr(owner, "name", "").lower()
    if any(part in name for part in _NAMES) or name == "__getitem__":
        return True
    decorators = [ast.unparse(decorator) for decorator in getattr(owner, "decorator_list", [])]
    if any("script_if_tracing" in decorator for decorator in decorators):
        return True  # runs only while a model is exported, which happens on the CPU
    for above in context.inference.ancestors(owner):
        if isinstance(above, ast.ClassDef):
            if above.name.lower().endswith(_CLASSES) or "collat" in above.name.lower():
                return True
            classes = context.inference.classes
            transforms = tuple(f"{name}." for name in context.inference.facts.packages["host_transforms"])
            if any(last_name(base).endswith("Transform") for base in above.bases):
                return True
            if classes.kind(above) == v.DATASET or classes.defines(above, "__getitem__"):
                return True
            if name == "__call__" and classes.kind(above) not in v.MODULE_KINDS and _takes_sample(owner):
                return True
            if any(isinstance(base, str) and base.startswith(transforms) for base in classes.lineage(above)):
                return True
    return False


def _makes_graph(context: Context, owner: ast.AST) -> bool:
    """Whether a function puts a sample for PyTorch Geometric together, which loaders then batch and others move."""
    calls = (call for name in _GRAPHS & context.seen.calls.keys() for call in context.seen.calls[name])
    return any(
        context.inference.owner(call) is owner
        and (context.name_of(call.func) or "").startswith("torch_geometric.data.")
        and isinstance(context.inference.parents.get(owner), ast.Module)
        for call in calls
    )


def _takes_sample(call: ast.AST) -> bool:
    """Whether `__call__(self, img)` is that of a transform, by the name of its only argument."""
    arguments = call.args.args if isinstance(call, ast.FunctionDef) else []
    return len(arguments) == 2 and arguments[1].arg.lower() in _SAMPLES


def is_host_program(context: Context, owner: ast.AST) -> bool:
    """Whether a function belongs to a program that trains what is in it, on the CPU: its file is run, not imported,
    it makes and trains its model itself, and no word in it is about a device. Nothing in it leaves the CPU."""
    calls = context.seen.calls
    if "backward" not in calls or _DEVICE_WORDS.search(context.source.text):
        return False
    home = next((above for above in context.inference.ancestors(owner) if isinstance(above, ast.ClassDef)), owner)
    if getattr(home, "name", "") not in calls:
        return False
    trains_at_once = any(isinstance(context.inference.owner(call), ast.Module) for call in calls["backward"])
    return trains_at_once or main_block(context.tree) is not None


def is_guarded(context: Context, node: ast.AST) -> bool:
    """Whether a branch that asks for a device decides whether node runs: one around it, or one that left before it."""
    child = node
    for above in context.inference.ancestors(node):
        for field in ("body", "orelse"):
            block = getattr(above, field, None)
            if isinstance(block, list) and child in block and any(map(_leaves_host, block[: block.index(child)])):
                return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(above, ast.If | ast.IfExp | ast.While) and child is not above.test:
            words = {
                part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else part.value
                for part in walk(above.test)
                if isinstance(part, ast.Attribute | ast.Name)
                or (isinstance(part, ast.Constant) and isinstance(part.value, str))
            }
            if any(_asks(str(word).lower()) for word in words):
                return True
        child = above
    return False


def _leaves_host(statement: ast.stmt) -> bool:
    """`if x.is_cuda: return ...`: what comes after it is for the CPU."""
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue)
        and any(isinstance(part, ast.Attribute) and part.attr == "is_cuda" for part in walk(statement.test))
        and not any(isinstance(part, ast.Not) for part in walk(statement.test))
    )


def _asks(word: str) -> bool:
    return "cuda" in word or "gpu" in word or "device" in word or word in ("cpu", "is_cpu", "mps", "is_available")
