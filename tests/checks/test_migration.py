"""The fix of DEV501, piece by piece: what becomes of one line of a script, and what keeps a script from being migrated.

That migrated scripts compute the same is tested on real processes, see tests/migration/.
"""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

BASE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Linear(4, 1).to(device)
    model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""
WRAP = "    model = nn.DataParallel(model)\n"
LOADER = "    loader = DataLoader(data, batch_size=16, shuffle=True)\n"
LOSS = "            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))\n"
STEP = "            optimizer.step()\n"
TRAINING = (
    f"    for epoch in range(2):\n        for x, y in loader:\n{LOSS}"
    f"            optimizer.zero_grad()\n            loss.backward()\n{STEP}"
)
DDP = "nn.parallel.DistributedDataParallel(model, device_ids=[LOCAL_RANK] if torch.cuda.is_available() else None)\n"


def changed(old: str, new: str) -> str:
    """The script with one of its pieces, which it has once, in another form."""
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


def migrated(text: str) -> str:
    """The script after `fix`: it compiles, and a second `fix` leaves it as it is."""
    new = fixed(text, "DEV501", unsafe=True)
    assert new != text, findings(text, "DEV501")[0].no_fix
    compile(new, "t.py", "exec")
    assert check(new, "DEV501") == []
    assert fixed(new, "DEV501", unsafe=True) == new
    return new


def reason(text: str) -> str:
    """Why a script is reported and not migrated."""
    (found, *_) = findings(text, "DEV501")
    assert found.fix is None
    assert fixed(text, "DEV501", unsafe=True) == text
    assert found.no_fix is not None
    return found.no_fix


def test_the_whole_of_a_small_script() -> None:
    head = '''\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANK = int(os.environ.get("RANK", 0))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", 1))


def init_distributed():
    """Join the processes that torchrun started; without it, be a group of one."""
    if torch.cuda.is_available():
        torch.cuda.set_device(LOCAL_RANK)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if WORLD_SIZE > 1:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def main():
'''
    text = head + BASE.partition("def main():\n")[2]
    text = text.replace(WRAP, f"    model = {DDP}".replace("(model, ", "(\n        model, ")[:-2] + "\n    )\n")
    text = text.replace("batch_size=16, shuffle=True", "batch_size=16 // WORLD_SIZE, sampler=DistributedSampler(data)")
    text = text.replace("range(2):\n", "range(2):\n        loader.sampler.set_epoch(epoch)\n")
    text = text.replace("    torch.save(", "    if RANK == 0:\n        torch.save(")
    text = text.replace("    main()\n", "    init_distributed()\n    main()\n    dist.destroy_process_group()\n")
    assert migrated(BASE) == text


PIECES = {
    "ids and output device": (
        WRAP,
        "    model = nn.DataParallel(model, [0, 1], output_device=0)\n",
        "(\n        model, device_",
    ),
    "condition": (
        WRAP,
        "    if torch.cuda.device_count() > 1:\n        model = nn.DataParallel(model)\n",
        "    if torch.cuda.device_count() > 1 or WORLD_SIZE > 1:\n"
        "        model = nn.parallel.DistributedDataParallel(\n",
    ),
    "condition of two parts": (
        WRAP,
        "    if device and True:\n        model = nn.DataParallel(model)\n",
        "    if (device and True) or WORLD_SIZE > 1:\n",
    ),
    "moved and wrapped under a condition": (
        WRAP,
        "    if torch.cuda.is_available():\n        model = nn.DataParallel(model).cuda()\n",
        "    if torch.cuda.is_available():\n        model = model.cuda()\n"
        "    if torch.cuda.is_available() or WORLD_SIZE > 1:\n        model = nn.parallel.DistributedDataParallel(",
    ),
    "wrapped, or the script ends": (
        WRAP,
        "    if device:\n        model = nn.DataParallel(model)\n    else:\n        return\n",
        "    if device:\n        model = nn.parallel.DistributedDataParallel(",
    ),
    "module asked for under the same condition": (
        WRAP,
        "    if device == 'cuda':\n        model = nn.DataParallel(model)\n"
        "    inner = model.module if device == 'cuda' else model\n",
        "    inner = model.module if device == 'cuda' or WORLD_SIZE > 1 else model\n",
    ),
    "isinstance": (
        WRAP,
        f"{WRAP}    print(isinstance(model, nn.DataParallel))\n",
        "isinstance(model, nn.parallel.Distrib",
    ),
    "no shuffling": (
        LOADER,
        "    loader = DataLoader(data, 16)\n",
        "DataLoader(data, 16 // WORLD_SIZE, sampler=Distributed",
    ),
    "shuffling by place": (
        LOADER,
        "    loader = DataLoader(data, 16, True)\n",
        "DataLoader(data, 16 // WORLD_SIZE, sampler=DistributedSampler(data))",
    ),
    "shuffling by a variable": (
        LOADER,
        "    loader = DataLoader(data, 16, shuffle=bool(device))\n",
        "DistributedSampler(data, shuffle=bool(device))\n",
    ),
    "drop_last": (
        LOADER,
        "    loader = DataLoader(data, batch_size=16, drop_last=True)\n",
        "    sampler = DistributedSampler(data, shuffle=False, drop_last=True)\n"
        "    loader = DataLoader(data, batch_size=16 // WORLD_SIZE, sampler=sampler, drop_last=True)\n",
    ),
    "a sum as the batch size": (LOADER, LOADER.replace("16", "8 + 8"), "batch_size=(8 + 8) // WORLD_SIZE"),
    "a product as the batch size": (
        LOADER,
        LOADER.replace("16", "4 * max(1, torch.cuda.device_count())"),
        "batch_size=4 * max(1, torch.cuda.device_count()) // WORLD_SIZE",
    ),
    "data without a name": (
        LOADER,
        "    loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 16, shuffle=True)\n",
        "    dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n",
    ),
    "a loader for each epoch": (
        "        for x, y in loader:\n",
        "        loader = DataLoader(data, batch_size=16, shuffle=True)\n        for x, y in loader:\n",
        "        loader.sampler.set_epoch(epoch)\n        for x, y in loader:\n",
    ),
    "an epoch without a name": (
        "for epoch in",
        "for _ in",
        "for epoch in range(2):\n        loader.sampler.set_epoch(epoch)",
    ),
    "a counted epoch": ("for epoch in range(2)", "for epoch, _ in enumerate(range(2))", "sampler.set_epoch(epoch)"),
    "a loss that is shown": (
        STEP,
        f"{STEP}            print('loss', loss.item())\n",
        "print_once('loss', mean_over_processes(loss.item()))",
    ),
    "a loss in an f-string": (
        STEP,
        STEP + '            print(f"loss {loss.item():.3f}")\n',
        'print_once(f"loss {mean_over_processes(loss.item()):.3f}")',
    ),
    "a loss by its name": (
        STEP,
        f"{STEP}            value = float(loss)\n            print(value)\n",
        "print_once(mean_over_processes(value))",
    ),
    "sizes": (
        STEP,
        f"{STEP}            print(len(x), x.size(0))\n",
        "print_once(len(x) * WORLD_SIZE, x.size(0) * WORLD_SIZE)",
    ),
    "a decision": (
        STEP,
        f"{STEP}            if loss.item() > 9:\n                break\n",
        "if mean_over_processes(loss.item()) > 9:",
    ),
    "a list": (
        STEP,
        f"{STEP}            losses.append(loss.item())\n",
        "losses.append(mean_over_processes(loss.item()))",
    ),
    "a meter": (
        STEP,
        f"{STEP}            meter.update(loss.item(), x.size(0))\n",
        "meter.update(mean_over_processes(loss.item()), x.size(0) * WORLD_SIZE)",
    ),
    "a total over epochs": (
        STEP,
        f"{STEP}            total += loss.item()\n",
        "total += mean_over_processes(loss.item())",
    ),
    "a total of an epoch": (
        "        for x, y in loader:\n" + LOSS,
        "        total = 0\n        for x, y in loader:\n            total += len(x)\n" + LOSS,
        "            optimizer.step()\n        total = sum_over_processes(total)\n",
    ),
    "a moving average": (
        TRAINING,
        f"    mean = 0.0\n{TRAINING}            mean = 0.9 * mean + 0.1 * loss.item()\n    history['loss'] = mean\n",
        "    history['loss'] = mean_over_processes(mean)\n",
    ),
    "a number that is logged": (
        STEP,
        f"{STEP}            log_value('loss', loss.item())\n",
        "            mean_loss = mean_over_processes(loss.item())\n            if RANK == 0:\n"
        "                log_value('loss', mean_loss)\n",
    ),
    "a folder": (
        "    torch.save(",
        "    os.mkdir('out')\n    torch.save(",
        "    os.makedirs('out', exist_ok=True)\n    if RANK == 0:",
    ),
    "a file": (
        "    torch.save(",
        "    with open('a.txt', 'w') as file:\n        file.write('''a\nb''')\n    torch.save(",
        "    if RANK == 0:\n        with open('a.txt', 'w') as file:\n"
        "            file.write('''a\nb''')\n        torch.save(",
    ),
    "a bar": ("in loader:", "in tqdm(loader):", "in tqdm(loader, disable=RANK != 0):"),
    "a checkpoint": (
        WRAP,
        f"{WRAP}    model.load_state_dict(torch.load('a.pt'))\n",
        "torch.load('a.pt', map_location=\"cpu\")",
    ),
    "a checkpoint that was written before": (
        '"model.pt")\n',
        '"model.pt")\n    model.load_state_dict(torch.load("model.pt"))\n',
        "    dist.barrier()  # until the first process has written the file\n"
        '    model.load_state_dict(torch.load("model.pt", ',
    ),
    "a numbered device": ('"cuda" if', '"cuda:0" if', 'torch.device("cuda" if'),
    "a device by number": (
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        "torch.device('cuda', 0)",
        "torch.device('cuda')",
    ),
    "a device in an f-string": ('"cuda" if', 'f"cuda:{gpu}" if', 'torch.device("cuda" if'),
    "downloads": (
        "    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n",
        "    data = CIFAR10('data', download=True)\n",
        "    if LOCAL_RANK != 0:\n        dist.barrier()  # the first process downloads\n"
        "    data = CIFAR10('data', download=True)\n    if LOCAL_RANK == 0:\n        dist.barrier()\n",
    ),
}
IMPORTS = (
    "import os\nfrom tqdm import tqdm\n"
    "from meters import meter, losses, history, total, mean, log_value, gpu, CIFAR10\n"
)


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_of_the_script(name: str) -> None:
    old, new, wanted = PIECES[name]
    assert wanted in migrated(IMPORTS + changed(old, new))


LEFT = {
    "no loader here": (LOADER, "    loader = make_loader(data)\n", "runs over no DataLoader"),
    "a sampler": (LOADER, "    loader = DataLoader(data, 16, sampler=mine)\n", "sampler of its own"),
    "collate_fn": (LOADER, LOADER.replace("16", "16, collate_fn=pad"), "collate_fn"),
    "one sample": (LOADER, "    loader = DataLoader(data)\n", "batches of one sample"),
    "never moved": ("model = nn.Linear(4, 1).to(device)", "model = nn.Linear(4, 1)", "moved to its device"),
    "another dimension": (WRAP, "    model = nn.DataParallel(model, dim=1)\n", "along another dimension"),
    "in a container": (WRAP, "    models = [nn.DataParallel(model)]\n", "not simply assigned"),
    "either or": (WRAP, "    model = nn.DataParallel(model) if device else model\n", "not simply assigned"),
    "past the wrapper": ("model(x.", "model.module(x.", "past its wrapper"),
    "two loops": (
        "    torch.save(",
        "    for x, y in other:\n        model(x).mean().backward()\n    torch.save(",
        "DataLoader",
    ),
    "evaluation by the training loader": (
        "    torch.save(",
        "    for x, y in loader:\n        print(y)\n    torch.save(",
        "line 21",
    ),
    "next": ("    torch.save(", "    x = next(iter(loader))\n    torch.save(", "`iter`"),
    "no seed": ("    torch.manual_seed(0)\n", "", "without a seed"),
    "noise": (STEP, f"{STEP}            noise = torch.randn(4)\n", "for each batch"),
    "collected outputs": (STEP, f"{STEP}            [].append(model(x))\n", "reduce it over all"),
    "a decision by data": (STEP, f"{STEP}            if x.max() > 1:\n                break\n", "reduce it over all"),
    "two devices": (
        WRAP,
        WRAP + '    a, b = torch.ones(1, device="cuda:0"), torch.ones(1, device="cuda:1")\n',
        "several devices",
    ),
    "the current device": (WRAP, f"{WRAP}    torch.cuda.set_device(1)\n", "current device"),
    "given to another file": (WRAP, f"{WRAP}    make_loader(model)\n", "`make_loader` of another file"),
    "a file that stays open": (WRAP, f"{WRAP}    log = open('a.txt', 'w')\n", "file opened in line 14"),
    "computed to be written": (
        "    torch.save(",
        "    torch.save(model(torch.ones(1, 4)), 'out.pt')\n    torch.save(",
        "line 21 writes is computed there",
    ),
    "visible GPUs": (WRAP, f"{WRAP}    os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n", "chooses the visible GPUs"),
    "a tensor of the batch size": (
        TRAINING,
        TRAINING.replace("for epoch", "n = 16\n    loader = DataLoader(data, n)\n    for epoch").replace(
            "            optimizer.zero", "            state = torch.zeros(1, n)\n            optimizer.zero"
        ),
        "uses the batch size",
    ),
    "names that are taken": (WRAP, f"{WRAP}    print_once = 1\n", "`print_once` already"),
    "no start": ('if __name__ == "__main__":\n    main()\n', "", "where the script starts"),
    "summed": (LOSS, LOSS.replace("y.to(device)", "y.to(device), reduction='sum'"), "is summed over the batch"),
    "sum": (LOSS, "            loss = (model(x) - y).pow(2).sum()\n", "is summed over the batch"),
    "masked": (LOSS, "            loss = (model(x) * y).sum() / y.sum()\n", "that a mask leaves"),
    "chosen": (LOSS, "            loss = (model(x)[y > 0] - 1).pow(2).mean()\n", "that a mask leaves"),
    "pairs": (LOSS, "            loss = (model(x) @ model(y).t()).mean()\n", "with each other"),
    "distances": (LOSS, "            loss = torch.cdist(model(x), model(y)).mean()\n", "with each other"),
    "weights": (LOSS, "            loss = nn.CrossEntropyLoss(weight=y)(model(x), y)\n", "weighs the classes"),
    "ignored": (LOSS, "            loss = nn.CrossEntropyLoss(ignore_index=0)(model(x), y)\n", "that a mask leaves"),
    "of the model": (LOSS, "            loss = model(x, y)\n", "comes out of the model"),
    "of another file": (LOSS, "            loss = make_loss(model(x), y)\n", "is not seen"),
}


MINE = "from mine import make_loader, make_loss, pad, mine, other\n"


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_the_reader(name: str) -> None:
    old, new, words = LEFT[name]
    assert words in reason(MINE + changed(old, new))


MEANS = [
    "nn.MSELoss()(model(x), y)",
    "(model(x) - y).pow(2).mean()",
    "torch.mean(torch.abs(model(x) - y))",
    "(model(x) - y).square().sum() / x.size(0)",
    "0.5 * nn.functional.l1_loss(model(x), y) + nn.functional.mse_loss(model(x), y) / 3",
    "nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y[:, 0].float())",
]


@pytest.mark.parametrize("loss", MEANS)
def test_losses_that_are_means(loss: str) -> None:
    migrated(changed(LOSS, f"            loss = {loss}\n"))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("nn.Linear(4, 1)", "samples are repeated"),
        ("nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))", "BatchNorm"),
        ("nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 1))", "dropout"),
    ],
)
def test_what_makes_the_numbers_differ_is_named(layers: str, words: str) -> None:
    (found,) = findings(changed("nn.Linear(4, 1)", layers), "DEV501")
    assert found.fix is not None and words in found.fix.title
    named = [word for word in ("BatchNorm", "dropout", "samples are repeated") if word in found.fix.title]
    assert named == list(dict.fromkeys([words, "samples are repeated"]))


def test_line_ends_and_tabs_stay() -> None:
    crlf = migrated(BASE.replace("\n", "\r\n"))
    assert crlf.replace("\r\n", "\n") == migrated(BASE)
    assert "\n" not in crlf.replace("\r\n", "")
    tabs = migrated(BASE.replace("    ", "\t"))
    assert tabs == migrated(BASE).replace("    ", "\t")


STEPPED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, data):
        self.model = nn.DataParallel(model.cuda())
        self.loader = DataLoader(data, batch_size=16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, batch, scale=1.0):
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1].cuda())
        (loss * scale).backward()
        self.optimizer.step()
        {kept}return loss.item()

    def run(self):
        for batch in self.loader:
            print(self.step(batch))


Trainer(nn.Linear(2, 1), None).run()
"""


def test_a_step_in_a_method_of_its_own() -> None:
    new = migrated(STEPPED.format(kept=""))
    assert "print_once(mean_over_processes(self.step(batch)))" in new
    assert "        return loss.item()" in new


def test_what_a_step_keeps_is_reduced_in_it() -> None:
    new = migrated(STEPPED.format(kept="self.last = loss.item()\n        "))
    assert "self.last = mean_over_processes(loss.item())\n" in new


def test_what_a_step_keeps_and_cannot_be_reduced_is_left_to_the_reader() -> None:
    assert "reduce it over all" in reason(STEPPED.format(kept="self.last = batch\n        "))


def test_methods_of_the_optimizer_are_not_those_of_the_class() -> None:
    text = STEPPED.format(kept="").replace("self.step(batch)", "self.train(batch)").replace("def step", "def train")
    assert "print_once(mean_over_processes(self.train(batch)))" in migrated(text)


SHARED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def run(model, loader, optimizer=None):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if optimizer is not None:
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total / len(loader)


def main(train_data, test_data):
    train_loader = DataLoader(train_data, 16)
    test_loader = DataLoader(test_data, 16)
    model = nn.DataParallel(nn.Linear(2, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    print(run(model, train_loader, optimizer), run(model, test_loader))


main(None, None)
"""


def test_one_function_for_training_and_evaluation_divides_and_reduces_both() -> None:
    new = migrated(SHARED)
    for name in ("train", "test"):
        assert f"    {name}_sampler = DistributedSampler({name}_data, shuffle=False)\n" in new
        assert f"{name}_loader = DataLoader({name}_data, 16 // WORLD_SIZE, sampler={name}_sampler)\n" in new
    assert "        total += loss.item()\n    total = mean_over_processes(total)\n" in new


def test_shuffled_training_by_such_a_function_is_left_to_the_reader() -> None:
    assert "called in several places" in reason(SHARED.replace("train_data, 16", "train_data, 16, True"))


NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.extra = {layer}

    def forward(self, x):
        {forward}


def main():
"""


def with_net(forward: str, layer: str = "nn.Linear(4, 1)") -> str:
    text = changed("model = nn.Linear(4, 1)", "model = Net()")
    return text.replace("def main():\n", NET.format(layer=layer, forward=forward))


@pytest.mark.parametrize(
    "forward",
    [
        "return self.body(x)",
        "return self.body(x) + self.extra(x) if x.sum() > 0 else self.body(x)",
        "if x.sum() > 0:\n            return self.extra(x)\n        return self.body(x)",
        "with torch.no_grad():\n            z = self.extra(x)\n        return self.body(x) + z",
        "return self.body(x) + self.extra(x).detach()",
    ],
)
def test_a_layer_that_may_have_no_gradient_is_left_to_the_reader(forward: str) -> None:
    assert "is not used in every `forward`" in reason(with_net(forward))


@pytest.mark.parametrize(
    "forward",
    [
        "return self.body(x) + self.extra(x)",
        "if self.extra is not None:\n            x = x + self.extra(x)\n        return self.body(x)",
        "if x.sum() > 0:\n            x = self.extra(x)\n        else:\n            x = self.extra(-x)\n"
        "        return self.body(x)",
        "return self.more(x)\n\n    def more(self, x):\n        return self.body(x) + self.extra(x)",
    ],
)
def test_layers_that_every_forward_uses(forward: str) -> None:
    migrated(with_net(forward))


def test_a_layer_without_parameters_may_be_left_unused() -> None:
    migrated(with_net("return self.body(x)", "nn.ReLU()"))


SEED = "    torch.manual_seed(0)\n"
SPLIT = "    data, _ = torch.utils.data.random_split(data, [48, 16])\n" + LOADER


@pytest.mark.parametrize(
    "seed",
    [
        "",
        "    if torch.cuda.is_available():\n        torch.manual_seed(0)\n",
        "    torch.manual_seed(hash(object()))\n",
    ],
)
def test_data_drawn_without_a_sure_seed_are_left_to_the_reader(seed: str) -> None:
    assert "without a seed" in reason(changed(SEED, seed).replace(LOADER, SPLIT))


def test_a_seed_set_later_by_a_function_is_none() -> None:
    text = changed(SEED, "").replace("model = nn.Linear(4, 1)", "model = make()")
    assert "without a seed" in reason(
        text.replace("def main", f"def make():\n{SEED}    return nn.Linear(4, 1)\n\n\ndef main")
    )


def test_a_generator_without_a_seed_is_left_to_the_reader() -> None:
    order = "    order = np.random.default_rng().permutation(64)\n"
    assert "has no seed" in reason("import numpy as np\n" + changed(LOADER, order + LOADER))


def test_a_split_with_a_seed_or_a_generator_migrates() -> None:
    migrated(changed(LOADER, SPLIT))
    draw = "    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
    own = SPLIT.replace("[48, 16]", "[48, 16], generator=torch.Generator().manual_seed(1)")
    made = "    data = TensorDataset(torch.ones(64, 4), torch.ones(64, 1))\n"
    migrated(changed(SEED, "").replace(draw, made).replace(LOADER, own))


def test_a_file_saved_before_training_is_waited_for() -> None:
    save = '    torch.save(model.state_dict(), "start.pt")\n'
    load = '    if True:\n        model.load_state_dict(torch.load("start.pt"))\n'
    new = migrated(changed(WRAP, save + load + WRAP))
    wait = "    dist.barrier()  # until the first process has written the file\n    if True:\n"
    assert f"    if RANK == 0:\n    {save}{wait}" in new


def test_other_files_written_and_read_are_left_to_the_reader() -> None:
    lines = '    np.save("scale.npy", np.ones(3))\n    np.load("scale.npy")\n'
    assert "reads what line" in reason("import numpy as np\n" + changed(LOADER, lines + LOADER))


@pytest.mark.parametrize("saved", ["model", '{"model": model, "epoch": 2}', "dict(model=model)", "[model, optimizer]"])
def test_the_whole_wrapper_saved_is_left_to_the_reader(saved: str) -> None:
    assert "saves the whole wrapper" in reason(changed("model.state_dict()", saved))


def test_the_model_within_saved_migrates() -> None:
    assert 'torch.save(model.module, "model.pt")' in migrated(changed("model.state_dict()", "model.module"))


def test_a_variable_that_holds_the_wrapper_saved_is_left_to_the_reader() -> None:
    save = '    torch.save(model.state_dict(), "model.pt")\n'
    kept = '    state = {"model": model}\n    torch.save(state, "model.pt")\n'
    assert "saves the whole wrapper" in reason(changed(save, kept))


@pytest.mark.parametrize("asked", ['hasattr(model, "module")', "isinstance(model, nn.DataParallel)"])
def test_a_model_that_is_unwrapped_by_asking_migrates(asked: str) -> None:
    migrated(changed("model.state_dict()", f"(model.module if {asked} else model).state_dict()"))
