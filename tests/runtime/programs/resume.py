"""Trains, saves, and goes on from the checkpoint in fresh objects, beside an averaged copy."""

import copy
import io

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 8, batch_first=True)
        self.out = nn.Linear(8, 1)
        self.register_buffer("shift", torch.full((1,), 0.1))

    def forward(self, x, hidden):
        x, hidden = self.gru(x, hidden)
        return self.out(x) + self.shift


def run(model, optimizer, average, device, steps, losses):
    inputs = torch.sin(torch.arange(5 * 7 * 4).float()).view(5, 7, 4)
    targets = inputs.sum(2, keepdim=True)
    weights = torch.linspace(0.5, 1.0, 7)[:, None].to(device)
    for _ in range(steps):
        x, y = inputs, targets
        x = x.to(device)
        y = y.to(device)
        hidden = torch.zeros(1, 5, 8, device=device)
        loss = ((model(x, hidden) - y).pow(2) * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
                mine.mul_(0.9).add_(theirs, alpha=0.1)


def main(device, steps=15):
    torch.manual_seed(0)
    losses = []
    model = Model()
    model.to(device)
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    run(model, optimizer, average, device, steps, losses)
    checkpoint = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)

    checkpoint.seek(0)
    state = torch.load(checkpoint, map_location="cpu")
    model = Model()
    model.load_state_dict(state["model"])
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    optimizer.load_state_dict(state["optimizer"])
    run(model, optimizer, average, device, steps, losses)
    return losses, model.state_dict() | {f"average.{key}": value for key, value in average.state_dict().items()}
