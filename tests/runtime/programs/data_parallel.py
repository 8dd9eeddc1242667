"""DataParallel: batches from the host are scattered by the wrapper, outputs gathered on the first device."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.full((6,), 0.1))
        self.layers = nn.ModuleList([nn.Linear(6, 12)])
        self.out = nn.Linear(12, 3)

    def forward(self, x):
        x = x - self.centre
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


def main(device, steps=20):
    torch.manual_seed(0)
    net = Net()
    net.to(device)
    model = nn.DataParallel(net)  # noqa: DEV501 (what is tested)
    teacher = nn.Linear(3, 3)
    teacher.to(device)
    weight = torch.tensor([1.0, 1.0, 2.0]).to(device)
    criterion = nn.CrossEntropyLoss(weight=weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs = torch.cos(torch.arange(30 * 6).float()).view(30, 6)
    labels = inputs[:, :3].argmax(1)
    losses = []
    for _ in range(steps):
        x, y = inputs, labels
        y = y.to(device)
        scores = model(x)
        loss = criterion(scores, y) + 0.01 * teacher(scores).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net.state_dict()
