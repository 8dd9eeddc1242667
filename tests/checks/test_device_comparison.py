"""DEV403: a torch.device against a string, or against a device that lacks the index."""

from __future__ import annotations

import pytest
import torch
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

HEAD = """\
import torch
from torch import nn


def f(name, x: torch.Tensor, net: nn.Module):
    device = torch.device(name)
"""
START = HEAD.count("\n")

WRONG = [
    # (the body's line, and after the fix; None: no fix)
    ('if device == "cuda": pass', 'if device.type == "cuda": pass'),
    ('if "cuda" == device: pass', 'if "cuda" == device.type: pass'),
    ('ok = device != "cpu"', 'ok = device.type != "cpu"'),
    ('ok = device == "cuda:0"', 'ok = device == torch.device("cuda:0")'),
    ('ok = device in ("cuda", "mps")', 'ok = device.type in ("cuda", "mps")'),
    ('ok = device not in ["cpu"]', 'ok = device.type not in ["cpu"]'),
    ('ok = device in {"cuda:0", "cpu"}', 'ok = device in {torch.device("cuda:0"), torch.device("cpu")}'),
    ('ok = "cuda" in device', 'ok = "cuda" in str(device)'),
    ('ok = x.device == "cuda"', 'ok = x.device.type == "cuda"'),
    ('ok = x.device == "gpu"', None),
    ('ok = (x.device) == "cuda"', '(x.device.type) == "cuda"'),
    ('ok = torch.device(name) == "cuda"', 'ok = torch.device(name).type == "cuda"'),
    ('ok = [d == "cuda" for d in [device]]', 'ok = [d.type == "cuda" for d in [device]]'),
    ('while (d := torch.device(name)) == "cuda": pass', None),
    ('ok = lambda: x.device == "cuda"', 'ok = lambda: x.device.type == "cuda"'),
    ('assert x.device == "cuda", "no"', 'assert x.device.type == "cuda", "no"'),
    ('ok = next(net.parameters()).device == "cuda"', 'ok = next(net.parameters()).device.type == "cuda"'),
    ('assert x.device == torch.device("cuda")', None),
    ('if x.device != torch.device("cuda" if torch.cuda.is_available() else "cpu"): raise ValueError', None),
    ('where = torch.device("xpu")\n    return where == x.device', None),
]


@pytest.mark.parametrize(("line", "mended"), WRONG)
def test_comparisons_that_never_hold(line: str, mended: str | None) -> None:
    text = f"{HEAD}    {line}\n"
    found = findings(text, "DEV403")
    assert [one.code for one in found] == ["DEV403"]
    assert fixed(text, "DEV403") == text, "no fix is safe: a dead branch would start to run"
    after = fixed(text, "DEV403", unsafe=True)
    if mended is None:
        assert (after, found[0].fix) == (text, None)
        assert found[0].no_fix
    else:
        assert mended in after
        assert found[0].fix is not None
        assert found[0].fix.applicability is Applicability.UNSAFE
        assert check(after, "DEV403") == []


RIGHT = [
    'ok = name == "cuda"',
    'ok = device.type == "cuda" or device.type in {"cuda", "xpu"}',
    'ok = str(device) == "cuda:0" or "cuda" in str(device) or str(device).startswith("cuda")',
    'ok = device == torch.device("cuda") or device == device',
    "ok = x.device == net.weight.device",
    'ok = x.device == torch.device("cpu") or x.device == torch.device("meta")',
    'ok = x.device == torch.device("cuda:0") or x.device == torch.device("cuda", 1)',
    "ok = x.device == torch.device(name)",
    'ok = device in ("cuda", torch.device("cuda"))',
    "ok = device is None or device == None",
    'ok = device == "left" or x.names == "cuda"',
    'if x.device != torch.device("cuda"):\n        x = x.to("cuda")',
    'y = x if x.device == torch.device("cuda") else x.cuda()',
    'ok = x.device.type == "cuda" and x.device == torch.device("cuda")',
    "ok = torch.zeros(1).device == torch.device('cuda')",
    'd = torch.device("cuda")\n    if d.index is None:\n        d = torch.device("cuda", 0)\n    return x.device == d',
    "if isinstance(name, str):\n        name = torch.device(name)\n    return name == 'cuda'",
    'config = {"device": "cuda"}\n    return config["device"] == "cuda"',
    'try:\n        return "cuda" in device\n    except TypeError:\n        return False',
]


@pytest.mark.parametrize("line", RIGHT)
def test_comparisons_that_are_right(line: str) -> None:
    assert check(f"{HEAD}    {line}\n", "DEV403") == [], line


def test_an_annotation_with_a_string_as_default_proves_nothing() -> None:
    head = "import torch\ndef f(device: torch.device{default}):\n    return device == 'cuda'\n"
    assert check(head.replace("{default}", ""), "DEV403") == [(3, "DEV403")]
    assert check(head.replace("{default}", " = 'cuda'"), "DEV403") == []


def test_the_fix_writes_torch_as_the_file_does() -> None:
    text = "import torch as th\n\n\ndef f(x):\n    d = th.device(x)\n    return d == 'cuda:1'\n"
    assert fixed(text, "DEV403", unsafe=True).endswith("return d == th.device('cuda:1')\n")
    text = "from torch import device as D\n\n\ndef f(x):\n    d = D(x)\n    return d == 'cuda:1'\n"
    assert fixed(text, "DEV403", unsafe=True).endswith("return d == D('cuda:1')\n")
    shadowed = "import torch\n\nd = torch.device('cuda')\n\n\ndef f(torch):\n    return d == 'cuda:1'\n"
    assert fixed(shadowed, "DEV403", unsafe=True) == shadowed


def test_a_default_decides_where_the_index_is_missing() -> None:
    """The class keeps `torch.device(device)` of an argument that is "cuda" by default."""
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Server:\n"
        '    def __init__(self, net, device="{default}"):\n'
        "        self.device = torch.device(device)\n        self.net = net.to(self.device).eval()\n\n"
        "    def __call__(self, x):\n        if x.device != self.device:\n            raise ValueError\n"
        "        return self.net(x)\n"
    )
    assert check(text.replace("{default}", "cuda"), "DEV403") == [(11, "DEV403")]
    assert check(text.replace("{default}", "cuda:0"), "DEV403") == []
    assert check(text.replace("{default}", "cpu"), "DEV403") == []


def test_torch_agrees() -> None:
    """What the messages say, on the installed torch."""
    for text in ("cuda", "cpu", "cuda:0"):
        device = torch.device(text)
        assert (device == text) is False
        assert device != text
        assert device not in (text, "cpu")
        with pytest.raises(
            TypeError, match=r"argument of type 'torch\.device' is not (iterable|a container or iterable)"
        ):
            assert text in device  # type: ignore[operator]
    assert torch.device("cuda") != torch.device("cuda:0")
    assert torch.zeros(1).device == torch.device("cpu")
