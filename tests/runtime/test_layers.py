# ruff: noqa: E501 (the calls below are a table)
"""Layers and functions on a device give the CPU's numbers, forwards and backwards, and stay on their device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from devlint.runtime import simulate


def made(*shape: int) -> torch.Tensor:
    """Numbers that look drawn and are not."""
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(float(count)) * 1.7 + 0.3).view(shape)


# layer -> shapes of its inputs
LAYERS: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]] = {
    repr(layer).replace("\n", ""): (layer, shapes)
    for layer, shapes in [
        (nn.Linear(4, 3), ((2, 5, 4),)),
        (nn.Linear(4, 3, bias=False), ((2, 4),)),
        (nn.Bilinear(3, 4, 2), ((5, 3), (5, 4))),
        (nn.Conv1d(3, 4, 3), ((2, 3, 7),)),
        (nn.Conv2d(4, 4, 3, groups=2, padding=1, stride=2), ((2, 4, 7, 7),)),
        (nn.Conv3d(2, 3, 2), ((1, 2, 4, 4, 4),)),
        (nn.ConvTranspose2d(3, 2, 3, stride=2), ((1, 3, 4, 4),)),
        (nn.MaxPool2d(2), ((1, 2, 6, 6),)),
        (nn.AvgPool1d(2), ((1, 2, 6),)),
        (nn.AdaptiveAvgPool2d(3), ((1, 2, 7, 7),)),
        (nn.AdaptiveMaxPool1d(3), ((1, 2, 7),)),
        (nn.Unfold(2), ((1, 2, 4, 4),)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), ((1, 2, 3, 3),)),
        (nn.PixelShuffle(2), ((1, 4, 3, 3),)),
        (nn.ReflectionPad2d(1), ((1, 2, 4, 4),)),
        (nn.BatchNorm2d(3), ((2, 3, 4, 4),)),
        (nn.BatchNorm1d(3).eval(), ((2, 3),)),
        (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), ((2, 3, 4, 4),)),
        (nn.GroupNorm(2, 4), ((2, 4, 3),)),
        (nn.LayerNorm(4), ((2, 3, 4),)),
        (nn.LocalResponseNorm(2), ((2, 4, 3),)),
        (nn.RMSNorm(4), ((2, 3, 4),)),
        (nn.PReLU(3), ((2, 3, 4),)),
        (nn.GLU(), ((2, 4),)),
        (nn.Softmax(1), ((2, 4),)),
        (nn.LogSoftmax(1), ((2, 4),)),
        (nn.GELU(), ((2, 4),)),
        (nn.Hardswish(), ((2, 4),)),
        (nn.Threshold(0.1, 2.0), ((2, 4),)),
        (nn.RNN(4, 3, num_layers=2, bidirectional=True), ((5, 2, 4),)),
        (nn.LSTM(4, 3, batch_first=True, proj_size=2), ((2, 5, 4),)),
        (nn.GRU(4, 3, num_layers=2, dropout=0.0), ((5, 2, 4),)),
        (nn.LSTMCell(4, 3), ((2, 4),)),
        (nn.GRUCell(4, 3), ((2, 4),)),
        (nn.MultiheadAttention(4, 2), ((3, 2, 4),) * 3),
        (nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True), ((2, 3, 4), (2, 3, 3), (2, 3, 5))),
        (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), ((3, 2, 4),)),
        (nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), ((3, 2, 4), (5, 2, 4))),
        (nn.Transformer(4, 2, 1, 1, 8, dropout=0.0), ((3, 2, 4), (3, 2, 4))),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2).eval(), ((2, 3, 4),)),
        (nn.CosineSimilarity(), ((2, 4), (2, 4))),
        (nn.PairwiseDistance(), ((2, 4), (2, 4))),
        (nn.MSELoss(), ((2, 4), (2, 4))),
        (nn.HuberLoss(), ((2, 4), (2, 4))),
        (nn.TripletMarginLoss(), ((2, 4), (2, 4), (2, 4))),
        (nn.KLDivLoss(reduction="batchmean"), ((2, 4), (2, 4))),
        (nn.GaussianNLLLoss(), ((2, 4), (2, 4), (2, 4))),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), ((2, 4),)),
        (nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), ((2, 4),)),
    ]
}


def first(result: Any) -> torch.Tensor:
    while isinstance(result, (tuple, list)):
        result = result[0]
    assert isinstance(result, torch.Tensor)
    return result


def outcome(layer: nn.Module, shapes: tuple[tuple[int, ...], ...], device: str) -> list[torch.Tensor]:
    """The result, the gradients of the inputs and of the parameters."""
    import copy

    layer = copy.deepcopy(layer).to(device)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(made(*parameter.shape) * 0.5)
    inputs = [(made(*shape).abs() + 0.1).to(device).requires_grad_() for shape in shapes]
    result = first(layer(*inputs))
    (result * torch.linspace(0.5, 1.5, result.numel(), device=device).view(result.shape)).sum().backward()
    grads = [tensor.grad for tensor in (*inputs, *layer.parameters()) if tensor.grad is not None]
    found = [result, *grads]
    assert {str(tensor.device) for tensor in found} == {device}
    return [tensor.detach().cpu() for tensor in found]


@pytest.mark.parametrize("name", LAYERS, ids=[f"{n}-{name[:40]}" for n, name in enumerate(LAYERS)])
def test_layer(name: str) -> None:
    layer, shapes = LAYERS[name]
    plain = outcome(layer, shapes, "cpu")
    with simulate(devices=2):
        simulated = outcome(layer, shapes, "cuda:1")
    assert len(plain) == len(simulated)
    for left, right in zip(plain, simulated, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-6)


CODE = [
    "x.sort(1)", "x.topk(2)[1].float()", "x.unique()", "torch.unique(x, return_inverse=True)", "x.norm()", "x.std(0)",
    "torch.linalg.svd(x @ x.T)[1]", "torch.linalg.inv(x @ x.T + torch.eye(4, device=x.device))", "torch.fft.rfft(x).abs()",
    "torch.stft(x.flatten(), 8, window=torch.hann_window(8, device=x.device), return_complex=True).abs()", "x.split([1, 3])",
    "torch.nn.utils.rnn.pad_sequence([x[0], x[1, :2]])", "F.one_hot((x > 0).long())", "torch.cdist(x, x)", "x.cumsum(0)",
    "torch.meshgrid(x[0], x[1], indexing='ij')", "torch.broadcast_tensors(x, x[0])", "x.unfold(1, 2, 1)", "torch.histc(x, 4)",
    "torch.bucketize(x, x[0].sort()[0]).float()", "torch.triu(x)", "x.roll(1)", "x.flip(0)", "torch.kron(x, x)", "x[None].expand(2, 4, 4)",
    "x.logsumexp(1)", "F.normalize(x)", "F.interpolate(x[None, None], scale_factor=2)", "F.pad(x, (1, 1))", "torch.block_diag(x, x)",
    "torch.cartesian_prod(x[0], x[1])", "x.diagonal()", "torch.quantile(x, 0.5)", "torch.nan_to_num(x)", "x.to_sparse().to_dense()",
    "F.ctc_loss(x[:, None].log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))", "x.repeat_interleave(2, 0)",
    "torch.repeat_interleave(x, torch.tensor([1, 2, 1, 1], device=x.device), 0)", "F.gumbel_softmax(x, hard=True).sum(1)", "x.argsort().float()",
    "torch.stack(list(x))", "x.view(2, 2, 4).unflatten(2, (2, 2))", "torch.vmap(torch.sum)(x)", "x.tolist() and x", "x.bool().any().float()",
    "torch.distributions.Normal(x, x.abs() + 1).log_prob(x)", "torch.distributions.Categorical(logits=x).entropy()", "x.apply_(abs) if x.is_cpu else x.abs()",
    "torch.trapz(x)", "x.index_fill(0, torch.tensor([1], device=x.device), 0.0)", "torch.tensor(x[0, 0].item(), device=x.device)", "x.clone().detach().requires_grad_()",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODE)
def test_call(code: str) -> None:
    plain = first(eval(code, {"torch": torch, "F": F, "x": made(4, 4)}))
    with simulate(devices=2):
        value = first(eval(code, {"torch": torch, "F": F, "x": made(4, 4).to("cuda:1")}))
        assert str(value.device) == "cuda:1"
        torch.testing.assert_close(value.cpu(), plain, rtol=0, atol=1e-5)
