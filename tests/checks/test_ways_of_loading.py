"""DEV301 and DEV303 through all that stands between a file and a model; what is reported is tried on simulated GPUs.

Each program has a `restore(net, path)`. The file was saved on the second of two GPUs; on a machine with one, a load
without a place must fail, and the fixed program must load.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from checks.helpers import check, findings, fixed

from devlint.runtime import simulate

HEAD = """\
import functools, io, os
from functools import partial
import torch
import torch.distributed as dist
from torch import nn

"""

FOUND = {
    "partial": """
read = partial(torch.load, weights_only=True)
def restore(net: nn.Module, path):
    net.load_state_dict(read(path))
""",
    "partial that says None": """
def restore(net: nn.Module, path):
    read = functools.partial(torch.load, map_location=None)
    net.load_state_dict(read(path))
""",
    "partial with the path": """
def restore(net: nn.Module, path):
    read = partial(torch.load, path)
    net.load_state_dict(read())
""",
    "partial of a helper": """
def read(path, map_location=None):
    return torch.load(path, map_location=map_location)
fetch = partial(read, map_location=None)
def restore(net: nn.Module, path):
    net.load_state_dict(fetch(path))
""",
    "options": """
def restore(net: nn.Module, path):
    options = {"weights_only": True}
    net.load_state_dict(torch.load(path, **options))
""",
    "options by dict()": """
OPTIONS = dict(weights_only=True, mmap=False)
def restore(net: nn.Module, path):
    net.load_state_dict(torch.load(path, **OPTIONS))
""",
    "options that depend": """
def restore(net: nn.Module, path, new=True):
    net.load_state_dict(torch.load(path, **({"weights_only": True} if new else {})))
""",
    "options that are filled": """
def restore(net: nn.Module, path, new=True):
    options = {}
    if new:
        options["weights_only"] = True
    net.load_state_dict(torch.load(path, **options))
""",
    "helper with options and a place": """
def read(path, *, map_location=None, **rest):
    return torch.load(path, map_location=map_location, **rest)
def restore(net: nn.Module, path):
    net.load_state_dict(read(path, weights_only=True))
""",
    "helper of a helper": """
def read(path, map_location=None):
    return torch.load(path, map_location=map_location)
def state_of(path, map_location=None):
    return read(path, map_location)
def restore(net: nn.Module, path):
    net.load_state_dict(state_of(path))
""",
    "static method": """
class Store:
    @staticmethod
    def read(path, map_location=None):
        return torch.load(path, map_location=map_location)
    def fill(self, net: nn.Module, path):
        net.load_state_dict(self.read(path))
def restore(net, path):
    Store().fill(net, path)
""",
    "named lambda": """
read = lambda path: torch.load(path)
def restore(net: nn.Module, path):
    net.load_state_dict(read(path))
""",
    "open file": """
def restore(net: nn.Module, path):
    with open(path, "rb") as f:
        state = torch.load(f)
    net.load_state_dict(state)
""",
    "bytes of a file": """
def restore(net: nn.Module, path):
    with open(path, "rb") as f:
        buffer = io.BytesIO(f.read())
    net.load_state_dict(torch.load(buffer))
""",
    "bytes written into a buffer": """
def restore(net: nn.Module, path):
    buffer = io.BytesIO()
    with open(path, "rb") as f:
        buffer.write(f.read())
    buffer.seek(0)
    net.load_state_dict(torch.load(buffer))
""",
    "URL": """
def restore(net: nn.Module, path):
    net.load_state_dict(torch.hub.load_state_dict_from_url(f"file://{path}"))
""",
    "URL, imported in a try": """
try:
    from torch.hub import load_state_dict_from_url
except ImportError:
    from torch.utils.model_zoo import load_url as load_state_dict_from_url
def restore(net: nn.Module, path):
    state = load_state_dict_from_url(f"file://{path}", progress=False)
    net.load_state_dict(state)
""",
    "with a default for the key": """
def restore(net: nn.Module, path):
    state = torch.load(path)
    state = state.get("state_dict", state)
    net.load_state_dict(state)
""",
    "a function that saves something else, and is told the path": """
def share(obj):
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer = io.BytesIO(buffer.getvalue() + bytes(len(obj) * 0))
    return obj
def restore(net: nn.Module, path):
    path = share(path)
    net.load_state_dict(torch.load(path))
""",
    "name of its own": """
def fit(net, path):
    torch.save(net.state_dict(), path)
def restore(net: nn.Module, path):
    fit(nn.Linear(1, 1), os.devnull)
    net.load_state_dict(torch.load(path))
""",
}
"""The fix is safe and reads onto the CPU."""


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the state of a Linear(2, 2) of ones, saved on the second GPU."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    path = tmp_path / "net.pt"
    with simulate(devices=2):
        net = torch.nn.Linear(2, 2).to("cuda:1")
        torch.nn.init.ones_(net.weight)
        torch.save(net.state_dict(), path)
    return path


def restored(text: str, path: Path) -> float:
    """Run a program's `restore` on a machine with one GPU; the sum of the weights."""
    names: dict[str, object] = {}
    exec(compile(text, "program.py", "exec"), names)
    with simulate(devices=1):
        net = torch.nn.Linear(2, 2).cuda()
        names["restore"](net, str(path))  # type: ignore[operator]
        return float(net.weight.detach().sum())


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_found_and_fixed(body: str, saved: Path) -> None:
    text = HEAD + body
    (found,) = findings(text, "DEV301")
    assert found.fix is not None
    assert found.fix.applicability.value == "safe"
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on CUDA device 1"):
        restored(text, saved)
    after = fixed(text, "DEV301")
    assert restored(after, saved) == 4
    assert check(after, "DEV301") == []


SILENT = {
    "options with a place": """
def restore(net: nn.Module, path):
    options = dict(weights_only=True, map_location="cpu")
    net.load_state_dict(torch.load(path, **options))
""",
    "options that get a place": """
def restore(net: nn.Module, path):
    options = {"weights_only": True}
    if not torch.cuda.is_available():
        options["map_location"] = "cpu"
    net.load_state_dict(torch.load(path, **options))
""",
    "options that others fill": """
def restore(net: nn.Module, path, more):
    options = {"weights_only": True}
    options.update(more)
    net.load_state_dict(torch.load(path, **options))
""",
    "options that depend on what they were": """
def restore(net: nn.Module, path, options=None):
    options = options if options else {}
    options = {"weights_only": True} if path else options
    net.load_state_dict(torch.load(path, **options))
""",
    "partial of a helper with a place": """
def read(path, map_location=None):
    return torch.load(path, map_location=map_location)
fetch = partial(read, map_location="cpu")
def restore(net: nn.Module, path):
    net.load_state_dict(fetch(path))
""",
    "written by a function that ran before": """
def fit(net):
    torch.save(net.state_dict(), "best.pt")
def main():
    net = nn.Linear(2, 2)
    fit(net)
    net.load_state_dict(torch.load("best.pt"))
""",
    "written by a function that was told the path": """
def fit(net, path):
    torch.save(net.state_dict(), path)
def main(args):
    net = nn.Linear(2, 2)
    fit(net, args.path)
    net.load_state_dict(torch.load(args.path))
""",
    "written by a method, whenever it is better": """
class Trainer:
    def __init__(self):
        self.net = nn.Linear(2, 2)
        self.best = "best.pt"
    def save(self):
        torch.save(self.net.state_dict(), self.best)
    def fit(self, data):
        for x in data:
            if self.net(x).sum() > 0:
                self.save()
        self.net.load_state_dict(torch.load(self.best))
""",
    "written by an object": """
class EarlyStopping:
    def __init__(self, path="checkpoint.pt"):
        self.path = path
    def __call__(self, model):
        torch.save(model.state_dict(), self.path)
def main(loader):
    net = nn.Linear(2, 2)
    stop = EarlyStopping(path="checkpoint.pt")
    for x in loader:
        stop(net)
    net.load_state_dict(torch.load("checkpoint.pt"))
""",
    "a buffer of its own": """
class Snapshot:
    def __init__(self):
        self.buffer = io.BytesIO()
    def take(self, net):
        torch.save(net.state_dict(), self.buffer)
    def restore(self, net: nn.Module):
        self.buffer.seek(0)
        net.load_state_dict(torch.load(self.buffer))
""",
    "what the trainer wrote": """
import lightning as L
class Net(L.LightningModule):
    def forward(self, x): return x
def main(x, loader):
    trainer = L.Trainer()
    trainer.fit(Net(), loader)
    net = Net.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    return net.eval()(x)
""",
    "OpenMMLab with a place": """
from mmcv.runner import load_checkpoint
def restore(path):
    load_checkpoint(nn.Linear(2, 2), path, map_location="cpu")
""",
    "a name imported from another library as well": """
try:
    from torch.hub import load_state_dict_from_url
except ImportError:
    from mine import load_state_dict_from_url
def restore(net: nn.Module, path):
    net.load_state_dict(load_state_dict_from_url(path))
""",
}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_silent(body: str) -> None:
    assert check(HEAD + body, "DEV301", "DEV303") == []


def test_a_file_of_another_run_is_no_file_of_this_one() -> None:
    text = HEAD + (
        "def train(net):\n    torch.save(net.state_dict(), 'best.pt')\n"
        "def main(args):\n    net = nn.Linear(2, 2)\n    if args.train:\n        train(net)\n"
        "    if args.evaluate:\n        net.load_state_dict(torch.load('best.pt'))\n"
    )
    assert [code for _, code in check(text, "DEV301")] == ["DEV301"]


IMPORTS = [
    "from mmengine.runner import load_checkpoint",
    "from mmengine.runner.checkpoint import load_checkpoint",
    "from mmcv.runner import load_checkpoint",
]


@pytest.mark.parametrize("line", IMPORTS)
def test_a_load_that_fills_the_model_itself(line: str) -> None:
    """mmengine/runner/checkpoint.py: its map_location=None is that of torch.load; it copies into the model."""
    text = HEAD + f"{line}\ndef main(path):\n    net = nn.Linear(2, 2)\n    load_checkpoint(net, path)\n"
    assert 'load_checkpoint(net, path, map_location="cpu")' in fixed(text, "DEV301")
    by_position = text.replace("net, path)", "net, path, None)")
    assert 'load_checkpoint(net, path, "cpu")' in fixed(by_position, "DEV301")


WORKER = HEAD + "def worker(rank, net: nn.Module, path):\n    dist.init_process_group('nccl', rank=rank)\n"
EVERYWHERE = [
    (
        "options = {'map_location': 'cuda:0'}\n    net.load_state_dict(torch.load(path, **options))",
        "{'map_location': \"cpu\"}",
    ),
    (
        "net.load_state_dict(torch.load(path, map_location=lambda storage, place: storage.cuda()))",
        'torch.load(path, map_location="cpu")',
    ),
    (
        "read = partial(torch.load, map_location='cuda:0')\n    net.load_state_dict(read(path))",
        'read(path, map_location="cpu")',
    ),
    ("with open(path, 'rb') as f:\n        net.load_state_dict(torch.load(f))", 'torch.load(f, map_location="cpu")'),
]


@pytest.mark.parametrize(("body", "wanted"), EVERYWHERE)
def test_every_process_loads_onto_one_gpu(body: str, wanted: str) -> None:
    text = f"{WORKER}    {body}\n"
    assert [code for _, code in check(text, "DEV301", "DEV303")] == ["DEV303"]
    after = fixed(text, "DEV303")
    assert wanted in after
    assert check(after, "DEV301", "DEV303") == []


def test_the_current_device_is_right_where_each_process_sets_it() -> None:
    load = "net.load_state_dict(torch.load(path, map_location=lambda storage, place: storage.cuda()))"
    assert check(f"{WORKER}    torch.cuda.set_device(rank)\n    {load}\n", "DEV301", "DEV303") == []
