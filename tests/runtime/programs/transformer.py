"""A transformer that copies the last word: causal and padding masks, a table of positions."""

import math

import torch
from torch import nn

VOCABULARY, WIDTH, LONGEST = 10, 16, 24


def table():
    at = torch.arange(LONGEST).unsqueeze(1)
    rate = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(100.0) / WIDTH))
    return torch.stack([torch.sin(at * rate), torch.cos(at * rate)], 2).flatten(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.register_buffer("positions", table())
        self.register_buffer("scale", torch.tensor([math.sqrt(WIDTH)]))
        layers = [nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True) for _ in range(2)]
        self.layers = nn.ModuleList(layers)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, padding):
        steps = tokens.size(1)
        causal = torch.ones(steps, steps, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.words(tokens) * self.scale
        x = x + self.positions[:steps]
        for layer in self.layers:
            x = layer(x, src_mask=causal, src_key_padding_mask=padding)
        return self.out(x)


def main(device, steps=25):
    torch.manual_seed(0)
    model = Model()
    model.to(device)
    weight = torch.ones(VOCABULARY).to(device)
    criterion = nn.CrossEntropyLoss(weight=weight, ignore_index=-1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    words = (torch.arange(8 * 12) * 3 % VOCABULARY).view(8, 12)
    lengths = torch.arange(8) + 5
    losses = []
    for _ in range(steps):
        x = words
        y = words.roll(1, 1)
        padding = torch.arange(12)[None] >= lengths[:, None]
        y = y.masked_fill(padding, -1)
        x = x.to(device)
        y = y.to(device)
        padding = padding.to(device)
        loss = criterion(model(x, padding).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.state_dict()
