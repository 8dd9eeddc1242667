"""A generator and a discriminator with an optimizer each; noise is drawn on the device."""

import torch
from torch import nn

NOISE = 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.linspace(0.5, 1.0, NOISE))
        self.layers = nn.ModuleList([nn.Linear(NOISE, 16)])
        self.out = nn.Linear(16, 2)

    def forward(self, z):
        z = z * self.scale
        for layer in self.layers:
            z = torch.relu(layer(z))
        return self.out(z)


def main(device, steps=60):
    torch.manual_seed(0)
    generator = Generator()
    discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    generator.to(device)
    discriminator.to(device)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.ones(1, device=device))
    points = torch.stack([torch.cos(torch.arange(32.0)), torch.sin(torch.arange(32.0))], 1) + 3.0
    losses = []
    for _ in range(steps):
        real = points
        real = real.to(device)
        ones = torch.ones(32, 1, device=device)
        zeros = torch.zeros(32, 1, device=device)
        fake = generator(torch.randn(32, NOISE, device=device))
        loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
        optimizer_d.zero_grad()
        loss_d.backward()
        optimizer_d.step()
        loss_g = criterion(discriminator(fake), ones)
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
        losses.append(loss_d.item())
    return losses, generator.state_dict() | {f"d.{key}": value for key, value in discriminator.state_dict().items()}
