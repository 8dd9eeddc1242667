"""What a branch may have made on the CPU, and a transfer then moves, is no finding of any rule."""

from __future__ import annotations

import pytest
from checks.helpers import check

PROGRAM = """\
import torch
from torch import nn


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, words):
        if isinstance(words, list):
            words = torch.tensor(words)
        {line}
        return self.table(words)
"""


@pytest.mark.parametrize(
    "line",
    [
        "words = words.to(self.table.weight.device)",
        "words = words.to(device=self.table.weight.device, non_blocking=True)",
        "words = words.cuda()",
        "words = words.to(self.table.weight)",
        "words = words.view(-1).to(self.table.weight.device)",
    ],
)
def test_moved(line):
    assert check(PROGRAM.format(line=line), "DEV") == []


@pytest.mark.parametrize("line", ["words = words.to(torch.int64)", "pass"])
def test_not_moved(line):
    assert check(PROGRAM.format(line=line), "DEV") == [(12, "DEV201")]
