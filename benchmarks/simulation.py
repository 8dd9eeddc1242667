"""What running on simulated devices costs, alone and under `devlint verify`: a training step beside the plain CPU's.

    OMP_NUM_THREADS=1 python benchmarks/simulation.py

The program is tests/runtime/programs/cnn.py with its images at three sizes (pixels a side): what is added is the same
for each call of torch, so it weighs most where the tensors are small. Processor time is taken, not the clock's, and the
smallest of nine runs counts; the runs take turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))

import torch  # noqa: E402 (the checkout comes first)

from devlint.runtime import simulate  # noqa: E402
from devlint.runtime.verify.project import Lines, Project  # noqa: E402
from devlint.runtime.verify.tracer import Tracer  # noqa: E402

PROGRAM = CHECKOUT / "tests" / "runtime" / "programs" / "cnn.py"
STEPS = 12
SIZES = (8, 32, 64)
RUNS = 9


def program(size: int) -> dict[str, Any]:
    """The program's names with images of another size."""
    text = PROGRAM.read_text().replace("48, 1, 8, 8", f"48, 1, {size}, {size}")
    space: dict[str, Any] = {"__name__": "cnn"}
    exec(compile(text, str(PROGRAM), "exec"), space)
    return space


def seconds(size: int, device: str) -> float:
    """Seconds of one step."""
    space = program(size)
    space["main"](device, steps=2)
    begin = time.process_time()
    space["main"](device, steps=STEPS)
    return (time.process_time() - begin) / STEPS


def plain(size: int) -> float:
    """On the CPU, without anything of devlint."""
    return seconds(size, "cpu")


def simulated(size: int) -> float:
    """On a simulated device."""
    with simulate(devices=1):
        return seconds(size, "cuda")


def verified(size: int) -> float:
    """On a simulated device, with all that `devlint verify` watches."""
    project = Project(str(PROGRAM.parent))
    with ExitStack() as stack:
        stack.enter_context(simulate(devices=1))
        stack.enter_context(Tracer(project))
        stack.enter_context(Lines(project))
        return seconds(size, "cuda")


def main() -> None:
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {torch.get_num_threads()} thread(s)")
    ways: tuple[Callable[[int], float], ...] = (plain, simulated, verified)
    for size in SIZES:
        runs = [[way(size) for way in ways] for _ in range(RUNS)]
        base, alone, watched = (min(column) * 1e3 for column in zip(*runs, strict=True))
        print(
            f"{size:3d} pixels: {base:7.2f} ms plain, {alone:7.2f} ms simulated (ratio {alone / base:.2f}), "
            f"{watched:7.2f} ms under verify (ratio {watched / base:.2f})"
        )


if __name__ == "__main__":
    main()
