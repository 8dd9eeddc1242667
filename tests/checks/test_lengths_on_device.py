"""DEV105: lengths for packing that are not on the CPU."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

MODULE = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence as pack
import torch.nn.utils.rnn as R


class Net(nn.Module):
    def __init__(self, words, size):
        super().__init__()
        self.table = nn.Embedding(words, size)
        self.rnn = nn.GRU(size, size)

    def forward(self, words, lengths, device):
        x = self.table(words)
        {line}
"""


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("return pack(x, (words != 0).sum(1))", "return pack(x, (words != 0).sum(1).cpu())"),
        (
            "n = (words != 0).sum(1)\nreturn R.pack_padded_sequence(x, n)",
            "n = (words != 0).sum(1)\nreturn R.pack_padded_sequence(x, n.cpu())",
        ),
        (
            "return nn.utils.rnn.pack_padded_sequence(lengths=words.sum(1), input=x)",
            "return nn.utils.rnn.pack_padded_sequence(lengths=words.sum(1).cpu(), input=x)",
        ),
        ("return pack(x, words.sum(1) + 1, True)", "return pack(x, (words.sum(1) + 1).cpu(), True)"),
        (
            "return pack(x, torch.as_tensor(lengths, device=device))",
            "return pack(x, torch.as_tensor(lengths, device=device).cpu())",
        ),
        (
            "lengths = lengths.view(-1).to(device)\nreturn pack(x, lengths)",
            "lengths = lengths.view(-1).to(device)\nreturn pack(x, lengths.cpu())",
        ),
        (
            "return pack(x, torch.ones(2, device='cuda', dtype=torch.long))",
            "return pack(x, torch.ones(2, device='cuda', dtype=torch.long).cpu())",
        ),
    ],
)
def test_lengths_on_the_device_are_copied_by_a_safe_fix(line: str, wanted: str) -> None:
    text = MODULE.format(line=line.replace("\n", "\n        "))
    (found,) = findings(text, "DEV105")
    assert found.fix is not None and found.fix.applicability is Applicability.SAFE
    assert "'lengths' argument should be a 1D CPU int64 tensor" in found.message
    right = MODULE.format(line=wanted.replace("\n", "\n        "))
    assert fixed(text, "DEV105") == right
    assert check(right, "DEV105") == []


@pytest.mark.parametrize(
    "line",
    [
        "return pack(x, lengths)",
        "return pack(x, lengths.cpu())",
        "return pack(x, lengths.tolist())",
        "return pack(x, (words != 0).sum(1).cpu())",
        "return pack(x, (words != 0).sum(1).tolist())",
        "return pack(x, [w.numel() for w in words])",
        "return pack(x, torch.tensor([3, 2]))",
        "return pack(x, (words != 0).sum(1)) if not words.is_cuda else None",
        "n = torch.arange(9, device=words.device) < lengths.to(words.device)[:, None]\nreturn pack(x, lengths), n",
        "y, n = nn.utils.rnn.pad_packed_sequence(pack(x, lengths))\nreturn pack(y, n)",
        "return pack(*x, (words != 0).sum(1))",
    ],
)
def test_lists_host_lengths_and_unknown_ones_are_silent(line: str) -> None:
    assert check(MODULE.format(line=line.replace("\n", "\n        ")), "DEV105") == []


def test_lengths_that_meet_the_packed_sequence_are_where_it_is() -> None:
    line = "mask = x.sum(2) < lengths.unsqueeze(1)\nreturn pack(x, lengths), mask"
    text = MODULE.format(line=line.replace("\n", "\n        "))
    assert check(text, "DEV105") == [(16, "DEV105")]


def test_host_code_is_silent() -> None:
    text = """\
from torch.nn.utils.rnn import pack_padded_sequence


def collate(batch):
    padded = batch.clone()
    return pack_padded_sequence(padded, (padded != 0).sum(1))
"""
    assert check(text, "DEV105") == []
