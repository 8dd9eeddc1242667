"""Safe fixes keep what worked: random programs run before and after them, on all devices, to the same values."""

from __future__ import annotations

import itertools
import random

import pytest
from checks.helpers import fixed

CODES = ("DEV101", "DEV103", "DEV106", "DEV201", "DEV601", "DEV602")
HEAD = """\
import numpy as np
import torch
from torch import nn


def f(x: torch.Tensor, y, i, d, flag, net):
    out = []
"""
FIRST = ["torch.zeros(3, 3)", "torch.ones(3, 3, device=d)", "torch.eye(3)", "x", "x * 2", "y", "y.sin()", "x.cpu()"]
EXPRESSIONS = """\
torch.zeros(3)|torch.arange(3)|torch.ones(3, 3)|torch.eye(3)|torch.full((3,), 2.0)|torch.tensor(1.0)|x|y|a|b
x.sin()|y.view(-1)|a * 2|x + a|a + b|b @ x|a.cpu()|b.to(d)|a.to(x.device)|a.float()|a.numpy()|np.asarray(b)
torch.cat([a.flatten(), b.flatten()])|torch.stack([a, a])|torch.where(a > 0, a, b)|(a if flag else b)|x[:3]
b[i]|torch.eye(3)[i]|net(a.float())|net(x)|torch.zeros_like(a)|a.new_zeros(3)|[a, b][0]|x.to(d)
""".replace("\n", "|").split("|")
PLAIN = """\
a = a + {e}|b = {e} * b|out.append(a + {e})|a = {e}|b = {e}|a += {e}|a, b = {e}, {f}|x = {e}|y = {e}
a.to(d)|b.cuda()|x.to(d)|y.cpu()|net.to(d)|d = 'cpu'|out.append({e})|a = a if flag else {e}|if flag: return {e}
out += [{e} for b in [a, b]]
""".replace("\n", "|").split("|")
NESTING = [
    "if flag:\n    {s}\nelse:\n    {t}",
    "if flag:\n    {s}",
    "for _ in range(2):\n    {s}\n    {t}",
    "for a in [a, b]:\n    {s}",
    "while flag:\n    {s}\n    break",
    "try:\n    {s}\nexcept Exception:\n    {t}",
    "with torch.device(d):\n    {s}",
    "later = lambda x: x + {e}\nout.append(later(a))",
    "def g(x):\n    return {e}\nout.append(g(a))",
    "def h():\n    nonlocal a\n    a = {e}\nh()",
]
NESTING_SHARE = 0.3
DEVICES = ("cpu", "cuda")


def statement(pick: random.Random, depth: int = 0) -> str:
    nested = depth < 2 and pick.random() < NESTING_SHARE
    text = pick.choice(NESTING if nested else [one for one in PLAIN if one])
    for mark in ("{e}", "{f}"):
        text = text.replace(mark, pick.choice([one for one in EXPRESSIONS if one]))
    for mark in ("{s}", "{t}"):
        if mark in text:
            text = text.replace(mark, statement(pick, depth + 1).replace("\n", "\n    "))
    return text


def program(seed: int) -> str:
    pick = random.Random(seed)
    lines = [f"a = {pick.choice(FIRST)}", f"b = {pick.choice(FIRST)}"]
    lines += [statement(pick) for _ in range(pick.randint(2, 6))]
    lines.append("return a, b, out")
    return HEAD + "".join("    " + line.replace("\n", "\n    ") + "\n" for line in lines)


def plain(value: object) -> object:
    """A result without its devices."""
    if hasattr(value, "detach"):
        return value.detach().cpu().float().tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def outcome(code: str, x_at: str, y_at: str, i_at: str, d: str, flag: bool) -> tuple[bool, object]:
    """Whether a program runs, and what it gives or raises."""
    import torch

    names: dict[str, object] = {}
    exec(code, names)
    x, y = torch.arange(9.0).view(3, 3) / 9, torch.ones(3, 3) / 3
    net = torch.nn.Linear(3, 3).requires_grad_(False)
    for parameter in net.parameters():
        parameter.fill_(0.1)
    arguments = x.to(x_at), y.to(y_at), torch.tensor([0, 2, 1]).to(i_at), d, flag, net.to(x_at)
    try:
        return True, plain(names["f"](*arguments))  # type: ignore[operator]
    except Exception as error:
        return False, repr(error)


@pytest.mark.parametrize("seeds", [range(start, start + 80) for start in range(0, 320, 80)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_what_ran_runs_to_the_same_values(seeds: range) -> None:
    from devlint.runtime import simulate

    changed = 0
    with simulate(1):
        for seed in seeds:
            before = program(seed)
            try:
                compile(before, "program", "exec")
            except SyntaxError:  # a name is both a parameter and `nonlocal`
                continue
            after = fixed(before, *CODES)
            if after == before:
                continue
            changed += 1
            for devices in itertools.product(DEVICES, DEVICES, DEVICES, DEVICES, (False, True)):
                works, wanted = outcome(before, *devices)
                if works:
                    assert (True, str(wanted)) == tuple(map_text(outcome(after, *devices))), (seed, devices, after)
    assert changed >= 3, "programs without a fix show nothing"


def map_text(result: tuple[bool, object]) -> tuple[bool, str]:
    return result[0], str(result[1])
