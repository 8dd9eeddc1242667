"""What the tracer sees of small programs, and what is said of claims about them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from runtime.watching import Watch, watch
from torch import nn

from devlint.runtime.verify.evidence import Evidence
from devlint.runtime.verify.judge import Claim, extras, judge

__all__ = ["watch"]

HEAD = "import torch\nfrom torch import nn\n"


def seen(evidence: Evidence, *kinds: str) -> set[tuple[str, int, str, int]]:
    """Kind, row, what and count of all events of these kinds."""
    return {(item.kind, item.row, item.what, count) for item, count in evidence.seen if item.kind in kinds}


def said(evidence: Evidence, folder: Path, code: str, row: int, last: int | None = None) -> str:
    """The outcome of a claim at these rows of the script."""
    (verdict,) = judge([Claim(code, str(folder / "script.py"), row, last or row)], evidence)
    return verdict.outcome


def rows(evidence: Evidence, name: str = "script.py") -> Iterable[int]:
    return next(found for path, found in evidence.lines.items() if path.endswith(name))


def test_statements_that_drop_a_copy(watch: Watch, tmp_path: Path) -> None:
    evidence = watch(
        HEAD
        + 'x = torch.zeros(3)\nfor _ in range(2):\n    x.to("cuda")\n'  # rows 3 to 5
        + 'x.half()\nx.cpu()\nnn.Linear(2, 2).to("cuda")\ny = x.to("cuda")\n'  # rows 6 to 9
        + 'torch.zeros(1).cuda()\nprint(x.to("cuda").device)\n'  # rows 10, 11
        + "from torch.nn.utils.rnn import pack_sequence\np = pack_sequence([x])\np.cuda()\n"  # rows 12 to 14
        + "class Batch(dict):\n    def to(self, d):\n        self['x'] = self['x'].to(d)\n"
        + "        return self\nb = Batch(x=x)\nb.to('cuda')\n"  # rows 15 to 20
    )
    moved = "cpu to cuda:0"
    assert seen(evidence, "dropped", "dropped temporary", "unchanged", "module", "kept", "other") == {
        ("dropped", 5, moved, 2),
        ("dropped", 6, "torch.float32 to torch.float16", 1),
        ("unchanged", 7, "cpu", 1),
        ("module", 8, "Linear", 1),
        ("kept", 9, "", 1),
        ("dropped temporary", 10, moved, 1),
        ("kept", 11, "", 1),
        ("dropped", 14, f"PackedSequence, {moved}", 1),
        ("kept", 17, "", 1),
    }
    found = {row: said(evidence, tmp_path, "DEV101", row) for row in (5, 6, 7, 8, 9, 10, 14, 20, 99)}
    assert found == {
        5: "confirmed", 6: "confirmed", 7: "open", 8: "refuted", 9: "refuted", 10: "open", 14: "confirmed",
        20: "open", 99: "not reached",
    }  # fmt: skip
    assert [extra.row for extra in extras([], [], evidence)] == [5, 6, 14]


def test_an_error_is_traced_back_to_where_it_was_made(watch: Watch, tmp_path: Path) -> None:
    """Views and sums take along where their operands come from; a move starts anew."""
    evidence = watch(
        HEAD
        + 'c = torch.ones(3, device="cuda")\n'  # row 3
        + "h = torch.ones(3)\nother = torch.ones(3)\n"  # rows 4, 5
        + "h = (h + other).view(3)\n"
        + 'moved = other.to("cuda")\n'
        + "print(c + moved)\n"
        + "print(c + h)\n"  # row 9
    )
    (failure,) = evidence.failures
    assert failure.fatal and failure.call == "add"
    assert [place[1] for place in failure.stack] == [9]
    made = {operand.device: {row for _, row in operand.made} for operand in failure.operands}
    assert made == {"cpu": {4, 5}, "cuda:0": {3}}
    found = {row: said(evidence, tmp_path, "DEV201", row) for row in range(3, 10)}
    assert found == {3: "open", 4: "confirmed", 5: "confirmed", 6: "open", 7: "open", 8: "open", 9: "open"}
    assert said(evidence, tmp_path, "DEV601", 9) == "confirmed"
    assert said(evidence, tmp_path, "DEV601", 8) == "open"
    assert said(evidence, tmp_path, "DEV103", 9) == "confirmed"


def test_what_a_statement_hands_on_is_told_from_what_a_module_keeps(watch: Watch, tmp_path: Path) -> None:
    """The same call fails once for its argument, once for an attribute: only the first is the call's fault."""
    text = (
        HEAD
        + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"  # rows 3 to 5
        + "        scale = torch.ones(2)\n        self.scale = scale\n        self.layer = nn.Linear(2, 2)\n"
        + "    def forward(self, x):\n        x = self.layer(x)\n        return x * self.scale\n"  # rows 9 to 11
        + 'net = Net().to("cuda")\nx = torch.ones(1, 2)\nnet(x{move})\n'  # rows 12 to 14
    )
    lost = watch(text.replace("{move}", ""))
    assert said(lost, tmp_path, "DEV103", 14) == "confirmed"
    assert said(lost, tmp_path, "DEV202", 7) == "open"
    kept = watch(text.replace("{move}", ".cuda()"))
    assert said(kept, tmp_path, "DEV103", 14) == "open"
    assert said(kept, tmp_path, "DEV202", 7) == "confirmed"
    assert said(kept, tmp_path, "DEV202", 8) == "open"


def test_a_companion_is_known_by_its_constructor_until_it_is_moved(watch: Watch, tmp_path: Path) -> None:
    text = HEAD + 'x = torch.ones(1, 2).cuda()\na = nn.Linear(2, 2)\nb = nn.Linear(2, 2)\na.to("cuda")\nb(a(x))\n'
    evidence = watch(text)
    assert [said(evidence, tmp_path, "DEV106", row) for row in (4, 5)] == ["open", "confirmed"]


def test_a_buffer_takes_the_line_of_the_constructor_that_it_is_given_to(watch: Watch, tmp_path: Path) -> None:
    text = HEAD + "w = torch.ones(2)\nloss = nn.CrossEntropyLoss(weight=w)\n"  # rows 3, 4
    text += "loss(torch.ones(1, 2).cuda(), torch.tensor([1]).cuda())\n"
    evidence = watch(text)
    assert [said(evidence, tmp_path, "DEV106", row) for row in (3, 4, 5)] == ["confirmed", "confirmed", "open"]


def test_an_error_that_the_program_caught_confirms_nothing(watch: Watch, tmp_path: Path) -> None:
    evidence = watch(
        HEAD + 'c = torch.ones(3, device="cuda")\nh = torch.ones(3)\ntry:\n    c + h\nexcept RuntimeError:\n    pass\n'
    )
    assert [failure.fatal for failure in evidence.failures] == [False]
    assert said(evidence, tmp_path, "DEV601", 6) == "open"
    assert extras([], [], evidence) == []


def test_what_worked_on_the_device_refutes_a_clash(watch: Watch, tmp_path: Path) -> None:
    evidence = watch(HEAD + 'c = torch.ones(3, device="cuda")\nh = torch.tensor(2.0)\nprint(c * h)\nprint(h * h)\n')
    assert said(evidence, tmp_path, "DEV601", 5) == "refuted"
    assert said(evidence, tmp_path, "DEV601", 6) == "open"
    assert evidence.end.kind == "finished"


def test_waits_and_copies_are_counted(watch: Watch) -> None:
    evidence = watch(
        HEAD
        + 'c = torch.ones(4, device="cuda")\nh = torch.ones(4)\n'  # rows 3, 4
        + "for _ in range(3):\n    c.sum().item()\n    if c[0] > 0:\n        h[1].item()\n"  # rows 5 to 8
        + "c[1:3] = h[1:3]\nc[torch.tensor([0, 1])]\nc[c > 0.5]\nfloat(c[0])\nh.sum().tolist()\n"  # rows 9 to 13
        + "print(c.cpu())\n"
    )
    assert seen(evidence, "wait") == {
        ("wait", 6, "item", 3),
        ("wait", 7, "bool", 3),
        ("wait", 11, "index by a mask", 1),
        ("wait", 12, "float", 1),
    }
    assert seen(evidence, "hidden copy") == {
        ("hidden copy", 9, "cpu to cuda:0", 1),
        ("hidden copy", 10, "cpu to cuda:0", 1),
    }
    assert seen(evidence, "copy") == {("copy", 14, "cuda:0 to cpu", 1)}


def test_a_model_that_stays_on_the_host_is_noted(watch: Watch) -> None:
    evidence = watch(HEAD + 'net = nn.Linear(2, 2)\nnet(torch.ones(1, 2))\nnet.to("cuda")(torch.ones(1, 2).cuda())\n')
    assert seen(evidence, "host model") == {("host model", 4, "", 1)}


def test_a_model_that_is_filled_and_cast_before_its_move_does_not_stay_on_the_host(watch: Watch) -> None:
    evidence = watch(
        HEAD
        + "net = nn.Linear(2, 2)\nnet.double()\nnet.load_state_dict(nn.Linear(2, 2).double().state_dict())\n"
        + 'net.to("cuda")(torch.ones(1, 2).double().cuda())\n'
    )
    assert seen(evidence, "host model") == set()


def test_loads_say_where_their_tensors_came_to_lie(watch: Watch, tmp_path: Path) -> None:
    path = repr(str(tmp_path / "a.pt"))
    evidence = watch(
        HEAD
        + f'torch.save({{"w": torch.ones(2, device="cuda:1")}}, {path})\n'
        + f'torch.load({path})\ntorch.load({path}, map_location="cpu")\n'
    )
    assert seen(evidence, "load") == {("load", 4, "as saved: cuda:1", 1), ("load", 5, "mapped: cpu", 1)}
    assert [said(evidence, tmp_path, "DEV301", row) for row in (4, 5)] == ["confirmed", "open"]


@pytest.mark.parametrize(
    ("container", "outcome"),
    [
        ("self.parts = [nn.Linear(2, 2)]", "confirmed"),
        ('self.parts = {"a": {"b": nn.Parameter(torch.ones(1))}}', "confirmed"),
        ("self.parts = nn.ModuleList([nn.Linear(2, 2)])", "open"),
        ("self.parts = [1, 2]", "open"),
        ("self.parts = [nn.Linear(2, 2)]; self.add_module('first', self.parts[0])", "refuted"),
        ("self.parts = []; self.parts.append(nn.Linear(2, 2))", "confirmed"),
    ],
)
def test_modules_in_plain_containers(watch: Watch, tmp_path: Path, container: str, outcome: str) -> None:
    text = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {}\nnet = Net()\n"
    evidence = watch(HEAD + text.format(container))
    assert said(evidence, tmp_path, "DEV203", 6) == outcome


def test_comparisons_of_devices_that_never_hold(watch: Watch, tmp_path: Path) -> None:
    evidence = watch(
        HEAD
        + 'device = torch.device("cuda")\nx = torch.ones(1, device=device)\n'  # rows 3, 4
        + 'for _ in range(2):\n    print(device == "cuda")\n'  # rows 5, 6
        + "print(x.device != device)\nprint(device.type == 'cuda')\nprint(x.device == torch.device('cuda:0'))\n"
        + "dev = 'cuda'\nprint(dev == 'cuda')\nprint(device in ('cuda', 'mps'))\nprint(device in (device, 'cpu'))\n"
    )
    counts = {row: count for _, row, _, count in seen(evidence, "comparison")}
    assert counts == {6: 2, 7: 1, 12: 1}
    assert [said(evidence, tmp_path, "DEV403", row) for row in (6, 8)] == ["confirmed", "open"]


def test_where_no_simulation_is_the_tensors_say_where_they_are(watch: Watch, tmp_path: Path) -> None:
    """On a real device; "meta" stands for one, the only other device that each torch has. Marks are not saved."""
    path = repr(str(tmp_path / "a.pt"))
    evidence = watch(
        HEAD
        + "x = torch.ones(2)\nfor _ in range(3):\n    x.to('meta')\n"  # rows 3 to 5
        + f"torch.save(x, {path})\n"
        + "net = nn.Linear(2, 2).to('meta')\nnet(x.to('meta'))\n",
        devices=None,
    )
    assert seen(evidence, "dropped") == {("dropped", 5, "cpu to meta", 3)}
    assert {row for _, row, _, _ in seen(evidence, "device")} >= {8}
    assert torch.load(tmp_path / "a.pt", weights_only=True).__dict__ == {}
    assert evidence.end.kind == "finished"


def test_a_name_bound_before_is_put_back(watch: Watch) -> None:
    before = (nn.Module.__setattr__, nn.Module._apply, nn.Parameter.__new__, torch.load, threading.Thread.start)
    watch(HEAD + "nn.Linear(2, 2).to('cuda')\n")
    after = (nn.Module.__setattr__, nn.Module._apply, nn.Parameter.__new__, torch.load, threading.Thread.start)
    assert before == after


def test_threads_are_seen(watch: Watch, tmp_path: Path) -> None:
    evidence = watch(
        HEAD
        + "import threading\ndef work():\n    x = torch.ones(2)\n    x.cuda()\n"
        + "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    assert seen(evidence, "dropped") == {("dropped", 6, "cpu to cuda:0", 1)}
    assert {5, 6} <= set(rows(evidence))


def test_an_error_that_needs_no_tensor_is_one_about_devices(watch: Watch, tmp_path: Path) -> None:
    evidence = watch(HEAD + 'd = torch.device("cuda:0,1")\n')
    assert said(evidence, tmp_path, "DEV401", 3) == "confirmed"
    assert evidence.end.kind == "raised"
    assert [failure.fatal for failure in evidence.failures] == [True]


def test_installed_packages_are_no_part_of_the_project(watch: Watch, tmp_path: Path) -> None:
    folder = tmp_path / "env" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "installed.py").write_text("import torch\ndef lose(x):\n    x.cuda()\n")
    evidence = watch(
        HEAD + f"import sys\nsys.path.append({str(folder)!r})\nfrom installed import lose\nlose(torch.ones(1))\n"
    )
    assert [Path(path).name for path in evidence.files] == ["script.py"]
    assert seen(evidence, "dropped") == set()
