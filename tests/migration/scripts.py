"""The scripts of fixtures/migration/, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support import CHECKOUT

FOLDER = CHECKOUT / "fixtures" / "migration"


@dataclass(frozen=True)
class Script:
    """A training script of three epochs."""

    name: str
    samples: int
    """How many samples the training data has; the other data have other numbers."""
    shuffled: bool
    runs: tuple[tuple[str, ...], ...] = ((),)
    """The arguments, of one run after the other."""
    wrapped: bool = True
    """Whether it wraps its model without GPUs too."""

    @property
    def before(self) -> Path:
        return FOLDER / f"{self.name}.py"

    @property
    def after(self) -> Path:
        """Exactly what the fix of DEV501 makes of it, which tests/test_fixtures.py sees to."""
        return FOLDER / f"{self.name}.fixed.py"


SCRIPTS = [
    Script("module_level", 128, shuffled=False),
    Script("main_function", 192, shuffled=True),
    Script("trainer_class", 256, shuffled=False),
    Script("several_gpus", 192, shuffled=False, wrapped=False),
    Script("literal_ids", 240, shuffled=True),
    Script("argument_ids", 256, shuffled=False),
    Script("resuming", 224, shuffled=False, runs=(("--epochs=2",), ("--resume=checkpoint.pth.tar",))),
    Script("global_names", 320, shuffled=True, wrapped=False),
    Script("configured_experiment", 160, shuffled=False),
    Script("two_networks", 224, shuffled=True),
]

NAMED = {
    "batch_norm": (128, "BatchNorm sees the part of one process"),
    "dropout": (128, "dropout draws other masks"),
    "uneven_last_batch": (101, "samples are repeated where the last batch does not divide"),
}
"""The scripts whose fix names a difference: how many samples they train with, and the words."""

WITHHELD = {
    "contrastive_loss": "compares the samples of a batch with each other",
    "ignored_padding": "a mean over the elements that a mask leaves",
    "masked_mean": "a mean over the elements that a mask leaves",
    "summed_loss": "summed over the batch",
    "weighted_classes": "divides by the weights of the labels at hand",
}
"""The scripts that are not migrated, and the words that say why."""

APART = {
    "unused_layer": "is not used in every `forward`",
    "unseeded_split": "without a seed",
    "file_written_and_read": "reads what line",
    "whole_wrapper": "saves the whole wrapper",
}
"""Scripts in withheld/ whose gradient is right, but whose processes would stop or differ; what the finding says."""
