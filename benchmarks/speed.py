"""What checking costs: devlint, LibCST's bare parse of the same files, and TorchFix, in CPU seconds on one core.

    python -m pip install pyperf
    python -m pip download --no-deps --only-binary :all: torchvision segmentation-models-pytorch
    (unpack the wheels into FOLDER)
    python -m venv torchfix && torchfix/bin/pip install torchfix==0.7.0
    python benchmarks/speed.py FOLDER --torchfix torchfix/bin/torchfix

pyperf runs each command several times and shows mean and deviation; CPU seconds of the command and its children are
counted, so other work on the machine disturbs little. The ratios at the end are those of the means.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path

import pyperf

CHECKOUT = Path(__file__).resolve().parent.parent

PARSE = """
import sys, warnings
from pathlib import Path
import libcst
warnings.simplefilter("ignore")
for folder in sys.argv[1:]:
    for path in sorted(Path(folder).rglob("*.py")):
        data = path.read_bytes()
        if b"torch" in data:
            libcst.parse_module(data)
"""

PARSE_AST = PARSE.replace("import libcst", "import ast").replace("libcst.parse_module", "ast.parse")

PLAIN = """
import ast, sys
from devlint.flake8_plugin import Plugin
lines = ["x = 1\\n"] * 1000
tree = ast.parse("".join(lines))
for _ in range({count}):
    list(Plugin(tree, "plain.py", lines).run())
"""
"""The plugin on files without torch, without flake8 around it."""


def cpu_seconds(loops: int, command: list[str]) -> float:
    """CPU seconds, user and system, of running a command `loops` times; that it found something is no fault."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(loops):
        done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode > 1:
            raise RuntimeError(f"{command[:4]} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _pass_on(command: list[str], arguments: argparse.Namespace) -> None:
    command += arguments.folders
    if arguments.torchfix:
        command += ["--torchfix", arguments.torchfix]


def main() -> None:
    runner = pyperf.Runner(processes=2, values=2, warmups=1, loops=1, add_cmdline_args=_pass_on)
    runner.argparser.add_argument("folders", nargs="+", metavar="FOLDER", help="unpacked packages")
    runner.argparser.add_argument("--torchfix", help="the torchfix command of its own virtual environment")
    arguments = runner.parse_args()
    arguments.folders = [str(Path(folder).resolve()) for folder in arguments.folders]
    python = sys.executable
    check = [python, "-m", "devlint", "check", "--isolated", "--exit-zero", "-j", "1", "-q"]
    commands = {
        "devlint check": [*check, *arguments.folders],
        "libcst.parse_module": [python, "-c", PARSE, *arguments.folders],
        "ast.parse": [python, "-c", PARSE_AST, *arguments.folders],
        "devlint --version": [python, "-m", "devlint", "--version"],
        "bare python and click": [python, "-c", "import click"],
        "flake8 plugin, a file without torch": [python, "-c", PLAIN.format(count=1)],
        "flake8 plugin, 1,001 files without torch": [python, "-c", PLAIN.format(count=1001)],
    }
    means = {}
    for name, command in commands.items():
        bench = runner.bench_time_func(name, cpu_seconds, command)
        if bench is not None:
            means[name] = bench.mean()
    if arguments.worker or len(means) < len(commands):
        return
    print(f"devlint check / libcst.parse_module: {means['devlint check'] / means['libcst.parse_module']:.2f}")
    print(
        f"devlint --version / bare python and click: {means['devlint --version'] / means['bare python and click']:.2f}"
    )
    plain = means["flake8 plugin, 1,001 files without torch"] - means["flake8 plugin, a file without torch"]
    print(f"flake8 plugin for a file without torch: {plain:.3f} ms")
    if arguments.torchfix:
        # Minutes long, so that a single run says enough.
        seconds = cpu_seconds(1, [str(Path(arguments.torchfix).absolute()), "-j", "1", *arguments.folders])
        print(f"torchfix: {seconds:.1f} s; / devlint check: {seconds / means['devlint check']:.1f}")


if __name__ == "__main__":
    main()
