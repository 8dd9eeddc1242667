"""One model over two devices: a recurrent half on the first, attention and head on the second."""

import torch
from torch import nn

WIDTH = 8


class Front(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("positions", torch.linspace(0.0, 1.0, 10)[:, None].repeat(1, WIDTH))
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        x = x + self.positions[: x.size(1)]
        hidden = torch.zeros(1, x.size(0), WIDTH, device=x.device)
        return self.gru(x, hidden)[0]


class Back(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(WIDTH, 1) for _ in range(2)])
        self.register_buffer("bias", torch.full((1,), 0.5))

    def forward(self, x, mask):
        x = x.masked_fill(mask, 0.0)
        return sum(head(x) for head in self.heads) + self.bias


def main(first, second, steps=30):
    torch.manual_seed(0)
    front = Front().to(first)
    back = Back()
    back.to(second)
    weights = torch.linspace(0.5, 1.0, 10)[:, None].to(second)
    optimizer = torch.optim.SGD([*front.parameters(), *back.parameters()], lr=0.05, momentum=0.9)
    inputs = torch.sin(torch.arange(6 * 10 * WIDTH).float()).view(6, 10, WIDTH)
    targets = inputs.mean(2, keepdim=True).cumsum(1)
    losses = []
    for _ in range(steps):
        x = inputs.to(first)
        y = targets.to(second)
        mask = torch.zeros(6, 10, 1, dtype=torch.bool, device=second)
        hidden = front(x)
        hidden = hidden.to(second)
        guess = back(hidden, mask)
        loss = ((guess - y).pow(2) * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, front.state_dict() | {f"back.{key}": value for key, value in back.state_dict().items()}
