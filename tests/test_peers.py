"""Faults that other linters for PyTorch have, each a test. Those of the plugin's noqa are in test_flake8.py."""

from __future__ import annotations

import re
from functools import cache

import pytest
from programs import programs

from devlint.config import Config
from devlint.engine import check_text, fix_bytes
from devlint.finding import Finding
from devlint.source import Source

ALL = Config(select=("ALL",), unsafe_fixes=True)


def found(text: str, config: Config | None = None) -> list[tuple[int, str]]:
    findings = check_text(Source("x.py", text), config or Config()).findings
    return [(finding.start.row, finding.code) for finding in findings]


def fixed(text: str, config: Config = ALL) -> str:
    return fix_bytes(text.encode(), "x.py", config).data.decode()


@cache
def every_finding() -> list[tuple[str, Finding]]:
    """All findings in all programs, with the program's text."""
    return [
        (text, finding)
        for text in programs().values()
        for finding in check_text(Source("x.py", text), ALL, noqa=False).findings
    ]


# --- keywords beside ** -----------------------------------------------------------------------------------------------

STARS = """\
import torch


def load(path, model, x, device, **options):
    model.load_state_dict(torch.load(path, **options))
    model.load_state_dict(torch.load(path, **{"weights_only": True}))
    mask = torch.zeros(3, **options)
    with torch.cuda.amp.autocast(**options):
        return model(x.to(device)) * mask
"""


def test_no_keyword_is_added_beside_two_stars():
    """`torch.load(path, map_location="cpu", **options)` raises TypeError where options hold one already.

    A dictionary that is written out there shows that it holds none.
    """
    after = fixed(STARS)
    assert 'torch.load(path, **{"weights_only": True}, map_location="cpu")' in after
    for line in after.splitlines():
        if "**options" in line:
            assert "map_location" not in line and "device=" not in line and "device_type=" not in line, line


def test_no_fix_anywhere_adds_a_keyword_beside_two_stars():
    for text, finding in every_finding():
        for edit in finding.fix.edits if finding.fix else ():
            line = text[text.rfind("\n", 0, edit.start) + 1 : edit.end].rsplit("(", 1)[-1]
            assert not (re.match(r",? *\w+=", edit.text) and re.search(r"\*\* *\w", line)), (finding, line)


# --- one truth for all doors, and an exit code that says it -----------------------------------------------------------


def test_exit_codes_say_what_was_found(devlint, tmp_path):
    (tmp_path / "good.py").write_text("import torch\n")
    (tmp_path / "bad.py").write_text('import torch\nx = torch.zeros(3, device="cuda:0,1")\n')
    assert devlint("check", "good.py").returncode == 0
    assert devlint("check", "bad.py").returncode == 1
    assert devlint("check", "nowhere.py").returncode == 2
    assert b"nowhere.py" in devlint("check", "nowhere.py").stderr


def test_a_syntax_error_is_shown_with_its_place(devlint, tmp_path):
    (tmp_path / "broken.py").write_text("import torch\nx = (\n")
    done = devlint("check", "--output-format", "concise", "broken.py")
    assert done.returncode == 1
    assert re.search(rb"broken\.py:2:\d+: DEV900 ", done.stdout)


def test_noqa_speaks_to_the_command(devlint, tmp_path):
    line = 'x = torch.zeros(3, device="cuda:0,1")'
    (tmp_path / "a.py").write_text(f"import torch\n{line}  # noqa: DEV401\n{line}  # noqa\n{line}  # noqa: DEV402\n")
    done = devlint("check", "--output-format", "concise", "a.py")
    assert re.findall(rb"a\.py:(\d+):\d+: (DEV\d+)", done.stdout) == [(b"4", b"DEV401")]


# --- what fixing must leave alone -------------------------------------------------------------------------------------

BYSTANDERS = """\
import torch

use_cuda = torch.cuda.is_available()  # use_cuda, not use_gpu; torch.load(path)
cuda_home = "/usr/local/cuda"
TEXT = "x.to(device); torch.load('a.pt'); torch.cuda.amp.autocast()"
DOC = '''
    x.to(device)
    model.load_state_dict(torch.load("a.pt"))
'''


class Cuda:
    cuda = "cuda"


def f(x, device, stream):
    cuda_tensor = x.unsqueeze(0)
    with torch.cuda.stream(stream):
        cuda_tensor.to(device)  # cuda_tensor.to(device)
    return cuda_tensor, TEXT, f"{DOC} x.to(device)"
"""


def test_strings_comments_names_and_paths_stay():
    assert fixed(BYSTANDERS) == BYSTANDERS.replace("        cuda_tensor.to", "        cuda_tensor = cuda_tensor.to")


@pytest.mark.parametrize(("old", "new"), [("\n", "\r\n"), ("\n", "\r")])
def test_line_ends_stay(old, new):
    data = BYSTANDERS.replace(old, new).encode()
    done = fix_bytes(data, "x.py", ALL)
    assert done.fixed
    assert done.data == fixed(BYSTANDERS).replace(old, new).encode()


def test_latin_1_is_fixed_as_latin_1():
    head = "# coding: latin-1\n# \xe9\n"
    done = fix_bytes((head + BYSTANDERS).encode("latin-1"), "x.py", ALL)
    assert done.data == (head + fixed(BYSTANDERS)).encode("latin-1")


def test_one_run_is_enough():
    for text in programs().values():
        once = fixed(text)
        assert fixed(once) == once


def test_cuda_calls_are_not_rewritten_wholesale():
    """On a build for the CPU `torch.accelerator.current_accelerator()` is None: no fix may rest on it."""
    text = """\
import torch
from torch import nn


def main():
    model = nn.Linear(3, 4).cuda()
    x = torch.ones(2, 3).cuda()
    torch.cuda.synchronize()
    return model(x)
"""
    assert fixed(text) == text
    for _, finding in every_finding():
        for edit in finding.fix.edits if finding.fix else ():
            assert "accelerator" not in edit.text


# --- what is no tensor ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        'writer.to("excel")',
        "fig.view()",
        "df.stack()",
        'length.to("m/s")',
        "net.to(torch.float16)",
        "net.half()",
        "sock.send(x).to(peer)",
        "bus.to(device)",
        "self.to(device)",
        "chain.cpu()",
    ],
)
def test_methods_of_other_things_are_no_transfers(statement):
    names = "self, writer, fig, df, length, net, sock, x, peer, bus, chain, device"
    assert found(f"import torch\n\n\ndef f({names}):\n    {statement}\n", ALL) == []


def test_a_module_moves_in_place():
    text = """\
import torch
from torch import nn


def f(x, device):
    net = nn.Linear(3, 4)
    net.to(torch.float16)
    net.to(device)
    net.cuda()
    return net(x.to(device))
"""
    assert [code for _, code in found(text)] == []


@pytest.mark.parametrize("dtype", ["int64", "float64", "bool", "float32", "complex64"])
def test_every_dtype_counts(dtype):
    """Token ids on the wrong device fail as floats do."""
    text = f"""\
import torch


def f(device):
    ids = torch.zeros(3, dtype=torch.{dtype})
    ids.to(device)
    return torch.ones(3, device=device) * ids
"""
    assert (6, "DEV101") in found(text)


# --- guards -----------------------------------------------------------------------------------------------------------


def test_one_probe_guards_no_other_function():
    text = """\
import torch


def probe():
    if torch.cuda.is_available():
        return torch.device("cuda:0,1")


def other():
    return torch.device("cuda:0,1")
"""
    assert found(text) == [(6, "DEV401"), (10, "DEV401")]


@pytest.mark.parametrize(
    "body",
    [
        'if x.device.type == "cuda":\n        return 1',
        'return x.device.type in ("cuda", "mps")',
        'return {"cuda": 1, "cpu": 2}[x.device.type]',
        'if not torch.cuda.is_available():\n        return 0\n    return torch.ones(1, device="cuda")',
        'try:\n        return torch.ones(1, device="cuda")\n    except RuntimeError:\n        return torch.ones(1)',
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n    return torch.ones(1, device=device)',
    ],
)
def test_comparisons_tables_and_guarded_branches_are_silent(body):
    assert found(f"import torch\n\n\ndef f(x):\n    {body}\n") == []


def test_a_value_that_was_bound_anew_is_another():
    text = """\
import torch


def f(x, stages, device):
    y = torch.zeros(3)
    for stage in stages:
        y.to(device)
        y = stage(y)
    return y
"""
    findings = check_text(Source("x.py", text), Config()).findings
    assert [finding.code for finding in findings] in ([], ["DEV101"])
    assert not any("does not change" in finding.message for finding in findings)


# --- advice that exists -----------------------------------------------------------------------------------------------


def test_what_is_advised_exists_in_torch():
    torch = pytest.importorskip("torch")
    advised = set()
    for _, finding in every_finding():
        texts = [edit.text for edit in finding.fix.edits] if finding.fix else []
        for text in [*texts, finding.fix.title if finding.fix else "", finding.no_fix or ""]:
            advised |= set(re.findall(r"\btorch(?:\.[A-Za-z_]\w*)+", text))
    assert advised
    missing = []
    for name in sorted(advised):
        value = torch
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        if value is None:
            missing.append(name)
    assert missing == []


def test_findings_are_where_the_fault_is():
    """No report with every result on the first line."""
    for text, finding in every_finding():
        line = Source("x.py", text).line(finding.start.row)
        assert line[finding.start.column - 1 : finding.start.column].strip(), finding
        assert (finding.start.row, finding.start.column) < (finding.end.row, finding.end.column), finding
