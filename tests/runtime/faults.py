# ruff: noqa: E501 (a table: one fault, one row)
"""Planted faults as data: what is changed in a program, where torch then stops, and with which words.

`at` is the text of the program's line in which the call stands that torch refuses. The words are those of rows.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.rows import CPU, GPU, argument, runtime, two


@dataclass(frozen=True)
class Fault:
    """One fault: `old` becomes `new` in the program, and the line with `at` raises `error` (type, text in it)."""

    program: str
    kind: str
    old: str
    new: str
    at: str
    error: tuple[str, str]


SECOND = "cuda:1"
TARGET = argument("target", CPU, GPU, "nll_loss_forward")
WEIGHT = argument("weight", CPU, GPU, "nll_loss_forward")
MODULE_LEFT = argument("mat1", GPU, CPU, "addmm")
INPUT_LEFT = argument("mat1", CPU, GPU, "addmm")
INDEX = argument("index", CPU, GPU, "_index_select")
HOST = two(GPU, CPU)
HIDDEN = runtime(
    "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu"
)
MASK = runtime("expected self and mask to be on the same device, but got mask on cpu and self on cuda:0")
# F.linear is addmm where its input is contiguous; what an LSTM gives with batch_first, and what attention gets, is
# not: there it is a product and a sum (aten/src/ATen/native/Linear.cpp, linear), and the product is named
CE_LINE = "loss = criterion("

FAULTS = [
    Fault("cnn", "input", "        x = x.to(device)\n", "", "self.stem(x - self.mean)", HOST),
    Fault("cnn", "target", "        y = y.to(device)\n", "", CE_LINE, TARGET),
    Fault("cnn", "loss weights", "2.0]).to(device)", "2.0])", CE_LINE, WEIGHT),
    Fault("cnn", "plain tensor attribute", 'self.register_buffer("mean", torch.full((1, 1, 1, 1), 0.2))',
          "self.mean = torch.full((1, 1, 1, 1), 0.2)", "self.stem(x - self.mean)", HOST),
    Fault("cnn", "list of modules", "nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)])",
          "[nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)]", "torch.relu(block(x))",
          runtime("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same")),
    Fault("cnn", "discarded .to", "x = x.to(device)", "x.to(device)", "self.stem(x - self.mean)", HOST),
    Fault("language_model", "input", "            x = x.to(device)\n", "", "self.lstm(self.embedding(tokens)", INDEX),
    Fault("language_model", "target", "            y = y.to(device)\n", "", CE_LINE, TARGET),
    Fault("language_model", "hidden state",
          "return torch.zeros(1, batch, WIDTH, device=device), torch.zeros(1, batch, WIDTH, device=device)",
          "return torch.zeros(1, batch, WIDTH), torch.zeros(1, batch, WIDTH)", "self.lstm(self.embedding(tokens)", HIDDEN),
    Fault("language_model", "mask", "dtype=torch.bool, device=device)", "dtype=torch.bool)", "scores.masked_fill(", MASK),
    Fault("language_model", "loss weights", "torch.ones(VOCABULARY).to(device)", "torch.ones(VOCABULARY)", CE_LINE, WEIGHT),
    Fault("language_model", "plain tensor attribute", 'self.register_buffer("prior", torch.full((VOCABULARY,), 0.1))',
          "self.prior = torch.full((VOCABULARY,), 0.1)", "self.out(x) + self.prior", HOST),
    Fault("language_model", "list of modules", "nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])",
          "[nn.Linear(WIDTH, WIDTH) for _ in range(2)]", "torch.tanh(mixer(x))", argument("mat2", CPU, GPU, "mm")),
    Fault("language_model", "discarded .to", "y = y.to(device)", "y.to(device)", CE_LINE, TARGET),
    Fault("gan", "input", "        real = real.to(device)\n", "", "loss_d = criterion(", INPUT_LEFT),
    Fault("gan", "target", "torch.ones(32, 1, device=device)", "torch.ones(32, 1)", "loss_d = criterion(", HOST),
    Fault("gan", "loss weights", "torch.ones(1, device=device)", "torch.ones(1)", "loss_d = criterion(", HOST),
    Fault("gan", "second network", "    discriminator.to(device)\n", "", "loss_d = criterion(", MODULE_LEFT),
    Fault("gan", "plain tensor attribute", 'self.register_buffer("scale", torch.linspace(0.5, 1.0, NOISE))',
          "self.scale = torch.linspace(0.5, 1.0, NOISE)", "z = z * self.scale", HOST),
    Fault("gan", "list of modules", "nn.ModuleList([nn.Linear(NOISE, 16)])", "[nn.Linear(NOISE, 16)]",
          "torch.relu(layer(z))", MODULE_LEFT),
    Fault("gan", "discarded .to", "real = real.to(device)", "real.to(device)", "loss_d = criterion(", INPUT_LEFT),
    Fault("transformer", "input", "        x = x.to(device)\n", "", "self.words(tokens)", INDEX),
    Fault("transformer", "target", "        y = y.to(device)\n", "", CE_LINE, TARGET),
    Fault("transformer", "mask", "dtype=torch.bool, device=tokens.device)", "dtype=torch.bool)", "x = layer(x, src_mask", HOST),
    Fault("transformer", "mask", "        padding = padding.to(device)\n", "", "x = layer(x, src_mask", HOST),
    Fault("transformer", "positional table", 'self.register_buffer("positions", table())', "self.positions = table()",
          "x = x + self.positions[:steps]", HOST),
    Fault("transformer", "loss weights", "torch.ones(VOCABULARY).to(device)", "torch.ones(VOCABULARY)", CE_LINE, WEIGHT),
    Fault("transformer", "plain tensor attribute", 'self.register_buffer("scale", torch.tensor([math.sqrt(WIDTH)]))',
          "self.scale = torch.tensor([math.sqrt(WIDTH)])", "self.words(tokens) * self.scale", HOST),
    Fault("transformer", "list of modules", "nn.ModuleList(layers)", "layers", "x = layer(x, src_mask",
          argument("mat2", CPU, GPU, "mm")),
    Fault("transformer", "discarded .to", "x = x.to(device)", "x.to(device)", "self.words(tokens)", INDEX),
    Fault("split_model", "input", "x = inputs.to(first)", "x = inputs", "x = x + self.positions", HOST),
    Fault("split_model", "target", "targets.to(second)", "targets.to(first)", "loss = ((guess - y)", two(SECOND, GPU)),
    Fault("split_model", "hidden state", "WIDTH, device=x.device)", "WIDTH)", "self.gru(x, hidden)", HIDDEN),
    Fault("split_model", "mask", "dtype=torch.bool, device=second)", "dtype=torch.bool, device=first)", "x.masked_fill(mask",
          runtime("expected self and mask to be on the same device, but got mask on cuda:0 and self on cuda:1")),
    Fault("split_model", "positional table", 'self.register_buffer("positions", torch.linspace(0.0, 1.0, 10)[:, None].repeat(1, WIDTH))',
          "self.positions = torch.linspace(0.0, 1.0, 10)[:, None].repeat(1, WIDTH)", "x = x + self.positions", HOST),
    Fault("split_model", "loss weights", "[:, None].to(second)", "[:, None].to(first)", "loss = ((guess - y)", two(SECOND, GPU)),
    Fault("split_model", "second network", "back.to(second)", "back.to(first)", "sum(head(x) for",
          argument("mat1", SECOND, GPU, "addmm")),
    Fault("split_model", "plain tensor attribute", 'self.register_buffer("bias", torch.full((1,), 0.5))',
          "self.bias = torch.full((1,), 0.5)", "+ self.bias", two(SECOND, CPU)),
    Fault("split_model", "list of modules", "nn.ModuleList([nn.Linear(WIDTH, 1) for _ in range(2)])",
          "[nn.Linear(WIDTH, 1) for _ in range(2)]", "sum(head(x) for", argument("mat1", SECOND, CPU, "addmm")),
    Fault("split_model", "discarded .to", "hidden = hidden.to(second)", "hidden.to(second)", "x.masked_fill(mask",
          runtime("expected self and mask to be on the same device, but got mask on cuda:1 and self on cuda:0")),
    Fault("data_parallel", "target", "        y = y.to(device)\n", "", CE_LINE, TARGET),
    Fault("data_parallel", "loss weights", "2.0]).to(device)", "2.0])", CE_LINE, WEIGHT),
    Fault("data_parallel", "second network", "    teacher.to(device)\n", "", CE_LINE, MODULE_LEFT),
    Fault("data_parallel", "plain tensor attribute", 'self.register_buffer("centre", torch.full((6,), 0.1))',
          "self.centre = torch.full((6,), 0.1)", "scores = model(x)", HOST),
    Fault("data_parallel", "list of modules", "nn.ModuleList([nn.Linear(6, 12)])", "[nn.Linear(6, 12)]", "scores = model(x)",
          MODULE_LEFT),
    Fault("data_parallel", "discarded .to", "y = y.to(device)", "y.to(device)", CE_LINE, TARGET),
    Fault("resume", "input", "        x = x.to(device)\n", "", "self.gru(x, hidden)",
          runtime("Input and hidden tensors are not at the same device, found input tensor at cpu and hidden tensor at cuda:0")),
    Fault("resume", "target", "        y = y.to(device)\n", "", "loss = ((model(x, hidden) - y)", HOST),
    Fault("resume", "hidden state", "torch.zeros(1, 5, 8, device=device)", "torch.zeros(1, 5, 8)", "self.gru(x, hidden)", HIDDEN),
    Fault("resume", "loss weights", "[:, None].to(device)", "[:, None]", "loss = ((model(x, hidden) - y)", HOST),
    Fault("resume", "second network", "    model.to(device)\n    average = copy.deepcopy(model)\n",
          "    average = copy.deepcopy(model)\n    model.to(device)\n", "mine.mul_(0.9).add_(theirs", HOST),
    Fault("resume", "plain tensor attribute", 'self.register_buffer("shift", torch.full((1,), 0.1))',
          "self.shift = torch.full((1,), 0.1)", "self.out(x) + self.shift", HOST),
    Fault("resume", "discarded .to", "y = y.to(device)", "y.to(device)", "loss = ((model(x, hidden) - y)", HOST),
    Fault("trainer", "input", "            x = x.to(self.device, non_blocking=True)\n", "", "x = x + self.positions", HOST),
    Fault("trainer", "target", "            y = y.to(self.device, non_blocking=True)\n", "", "loss = self.criterion(", TARGET),
    Fault("trainer", "mask", "            mask = mask.to(self.device, non_blocking=True)\n", "", "* mask.unsqueeze(-1)", HOST),
    Fault("trainer", "positional table", 'self.register_buffer("positions", torch.linspace(0, 1, LENGTH)[:, None])',
          "self.positions = torch.linspace(0, 1, LENGTH)[:, None]", "x = x + self.positions", HOST),
    Fault("trainer", "loss weights", "1.2]).to(device)", "1.2])", "loss = self.criterion(", WEIGHT),
    Fault("trainer", "second network", "        self.teacher.to(device)\n", "", "loss = self.criterion(", MODULE_LEFT),
    Fault("trainer", "plain tensor attribute", 'self.register_buffer("gain", torch.full((WIDTH,), 1.5))',
          "self.gain = torch.full((WIDTH,), 1.5)", "(x * self.gain)", HOST),
    Fault("trainer", "list of modules", "nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])",
          "[nn.Linear(WIDTH, WIDTH) for _ in range(2)]", "torch.tanh(layer(x))", MODULE_LEFT),
    Fault("trainer", "discarded .to", "x = x.to(self.device", "x.to(self.device", "x = x + self.positions", HOST),
]  # fmt: skip
