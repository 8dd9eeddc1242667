"""fixtures/migration/main_function.py migrated by a person: what the tests of the harness start from."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def setup():
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local_rank)
    backend = "nccl" if cuda else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return torch.device("cuda", local_rank) if cuda else torch.device("cpu")


def mean_over_processes(value, device):
    mean = torch.tensor(value, device=device)
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3, padding=1)
        self.fc = nn.Linear(4 * 4 * 4, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return self.fc(x.flatten(1))


def make_images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (count,), generator=generator)
    images = torch.randn(count, 1, 8, 8, generator=generator) * 0.3
    for i in range(count):
        images[i, 0, 2 * labels[i] : 2 * labels[i] + 2] += 1
    return TensorDataset(images, labels)


def main():
    parser = argparse.ArgumentParser(description="Stripes")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="for all GPUs together")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=".")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = setup()
    world_size = dist.get_world_size()
    rank = dist.get_rank()

    train_set = make_images(192, seed=0)
    train_sampler = DistributedSampler(train_set, shuffle=True)
    train_loader = DataLoader(train_set, batch_size=args.batch_size // world_size, sampler=train_sampler)
    test_loader = DataLoader(make_images(80, seed=1), batch_size=args.batch_size)

    model = Net().to(device)
    model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    best = 0.0
    for epoch in range(1, args.epochs + 1):
        train_sampler.set_epoch(epoch)
        model.train()
        total_loss = 0.0
        for data, target in train_loader:
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            output = model(data)
            loss = F.cross_entropy(output, target)
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
        train_loss = mean_over_processes(total_loss / len(train_loader), device)

        model.eval()
        correct = 0
        with torch.no_grad():
            for data, target in test_loader:
                data, target = data.to(device), target.to(device)
                correct += model(data).argmax(dim=1).eq(target).sum().item()
        accuracy = 100.0 * correct / len(test_loader.dataset)
        if rank == 0:
            print(f"Epoch {epoch}: loss {train_loss:.4f}, accuracy {accuracy:.2f}%")
        if accuracy > best:
            best = accuracy
            if rank == 0:
                torch.save(model.module.state_dict(), os.path.join(args.out, "best.pt"))

    if rank == 0:
        torch.save(model.module.state_dict(), os.path.join(args.out, "last.pt"))
    if rank == 0:
        print(f"Best accuracy: {best:.2f}%")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
