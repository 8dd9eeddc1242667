"""Code that works on the host by design: datasets, collate functions, transforms."""

from __future__ import annotations

import ast
from pathlib import PurePath

from devlint.checks.context import Context
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


def is_host_code(context: Context, owner: ast.AST) -> bool:
    """Whether a function prepares data on the host, so that what it makes on the CPU belongs there."""
    *folders, file = PurePath(context.source.path).parts[-3:]  # those further up are the user's, not the project's
    if not _FOLDERS.isdisjoint(folders) or file.startswith(_FILES) or file.endswith("_test.py"):
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
            if any(isinstance(base, str) and base.startswith(transforms) for base in classes.lineage(above)):
                return True
    return False


def is_guarded(context: Context, node: ast.AST) -> bool:
    """Whether a branch that asks for a device decides whether node runs."""
    child = node
    for above in context.inference.ancestors(node):
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


def _asks(word: str) -> bool:
    return "cuda" in word or "gpu" in word or "device" in word or word in ("cpu", "is_cpu", "mps", "is_available")
