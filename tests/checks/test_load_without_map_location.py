"""DEV301: which loads are reported, and where the fix puts them."""

from __future__ import annotations

import textwrap

import pytest
from checks.helpers import check, findings, fixed

CODE = "DEV301"
HEAD = "import functools\nimport io\nimport torch\nfrom torch import nn\n"
NET = "net = nn.Linear(2, 2)\n"


def rows(body: str, head: str = HEAD) -> list[int]:
    """The rows of the findings, counted from 1 at the body."""
    first = head.count("\n")
    return [row - first for row, _ in check(head + body, CODE)]


def mended(body: str, *, unsafe: bool = False, head: str = HEAD) -> str:
    """The body after the fix."""
    return fixed(head + body, CODE, unsafe=unsafe).removeprefix(head)


SAFE = [
    pytest.param("net.load_state_dict(torch.load(p))", "torch.load(p, map_location='cpu')", id="plain"),
    pytest.param("net.load_state_dict(torch.load(p), strict=False)", "torch.load(p, map_location='cpu')", id="strict"),
    pytest.param(
        "net.load_state_dict(torch.load(p), assign=False)", "torch.load(p, map_location='cpu')", id="assign off"
    ),
    pytest.param("net.load_state_dict(torch.load(f=p))", "torch.load(f=p, map_location='cpu')", id="keyword"),
    pytest.param("net.load_state_dict(torch.load(p, None))", "torch.load(p, 'cpu')", id="None by position"),
    pytest.param(
        "net.load_state_dict(torch.load(p, map_location=None))", "torch.load(p, map_location='cpu')", id="None"
    ),
    pytest.param("net.load_state_dict(torch.load(p)['net'])", "torch.load(p, map_location='cpu')", id="item"),
    pytest.param("net.load_state_dict(torch.load(p).get('net'))", "torch.load(p, map_location='cpu')", id="get"),
    pytest.param("s = torch.load(p)\nnet.load_state_dict(s)", "torch.load(p, map_location='cpu')", id="name"),
    pytest.param(
        "if (s := torch.load(p)):\n    net.load_state_dict(s)", "torch.load(p, map_location='cpu')", id="walrus"
    ),
    pytest.param(
        "with open(p, 'rb') as f:\n    s = torch.load(f)\nnet.load_state_dict(s['m'])\nprint(s['epoch'])",
        "torch.load(f, map_location='cpu')",
        id="with",
    ),
    pytest.param(
        "net.load_state_dict(torch.load(io.BytesIO(open(p, 'rb').read())))",
        "torch.load(io.BytesIO(open(p, 'rb').read()), map_location='cpu')",
        id="BytesIO",
    ),
    pytest.param(
        "s = {k[7:]: v for k, v in torch.load(p)['state_dict'].items()}\nnet.load_state_dict(s)",
        "torch.load(p, map_location='cpu')",
        id="comprehension",
    ),
    pytest.param(
        "new = {}\nfor k, v in torch.load(p).items():\n    new[k[7:]] = v\nnet.load_state_dict(new)",
        "torch.load(p, map_location='cpu')",
        id="loop",
    ),
    pytest.param(
        "own = net.state_dict()\nown.update(torch.load(p))\nnet.load_state_dict(own)",
        "torch.load(p, map_location='cpu')",
        id="update",
    ),
    pytest.param(
        "own = net.state_dict()\nfor k, v in torch.load(p).items():\n"
        "    if own[k].shape == v.shape:\n        own[k].copy_(v)",
        "torch.load(p, map_location='cpu')",
        id="copy_",
    ),
    pytest.param(
        "s = torch.load(p)\ns = s['model'] if 'model' in s else s\ndel s['head']\nnet.load_state_dict(s)",
        "torch.load(p, map_location='cpu')",
        id="rebinding",
    ),
    pytest.param(
        "s = torch.load(p)\ns['a'] = s.pop('b').squeeze()\nnet.load_state_dict(s)",
        "torch.load(p, map_location='cpu')",
        id="reshaped",
    ),
    pytest.param(
        "net.load_state_dict(torch.hub.load_state_dict_from_url(url, progress=True))",
        "torch.hub.load_state_dict_from_url(url, progress=True, map_location='cpu')",
        id="url",
    ),
    pytest.param(
        "from torch.utils import model_zoo\nnet.load_state_dict(model_zoo.load_url(url))",
        "model_zoo.load_url(url, map_location='cpu')",
        id="model_zoo",
    ),
    pytest.param(
        "import torch as th\nnet.load_state_dict(th.load(p))", "th.load(p, map_location='cpu')", id="import alias"
    ),
    pytest.param(
        "from torch import load as read\nnet.load_state_dict(read(p))", "read(p, map_location='cpu')", id="from import"
    ),
    pytest.param("read = torch.load\nnet.load_state_dict(read(p))", "read(p, map_location='cpu')", id="assigned"),
    pytest.param(
        "read = functools.partial(torch.load, weights_only=True)\nnet.load_state_dict(read(p))",
        "read(p, map_location='cpu')",
        id="partial",
    ),
    pytest.param(
        "def _read(p):\n    return torch.load(p)['net']\nnet.load_state_dict(_read('a'))",
        "torch.load(p, map_location='cpu')",
        id="private helper",
    ),
    pytest.param(
        "def read(p, map_location=None):\n    return torch.load(p, map_location=map_location)\n"
        "net.load_state_dict(read('a'))",
        "read('a', map_location='cpu')",
        id="helper's parameter",
    ),
    pytest.param(
        "def read(p, **kw):\n    return torch.load(p, **kw)\nnet.load_state_dict(read('a'))",
        "read('a', map_location='cpu')",
        id="helper's stars",
    ),
    pytest.param(
        "def fill(n, p, where=None):\n    s = torch.load(p, map_location=where)\n"
        "    n.load_state_dict(s, strict=True)\n"
        "fill(net, 'a')",
        "fill(net, 'a', where='cpu')",
        id="helper that fills",
    ),
    pytest.param(
        "def put(s, n):\n    n.load_state_dict(s, strict=True)\nput(torch.load(p), net)",
        "torch.load(p, map_location='cpu')",
        id="handed to a function of the file",
    ),
    pytest.param(
        "async def main(net: nn.Module):\n    match kind:\n        case 1:\n"
        "            net.load_state_dict(torch.load(p))",
        "torch.load(p, map_location='cpu')",
        id="async and match",
    ),
]


@pytest.mark.parametrize(("body", "wanted"), SAFE)
def test_copied_on_means_the_cpu(body: str, wanted: str) -> None:
    text = NET + body + "\n"
    after = mended(text)
    assert wanted.replace("'cpu'", '"cpu"') in after
    assert after.count('"cpu"') == 1
    assert rows(after) == []


RESUME = """\
def resume(path, model: nn.Module, optimizer: torch.optim.Optimizer, scheduler):
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    return checkpoint["epoch"] + 1
"""


def test_resume_function() -> None:
    assert rows(RESUME) == [2]
    assert 'torch.load(path, map_location="cpu")' in mended(RESUME)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            ('return checkpoint["epoch"] + 1', 'return checkpoint["best_acc"]'), id="a result may be a tensor"
        ),
        pytest.param(("model: nn.Module", "model"), id="an unproven model"),
        pytest.param(("optimizer: torch.optim.Optimizer", "optimizer"), id="an unproven optimizer"),
    ],
)
def test_what_is_not_proven_is_unsafe(change: tuple[str, str]) -> None:
    text = RESUME.replace(*change)
    assert text != RESUME
    assert mended(text) == text
    assert 'torch.load(path, map_location="cpu")' in mended(text, unsafe=True)


UNSAFE = [
    pytest.param(
        "device = torch.device('cuda')\nnet.to(device)\nnet.load_state_dict(torch.load(p), assign=True)",
        "torch.load(p, map_location=device)",
        id="assign",
    ),
    pytest.param(
        "device = 'cuda'\nnet = torch.load(p, weights_only=False)\nnet.to(device)\nnet.eval()",
        "torch.load(p, weights_only=False, map_location=device)",
        id="whole model",
    ),
    pytest.param(
        "def f(device):\n    net = torch.jit.load(p)\n    return net.to(device)",
        "torch.jit.load(p, map_location=device)",
        id="script",
    ),
    pytest.param(
        "def f(path, device):\n    return torch.load(path).unsqueeze(0).to(device)",
        "torch.load(path, map_location=device)",
        id="tensor that moves",
    ),
    pytest.param(
        "class M(nn.Module):\n    def load_state_dict(self, s): ...\nM().load_state_dict(torch.load(p))",
        'torch.load(p, map_location="cpu")',
        id="own load_state_dict",
    ),
    pytest.param(
        "class T:\n    def __init__(self, device):\n        self.device = device\n"
        "        self.net = nn.Linear(2, 2).to(self.device)\n"
        "    def again(self):\n        self.net.load_state_dict(torch.load(p), assign=True)\n"
        "    def go(self):\n        self.net.to(self.device)",
        "torch.load(p, map_location=self.device)",
        id="attribute",
    ),
    pytest.param(
        "from lightning.pytorch import LightningModule\nclass Lit(LightningModule):\n    pass\n"
        "device = torch.device('cpu')\nlit = Lit.load_from_checkpoint(p).to(device)",
        "Lit.load_from_checkpoint(p, map_location=device)",
        id="lightning",
    ),
]


@pytest.mark.parametrize(("body", "wanted"), UNSAFE)
def test_unsafe_choice(body: str, wanted: str) -> None:
    text = NET + body + "\n"
    assert mended(text) == text
    after = mended(text, unsafe=True)
    assert wanted in after
    assert rows(after) == []


NO_FIX = [
    pytest.param(
        "def read(p):\n    return torch.load(p)\nnet.load_state_dict(read('a'))", "returned", id="public helper"
    ),
    pytest.param("def load_checkpoint(path):\n    return torch.load(path)", "returned", id="returned"),
    pytest.param("net.load_state_dict(torch.load(p), assign=True)", "assign=True", id="assign without a device"),
    pytest.param(
        "net.load_state_dict(torch.load(p), assign=True)\ndevice = torch.device('cuda')\nnet.to(device)",
        "assign=True",
        id="device set later",
    ),
    pytest.param(
        "if big:\n    device = 'cuda'\nnet.load_state_dict(torch.load(p), assign=True)\nnet.to(device)",
        "assign=True",
        id="device set on one way only",
    ),
    pytest.param(
        "device = 'cuda'\nnet.to(device)\ns = torch.load(p)\nnet.load_state_dict(s['n'], assign=True)\n"
        "torch.set_rng_state(s['rng'])",
        "random number generator",
        id="generator",
    ),
]


@pytest.mark.parametrize(("body", "why"), NO_FIX)
def test_no_fix_says_why(body: str, why: str) -> None:
    (found,) = findings(HEAD + NET + body + "\n", CODE)
    assert found.fix is None
    assert why in (found.no_fix or "")


def test_generator_state_stays_with_a_load_onto_the_cpu() -> None:
    text = NET + "s = torch.load(p)\nnet.load_state_dict(s['net'])\ntorch.set_rng_state(s['rng'])\n"
    assert 'torch.load(p, map_location="cpu")' in mended(text)


REPORTED = [
    pytest.param("from x import Model\nm = Model()\nm.load_state_dict(torch.load(p))", 3, id="unknown class"),
    pytest.param("def f(path):\n    weights = torch.load(path)\n    convert(weights)", 2, id="weights, handed on"),
    pytest.param("build(state_dict=torch.load(p))", 1, id="keyword state_dict"),
    pytest.param("w = torch.load(p)\nprint(w.to('cuda') @ w)", 1, id="tensor"),
    pytest.param("w = torch.load(p)\nx = torch.cat([w, w])", 1, id="tensor in a torch function"),
    pytest.param(
        "class M(nn.Module):\n    def fill(self, path):\n        for k, v in torch.load(path).items():\n"
        "            self.t[k] = v\n"
        "    def forward(self, k):\n        return self.t[k].to(self.w.device)",
        3,
        id="stored and used in the class",
    ),
    pytest.param(
        "class S:\n    def __init__(self, path):\n        self.s = torch.load(path)\n    @property\n"
        "    def table(self) -> dict[str, torch.Tensor]:\n        return self.s",
        3,
        id="annotation",
    ),
    pytest.param("c = torch.load(a)\ns = c.pop('state_dict')\ntorch.save(s, b)", 1, id="converter"),
]


@pytest.mark.parametrize(("body", "row"), REPORTED)
def test_reported(body: str, row: int) -> None:
    assert rows(body + "\n") == [row]


SILENT = [
    pytest.param("net.load_state_dict(torch.load(p, map_location='cpu'))", id="given"),
    pytest.param("net.load_state_dict(torch.load(p, 'cpu'))", id="by position"),
    pytest.param("net.load_state_dict(torch.load(p, map_location=lambda s, l: s))", id="function"),
    pytest.param("net.load_state_dict(torch.load(p, map_location={'cuda:0': 'cpu'}))", id="table"),
    pytest.param("net.load_state_dict(torch.load(p, **kw))", id="stars may hold it"),
    pytest.param("net.load_state_dict(torch.load(*args))", id="star may hold it"),
    pytest.param(
        "read = functools.partial(torch.load, map_location='cpu')\nnet.load_state_dict(read(p))", id="partial"
    ),
    pytest.param("read = functools.partial(torch.load, **kw)\nnet.load_state_dict(read(p))", id="partial with stars"),
    pytest.param(
        "def read(p, map_location='cpu'):\n    return torch.load(p, map_location=map_location)\n"
        "net.load_state_dict(read('a'))",
        id="helper with a default",
    ),
    pytest.param(
        "def read(p, **kw):\n    kw.setdefault('map_location', 'cpu')\n    return torch.load(p, **kw)\n"
        "net.load_state_dict(read('a'))",
        id="helper that fills its stars",
    ),
    pytest.param(
        "def read(p, map_location=None):\n    return torch.load(p, map_location=map_location)\n"
        "net.load_state_dict(read('a', 'cpu'))",
        id="given to the helper",
    ),
    pytest.param("import pickle\nnet.load_state_dict(pickle.load(f))", id="pickle"),
    pytest.param("from safetensors.torch import load_file\nnet.load_state_dict(load_file(p))", id="safetensors"),
    pytest.param("import numpy as np\nx = np.load(p)\nnet(torch.from_numpy(x))", id="numpy"),
    pytest.param("net.load_state_dict(store.load(p))", id="another load"),
    pytest.param("from mine import torch\nnet.load_state_dict(torch.load(p))", id="another torch"),
    pytest.param("def f(torch):\n    net.load_state_dict(torch.load(p))", id="shadowed by an argument"),
    pytest.param("vocab = torch.load(p)\nword = vocab['a']\nprint(len(vocab))", id="vocabulary"),
    pytest.param("args = torch.load(p)\nprint(args.lr)", id="arguments"),
    pytest.param("history = torch.load(p)\nplot(history['loss'])", id="metrics"),
    pytest.param(
        "ckpt = torch.load(ckpt_path)\nnet = Net(ckpt['node_a'], [ckpt['arch_code'], 3])", id="what a model is built by"
    ),
    pytest.param("start = torch.load(p)['epoch'] + 1\nfor e in range(start, 9):\n    run(e)", id="a number"),
    pytest.param("lr_scheduler.load_state_dict(torch.load(p))", id="scheduler by name"),
    pytest.param(
        "s = torch.optim.lr_scheduler.StepLR(o, 1)\ns.load_state_dict(torch.load(p))", id="scheduler by its class"
    ),
    pytest.param("scaler.load_state_dict(torch.load(p))", id="scaler"),
    pytest.param("torch.save(net.state_dict(), p)\nnet.load_state_dict(torch.load(p))", id="round trip"),
    pytest.param(
        "for x in batches:\n    net(x).backward()\n    stop(net, folder)\n"
        "best = folder + '/best.pt'\nnet.load_state_dict(torch.load(best))",
        id="written by what the training loop calls",
    ),
    pytest.param(
        "metadata = torch.load(p / METADATA)\nstate[key] = metadata.pop(key)\nnet.load_state_dict(state[key])",
        id="metadata",
    ),
    pytest.param("torch.set_rng_state(torch.load(p))", id="generator"),
    pytest.param(
        "b = io.BytesIO()\ntorch.save(net.state_dict(), b)\nb.seek(0)\nnet.load_state_dict(torch.load(b))",
        id="round trip in memory",
    ),
    pytest.param(
        "if exists(p):\n    stats = torch.load(p)\nelse:\n    stats = make()\n    torch.save(stats, p)\nx = net(stats)",
        id="cache",
    ),
    pytest.param(
        "if torch.cuda.is_available():\n    s = torch.load(p)\nelse:\n    s = torch.load(p, map_location='cpu')\n"
        "net.load_state_dict(s)",
        id="guard",
    ),
    pytest.param(
        "s = torch.load(p) if torch.cuda.is_available() else torch.load(p, map_location='cpu')\nnet.load_state_dict(s)",
        id="guard in an expression",
    ),
    pytest.param(
        "try:\n    s = torch.load(p)\nexcept RuntimeError:\n    s = torch.load(p, map_location='cpu')\n"
        "net.load_state_dict(s)",
        id="attempt",
    ),
    pytest.param(
        "def f():\n    if not torch.cuda.is_available():\n        return torch.load(p, map_location='cpu')\n"
        "    return torch.load(p)\nnet.load_state_dict(f())",
        id="early return",
    ),
    pytest.param(
        "from torch.utils.data import Dataset\nclass D(Dataset):\n    def __getitem__(self, i):\n"
        "        return torch.load(self.paths[i]).float()",
        id="data set",
    ),
    pytest.param("def test_net():\n    net.load_state_dict(torch.load(p))", id="test"),
    pytest.param("def receive(row: bytes):\n    return torch.load(io.BytesIO(row))", id="bytes of the same run"),
    pytest.param(
        "class A:\n    def save(self, p):\n        torch.save(self.table, p)\n    def load(self, p):\n"
        "        self.table = torch.load(p)\n    def ask(self, x):\n        return torch.cat([self.table[x], x])",
        id="data of its own",
    ),
    pytest.param(
        "stats = torch.load(p)\nmean = torch.tensor(stats['mean'])\nprint(x - mean)", id="numbers that become a tensor"
    ),
    pytest.param(
        "import lightning as L\nclass Lit(L.LightningModule):\n    pass\nL.Trainer().test(Lit.load_from_checkpoint(p))",
        id="the trainer moves it",
    ),
]


@pytest.mark.parametrize("body", SILENT)
def test_silent(body: str) -> None:
    assert rows(NET + body + "\n") == []


def test_layout_is_kept() -> None:
    text = "net.load_state_dict(\n    torch.load(\n        p,\n        weights_only=True,  # safe\n    )\n)\n"
    wanted = text.replace("weights_only=True,  # safe", 'weights_only=True,\n        map_location="cpu",  # safe')
    assert mended(NET + text) == NET + wanted


def test_carriage_returns_are_kept() -> None:
    text = (HEAD + NET + "net.load_state_dict(torch.load(\n    p,\n))\n").replace("\n", "\r\n")
    after = fixed(text, CODE)
    assert after == text.replace("    p,\r\n", '    p,\r\n    map_location="cpu",\r\n')


def test_finding_stands_at_the_name() -> None:
    (found,) = findings(textwrap.dedent(HEAD + NET + "net.load_state_dict(torch.load(p))\n"), CODE)
    assert (found.start.column, found.end.column) == (27, 31)
    assert "Attempting to deserialize object on a CUDA device" in found.message


def test_keyword_beside_stars_is_never_added() -> None:
    """Another tool wrote `torch.load(path, map_location=..., **kw)`, which raises TypeError: multiple values."""
    text = HEAD + NET + "net.load_state_dict(torch.load(p, **kw))\n"
    assert fixed(text, CODE, unsafe=True) == text


URLS = "from torch.utils import model_zoo\nurls = {{'a': '{}a.pth', 'b': '{}b.pth'}}\nurl = '{}c.pth'\n"


@pytest.mark.parametrize("source", ["urls['a']", "urls[name]", "url"])
def test_weights_that_are_published_as_cpu_tensors(source: str) -> None:
    body = f"net.load_state_dict(model_zoo.load_url({source}))\n"
    for host in ("https://download.pytorch.org/models/", "https://s3.amazonaws.com/pytorch/models/"):
        assert rows(NET + body, HEAD + URLS.format(host, host, host)) == []
    elsewhere = "https://example.org/"
    assert rows(NET + body, HEAD + URLS.format(elsewhere, elsewhere, elsewhere)) == [2]
    assert rows(NET + body, HEAD + URLS.format(elsewhere, "https://download.pytorch.org/", elsewhere)) == [2]


AFTER = "net.load_state_dict(torch.load(folder + '/best.pt'))"
LOOP = "for x in batches:\n    net(x).backward()\n    "


@pytest.mark.parametrize(
    "body",
    [
        f"{LOOP}stop(net)\n{AFTER}",
        f"for x in batches:\n    net(x)\n    stop(net, folder)\n{AFTER}",
        f"{LOOP}print(folder)\n{AFTER}",
        f"{AFTER}\n{LOOP}stop(folder)",
        "if train:\n    " + LOOP.replace("\n", "\n    ") + f"stop(folder)\n{AFTER}",
        "metadata = torch.load(p / METADATA_OF_WEIGHTS)\nnet.load_state_dict(metadata)",
        "metadata = torch.load(p)\nnet.load_state_dict(metadata)",
        f"{LOOP}stop(args)\nnet.load_state_dict(torch.load(args.best))",
    ],
)
def test_what_this_run_did_not_write_is_reported(body: str) -> None:
    assert len(rows(NET + body + "\n")) == 1
