"""by_hand.py, and by_hand.py with one thing forgotten: each must be noticed."""

from __future__ import annotations

from pathlib import Path

BY_HAND = Path(__file__).with_name("by_hand.py")
VARIANTS: dict[str, tuple[str, str]] = {
    "right": ("", ""),
    "no sampler": ("sampler=train_sampler)", "shuffle=True)"),
    "no set_epoch": ("        train_sampler.set_epoch(epoch)\n", ""),
    "not wrapped": (
        'model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)',
        "model = nn.DataParallel(model)",
    ),
    "the whole batch for each process": ("args.batch_size // world_size", "args.batch_size"),
    "all processes print": (
        '        if rank == 0:\n            print(f"Epoch',
        '        if True:\n            print(f"Epoch',
    ),
    "all processes save": (
        "            if rank == 0:\n                torch.save",
        "            if True:\n                torch.save",
    ),
    "the wrapper's keys": ("        torch.save(model.module.state_dict()", "        torch.save(model.state_dict()"),
    "the loss of one process": (
        "mean_over_processes(total_loss / len(train_loader), device)",
        "total_loss / len(train_loader)",
    ),
    "the group is left open": ("    dist.destroy_process_group()\n", ""),
    "one process stops": ("        model.train()\n", "        assert rank == 0\n        model.train()\n"),
}
"""What is replaced, and by what."""


def write(variant: str, folder: Path) -> Path:
    """Write a variant into a folder; its path."""
    old, new = VARIANTS[variant]
    text = BY_HAND.read_text()
    assert old in text, variant
    path = folder / (variant.replace(" ", "_").replace("'", "") + ".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(old, new) if old else text)
    return path
