"""DEV402: the number of a GPU as a literal."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability, Group

HEAD = "import argparse\nimport os\nimport torch\nfrom torch import nn\n\n\ndef f(x, net, cfg, n):\n"

HARD = [
    'return x.to("cuda:1")',
    'x.to("cuda:1")',
    "return x.cuda(0)",
    "return x.cuda(device=1)",
    'return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")',
    'return torch.zeros(2, device="cuda:0")',
    'return torch.device("cuda", 1)',
    "return torch.device(1)",
    "torch.cuda.set_device(0)",
    "with torch.cuda.device(1): pass",
    "return nn.DataParallel(net, device_ids=[0, 1])",
    "return nn.DataParallel(net, [0, 1])",
    "return nn.parallel.DistributedDataParallel(net, device_ids=(0,))",
    'devices = {"first": "cuda:0"}',
    'return torch.load(cfg, map_location="cuda:0")',
    'self.device = "xpu:1"',
    'return "npu:0"',
    'for d in ["cuda:0"]: pass',
]


@pytest.mark.parametrize("line", HARD)
def test_literal_indices_are_found(line: str) -> None:
    found = findings(f"{HEAD}    {line}\n", "DEV402")
    assert [(one.code, one.group) for one in found] == [("DEV402", Group.PORTABILITY)], line


SOFT = [
    'return x.to("cuda"), x.to("mps:0"), x.to("cpu:0"), x.to(f"cuda:{n}")',
    "return x.cuda(n), x.cuda(), torch.device('cuda', n), nn.DataParallel(net, device_ids=list(range(n)))",
    'return cfg.get("device", "cuda:0"), getattr(cfg, "device", "cuda:0"), os.environ.get("D", "cuda:0")',
    'return cfg.device or "cuda:0"',
    'return n if n is not None else "cuda:0"',
    'return torch.device(f"cuda:{n}") if n else torch.device("cuda:0")',
    'if n is None:\n        n = "cuda:0"',
    'if cfg.device is not None:\n        return cfg.device\n    return "cuda:0"',
    'return cfg == "cuda:0" or cfg in ("cuda:0", "cuda:1")',
    'print("cuda:0"); cfg.startswith("cuda:0"); {"cuda:0": 1}["cuda:0"]',
    'argparse.ArgumentParser().add_argument("--device", default="cuda:0")',
    '"cuda:0"',
    'os.environ["CUDA_VISIBLE_DEVICES"] = n\n    return torch.device("cuda:0"), x.cuda(0)',
    'try:\n        return int(n)\n    except ValueError:\n        torch.cuda.set_device(0)\n        return "cuda:0"',
    "return torch.device(n.type, 0)",
    "return net.device(0), cfg.set_device(0), cfg.cuda_id(0)",
    'match cfg:\n        case "cuda:0":\n            return 1',
    'def g(device="cuda:0"): return device',
    'class A:\n        device: str = "cuda:0"',
    "class A:\n        def cuda(self, i): return self\n    return A().cuda(0)",
    'def test_it():\n        return x.to("cuda:1")',
]


@pytest.mark.parametrize("line", SOFT)
def test_what_a_caller_can_choose_is_silent(line: str) -> None:
    assert check(f"{HEAD}    {line}\n", "DEV402") == [], line


def test_it_is_off_by_default() -> None:
    from devlint.config import Config
    from devlint.engine import check_text
    from devlint.source import Source

    text = f'{HEAD}    return x.to("cuda:1")\n'
    assert check_text(Source("t.py", text), Config()).findings == ()
    assert check(text, "portability") == [(8, "DEV402")]


FIXES = [
    ("def f(x, device):", "return x.cuda(1)", "return x.to(device)"),
    ("def f(x, device):", 'return torch.zeros(2, device="cuda:1")', "return torch.zeros(2, device=device)"),
    ("def f(x: torch.Tensor, d: torch.device):", 'return x.to("cuda:1")', "return x.to(d)"),
    ("def f(x: torch.Tensor, d: torch.device):", 'return torch.device("cuda:1")', "return d"),
    ("def f(x, d: torch.device):", "return x.cuda(device=0)", "return x.to(device=d)"),
    ("def f(x):", 'd = torch.device("cuda")\n    return x.cuda(0)', 'd = torch.device("cuda")\n    return x.to(d)'),
    # the variable may be None, comes later, is another device, is one of two, is bound twice
    ("def f(x, device=None):", "return x.cuda(1)", None),
    ("def f(x):", "y = x.cuda(1)\n    dev = torch.device(x.name)\n    return y", None),
    ("def f(x):", 'dev = torch.device("cpu")\n    return x.cuda(1)', None),
    ("def f(x, a: torch.device, b: torch.device):", "return x.cuda(1)", None),
    ("def f(x, device):", "device = x.where\n    return x.cuda(1)", None),
    ("def f(x):", "if x.a:\n        dev = torch.device(x.name)\n    return x.cuda(1)", None),
    # a model over two GPUs; what a call means is not known
    ("def f(x, device):", "return x.cuda(0) + x.cuda(1)", None),
    ("def f(x, device):", 'return send(x, "cuda:1")', None),
    ("def f(x, net, device):", "return nn.DataParallel(net, device_ids=[0, 1])", None),
]  # fmt: skip


@pytest.mark.parametrize(("head", "old", "new"), FIXES)
def test_fixes_are_unsafe_and_need_one_device_variable(head: str, old: str, new: str | None) -> None:
    text = f"import torch\nfrom torch import nn\n\n\n{head}\n    {old}\n"
    found = findings(text, "DEV402")
    assert found
    assert fixed(text, "DEV402") == text
    if new is None:
        assert all(one.fix is None and one.no_fix for one in found)
    else:
        assert all(one.fix is not None and one.fix.applicability is Applicability.UNSAFE for one in found)
    assert fixed(text, "DEV402", unsafe=True) == text.replace(old, new or old)
