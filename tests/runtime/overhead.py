"""What the simulation costs: time of a training step in it as a ratio to the plain CPU's.

    OMP_NUM_THREADS=1 PYTHONPATH=. python tests/runtime/overhead.py

The program is programs/cnn.py with its images at three sizes (pixels a side): what the simulation adds is the same for
each call of torch, so it weighs most where the tensors are small. Processor time is taken, not the clock's, and the
smallest of nine runs counts; the runs take turns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from devlint.runtime import simulate

STEPS = 12
SIZES = (8, 32, 64)


def program(size: int) -> dict[str, Any]:
    """The program's names with images of another size."""
    path = Path(__file__).with_name("programs") / "cnn.py"
    text = path.read_text().replace("48, 1, 8, 8", f"48, 1, {size}, {size}")
    space: dict[str, Any] = {"__name__": "cnn"}
    exec(compile(text, str(path), "exec"), space)
    return space


def seconds(size: int, device: str) -> float:
    """Seconds of one step."""
    space = program(size)
    space["main"](device, steps=2)
    begin = time.process_time()
    space["main"](device, steps=STEPS)
    return (time.process_time() - begin) / STEPS


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    for size in SIZES:
        plain, simulated = [], []
        for _ in range(9):
            plain.append(seconds(size, "cpu"))
            with simulate(devices=1):
                simulated.append(seconds(size, "cuda"))
        left, right = min(plain) * 1e3, min(simulated) * 1e3
        print(f"{size:3d} pixels: {left:7.2f} ms plain, {right:7.2f} ms simulated, ratio {right / left:.2f}")


if __name__ == "__main__":
    main()
