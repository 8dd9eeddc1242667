"""What the inference believes of the variables of a small program."""

from __future__ import annotations

import ast

from devlint.placement.api import facts
from devlint.placement.evaluate import Evaluator
from devlint.placement.infer import FUNCTIONS, Inference
from devlint.placement.values import Place, Value
from devlint.screen import look
from devlint.source import Source
from devlint.syntax.names import Names


def infer(text: str) -> Inference:
    tree = ast.parse(text)
    return Inference(tree, Names(tree), look(tree, Source("test.py", text)), facts())


def run(text: str, function: str = "") -> Evaluator:
    """The outcome of following one function of a text, or its module's body."""
    inference = infer(text)
    owners = [n for n in ast.walk(inference.tree) if isinstance(n, FUNCTIONS) and n.name == function]
    return inference.run(owners[0] if function else inference.tree)


def value(text: str, name: str, function: str = "") -> Value:
    """What a name (or a path as `self.pe`) holds when the function or the module's body ends."""
    return run(text, function).state.names[name]


def written(place: Place) -> str:
    """A place as a table of a test writes it: `cpu`, `cuda:1`, `a symbol`, `unknown`."""
    if place.device:
        return place.device if place.index is None else f"{place.device}:{place.index}"
    return "a symbol" if place.key is not None else "unknown"


def lives(text: str, name: str, function: str = "") -> str:
    """Where the value of a name is when the function or the module's body ends."""
    outcome = run(text, function)
    return written(outcome.state.place_of(outcome.state.names[name]))
