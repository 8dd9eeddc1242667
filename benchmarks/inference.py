"""What the inference costs: its share of LibCST's parse of the same files, in CPU seconds on one core.

    python benchmarks/inference.py FOLDER ...

Counted are the files that reach the inference, by a rule that is on by default, and in them the time in which values
are inferred at the request of rules: scopes and parents, the functions asked for, and what they need of other files.
Each file's parse stands next to its inference, so that other work on the machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import libcst

from devlint import engine
from devlint.checks import rules
from devlint.config import Config
from devlint.files import collect_rarely
from devlint.placement.infer import Inference
from devlint.source import Source
from devlint.syntax.parse import deep_recursion, on_large_stack


class Clock:
    """CPU seconds between the outermost start and its end."""

    def __init__(self) -> None:
        self.total = 0.0
        self._depth = 0
        self._start = 0.0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._start = time.process_time()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.total += time.process_time() - self._start


def measure(paths: list[Path], config: Config) -> tuple[int, float, float]:
    """How many files reach the inference; CPU seconds of LibCST's parse of these, and of their inference."""
    inferring, parsing = Clock(), Clock()
    run = Inference.run

    def timed(self: Inference, owner: object) -> object:
        if owner in self._runs:  # known already; a look at the clock takes longer
            return run(self, owner)  # type: ignore[arg-type]
        with inferring:
            return run(self, owner)  # type: ignore[arg-type]

    Inference.run = timed  # type: ignore[assignment, method-assign]
    reached = 0
    project = engine.project_of(config)
    for path in paths:
        project.module(path.resolve())  # read and measured for all that asks for it: no part of the inference
    for path in paths:
        module = project.module(path.resolve())
        if module is None or "torch" not in module.text:
            continue
        on = [rule for rule in rules().values() if config.enabled(rule.info.code, rule.info.groups[0])]
        wanted = [rule for rule in on if any(sign.holds(module.seen) for sign in rule.screen)]
        if not wanted:
            continue
        reached += 1
        with parsing:
            libcst.parse_module(module.text)
        with inferring:
            context = engine.make_context(Source(str(path), module.text), module, config)
        for rule in wanted:
            rule(context).suspects()
    return reached, parsing.total, inferring.total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="unpacked packages")
    folders = parser.parse_args().folders
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    collect_rarely()
    with deep_recursion():
        reached, parse, inference = on_large_stack(lambda: measure(paths, Config(root=folders[0].resolve().parent)))
    print(f"{reached} of {len(paths)} files reach the inference")
    print(f"LibCST's parse {parse:.2f} s, inference {inference:.2f} s: {inference / parse:.0%}")


if __name__ == "__main__":
    sys.exit(main())
