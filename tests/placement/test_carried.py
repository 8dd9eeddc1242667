"""Which names a turn of a loop may find as an earlier one has left them."""

from __future__ import annotations

import ast

import pytest
from placement.believing import lives, run, written

from devlint.placement.carried import carried


@pytest.mark.parametrize(
    ("loop", "names"),
    [
        ("for x in xs: y = x + 1", ""),
        ("for x in xs: y = y + x", "y"),
        ("for x in xs: total += x", "total"),
        ("for x in xs: out.append(x)", ""),
        ("for x in xs: out.append(out[-1] + x)", "out"),
        ("for x in xs:\n    y = f(x)\n    z = y", "f"),
        ("for x in xs:\n    z = y\n    y = f(x)", "f y"),
        ("for x in xs:\n    if x: y = 1\n    z = y", "y"),
        ("for x in xs:\n    if x: y = 1\n    else: y = 2\n    z = y", ""),
        ("for x in xs:\n    with f() as y: z = y\n    w = z", "f"),
        ("for x in xs:\n    for y in x: z = y\n    w = z", "z"),
        ("for x, *y in xs: z = x, y", ""),
        ("for x in xs: x.y = 1", ""),
        ("for x in xs: h.y = x", "h"),
        ("for x in xs: del y", "y"),
        ("while n: n = f(m)", "f m n"),
        ("for x in xs: f = lambda: y", "y"),
        ("for x in xs:\n    try: y = x\n    except E: pass\n    z = y", "E y"),
    ],
)
def test_names_that_a_turn_hands_on(loop: str, names: str) -> None:
    node = ast.parse(loop).body[0]
    assert isinstance(node, ast.For | ast.While)
    assert carried(node) == frozenset(names.split())


def test_what_is_handed_on_reaches_the_beginning_of_the_loop() -> None:
    text = """
import torch
x = torch.zeros(3)
for _ in range(3):
    y = x
    x = torch.zeros(3, device="cuda")
"""
    assert lives(text, "y") == "unknown"
    assert lives(text.replace("y = x", "y = torch.ones(3)"), "y") == "cpu"


def test_a_module_that_is_moved_at_the_end_of_a_turn_is_there_in_the_next() -> None:
    """Nothing that the turns hand on by name changes: the module itself is elsewhere."""
    text = """
import torch
from torch import nn
{before}
for _ in range(3):
    {inside}
    y = net(torch.zeros(3))
    places.append(net)
    net.cuda()
"""
    made = "net = nn.Linear(3, 3)"
    outcomes = [run(text.format(before=made, inside="pass")), run(text.format(before="pass", inside=made))]
    fed = [next(call for call in one.inference.module_places if call.func.id == "net") for one in outcomes]
    places = [written(one.inference.module_places[call]) for one, call in zip(outcomes, fed, strict=True)]
    assert places == ["unknown", "cpu"]
