"""DEV104: device tensors that are taken for arrays."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

SCRIPT = """\
import argparse
import numpy as np
import numpy
import matplotlib.pyplot as plt
import sklearn.metrics
from numpy import asarray as as_array
from sklearn.metrics import accuracy_score as accuracy
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(3, 3).to(device)
host = torch.rand(4, 3)
x = torch.rand(4, 3).to(device)
out = net(x).detach()
{line}
"""
ROW = 16


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("out.numpy()", "out.cpu().numpy()"),
        ("y = net(x).argmax(dim=1).numpy()", "y = net(x).argmax(dim=1).cpu().numpy()"),
        ("(out + 1).numpy()", "(out + 1).cpu().numpy()"),
        (
            "y = (\n    out\n    .float()  # a.b\n    .numpy()\n)",
            "y = (\n    out\n    .float()  # a.b\n    .cpu().numpy()\n)",
        ),
        ("[o.numpy() for o in out]", "[o.cpu().numpy() for o in out]"),
        ("np.asarray(out)", "np.asarray(out.cpu())"),
        ("numpy.array(out[0])", "numpy.array(out[0].cpu())"),
        ("as_array(out - 1)", "as_array((out - 1).cpu())"),
        ("np.mean(-out)", "np.mean((-out).cpu())"),
        ("np.array((out), dtype=np.float32)", "np.array((out.cpu()), dtype=np.float32)"),
        ("np.asarray(a=out)", "np.asarray(a=out.cpu())"),
        ("accuracy([0, 1], out.argmax(1))", "accuracy([0, 1], out.argmax(1).cpu())"),
        ("sklearn.metrics.f1_score(y_true=[0], y_pred=out)", "sklearn.metrics.f1_score(y_true=[0], y_pred=out.cpu())"),
        ("plt.plot(out, label='x')", "plt.plot(out.cpu(), label='x')"),
        ("np.save('a.npy', out)", "np.save('a.npy', out.cpu())"),
        ("torch.zeros(3, device='cuda').numpy()", "torch.zeros(3, device='cuda').cpu().numpy()"),
        ("torch.zeros(3).cuda(1).numpy()", "torch.zeros(3).cuda(1).cpu().numpy()"),
        ("net.weight.detach().numpy()", "net.weight.detach().cpu().numpy()"),
    ],
)
def test_device_tensors_are_copied_by_a_safe_fix(line: str, wanted: str | None) -> None:
    text = SCRIPT.format(line=line)
    found = findings(text, "DEV104")
    if wanted is None:
        assert not found  # a parameter's own attribute: not followed
        return
    assert len(found) == 1
    assert found[0].fix is not None and found[0].fix.applicability is Applicability.SAFE
    assert "can't convert cuda:0 device type tensor to numpy" in found[0].message
    assert fixed(text, "DEV104") == SCRIPT.format(line=wanted)
    assert check(SCRIPT.format(line=wanted), "DEV104") == []


@pytest.mark.parametrize(
    "line",
    [
        "out.cpu().numpy()",
        "out.to('cpu').numpy()",
        "out = out.cpu()\nout.numpy()",
        "out.numpy(force=True)",
        "out.tolist(), out.sum().item(), float(out.sum())",
        "host.numpy(), np.asarray(host)",
        "np.array(out.tolist())",
        "np.mean(out.cpu().numpy())",
        "np.zeros(out.shape), np.prod(out.size(0))",
        "if device.type == 'cpu':\n    out.numpy()",
        "y = out.cpu().numpy() if out.is_cuda else out.numpy()",
        "try:\n    out.numpy()\nexcept TypeError:\n    pass",
        "torch.zeros(3, device='cpu').numpy()",
        "torch.zeros(3, device='meta').shape",
        "device = torch.device('cpu')\nx = torch.rand(3).to(device)\nx.numpy()",
        "x.to(net.weight.dtype).cpu().numpy()",
        "import pandas as pd\npd.DataFrame().to_numpy()",
        "accuracy(out.cpu(), out.cpu())",
        "sklearn.set_config(array_api_dispatch=True)\naccuracy(out, out)",
    ],
)
def test_copied_guarded_or_host_tensors_are_silent(line: str) -> None:
    assert check(SCRIPT.format(line=line), "DEV104") == []


@pytest.mark.parametrize(
    "body, reported",
    [
        ("return x.numpy()", False),
        ("return model(x).numpy()", False),
        ("return x.to(device).numpy()", True),
        ("return x.to(dtype).abs().numpy()", False),
        ("model = model.to(device)\n    return model(x.to(device)).argmax(dim=1).numpy()", True),
        ("for x in loader:\n        x.numpy()\n        model(x.to(device))", False),
        ("x = x.to(device)\n    if not x.is_cuda:\n        return x.numpy()", False),
    ],
)
def test_arguments_are_where_the_function_puts_them(body: str, reported: bool) -> None:
    text = f"import torch\n\n\ndef f(model, x, loader, device, dtype):\n    {body}\n"
    assert bool(check(text, "DEV104")) is reported


def test_a_device_that_each_call_says_is_the_cpu_is_silent() -> None:
    text = "import torch\n\n\ndef f(x, device):\n    return x.to(device).abs().numpy()\n\n\n"
    assert check(text + 'f(torch.ones(2), "cpu")\n', "DEV104") == []
    assert check(text + 'f(torch.ones(2), "cuda")\n', "DEV104") == [(5, "DEV104")]


def test_a_list_of_device_tensors_is_reported_without_a_fix() -> None:
    line = "rows = []\nfor _ in range(3):\n    rows.append(net(x))\nnp.array(rows)"
    (found,) = findings(SCRIPT.format(line=line), "DEV104")
    assert found.start.row == ROW + 3
    assert found.fix is None and found.no_fix
