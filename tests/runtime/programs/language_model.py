"""An LSTM language model over a made text, state carried from batch to batch."""

import torch
from torch import nn

VOCABULARY, WIDTH = 12, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.mixers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])
        self.register_buffer("prior", torch.full((VOCABULARY,), 0.1))
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def start(self, batch, device):
        return torch.zeros(1, batch, WIDTH, device=device), torch.zeros(1, batch, WIDTH, device=device)

    def forward(self, tokens, state):
        x, state = self.lstm(self.embedding(tokens), state)
        for mixer in self.mixers:
            x = x + torch.tanh(mixer(x))
        return self.out(x) + self.prior, state


def text():
    return (torch.arange(4 * 61) * 7 % VOCABULARY).view(4, 61)


def main(device, epochs=4):
    torch.manual_seed(0)
    model = Model().to(device)
    weight = torch.ones(VOCABULARY).to(device)
    criterion = nn.CrossEntropyLoss(weight=weight)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    words, losses = text(), []
    for _ in range(epochs):
        state = model.start(4, device)
        for at in range(0, 60, 20):
            x = words[:, at : at + 20]
            y = words[:, at + 1 : at + 21]
            x = x.to(device)
            y = y.to(device)
            padding = torch.ones(4, 20, dtype=torch.bool, device=device)
            state = tuple(part.detach() for part in state)
            scores, state = model(x, state)
            scores = scores.masked_fill(~padding[..., None], 0.0)
            loss = criterion(scores.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses, model.state_dict()
