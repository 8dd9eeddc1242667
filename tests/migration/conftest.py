"""All scripts are run once, in two launches: by torchrun as two processes, and plainly."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path

import pytest
from migration.launch import Job, Outcome, launch, outcome
from migration.scripts import NAMED, SCRIPTS, Script
from migration.variants import VARIANTS, write

GPUS = (0, 2)
"""On a machine without any, and on one with two simulated ones."""


@dataclass(frozen=True)
class Runs:
    """The outcomes of all jobs. A job is known by the script's name, and how it is run."""

    folder: Path
    torchrun: dict[str, Job]
    plain: dict[str, Job]

    def of(self, name: str) -> Outcome:
        launched = "torchrun" if name in self.torchrun else "plain"
        return outcome(self.folder / launched, name, getattr(self, launched)[name])

    def pair(self, script: Script, way: str, gpus: int) -> tuple[Outcome, Outcome]:
        """Before and after, where `way` says how the migrated script was started: by torchrun, or plainly.

        The script before reads its samples in the order in which the migrated one did.
        """
        order = f"-as-{way}" if script.shuffled else ""
        return self.of(f"{script.name}-before-{gpus}{order}"), self.of(f"{script.name}-{way}-{gpus}")


def jobs(folder: Path) -> Runs:
    torchrun: dict[str, Job] = {}
    plain: dict[str, Job] = {}

    def job(script: Script, path: Path, name: str, gpus: int, order: str | None = None) -> Job:
        notes = folder / ("torchrun" if order in torchrun else "plain") / order if order else None
        return Job(path, folder / "files" / name, script.runs, gpus, script.samples, notes)

    for script in SCRIPTS:
        for gpus in GPUS:
            for way, launched in (("torchrun", torchrun), ("plain", plain)):
                name = f"{script.name}-{way}-{gpus}"
                launched[name] = job(script, script.after, name, gpus)
    for name, (samples, _) in NAMED.items():
        script = Script(f"named/{name}", samples, shuffled=False)
        torchrun[f"{name}, after"] = job(script, script.after, f"{name}, after", 0)
        plain[f"{name}, before"] = job(script, script.before, f"{name}, before", 0)
    for variant in VARIANTS:
        path = write(variant, folder / "variants")
        torchrun[variant] = job(SCRIPTS[1], path, variant, 0)
    for script in SCRIPTS:
        for gpus in GPUS:
            orders = [f"{script.name}-{way}-{gpus}" for way in ("torchrun", "plain")] if script.shuffled else [None]
            for order in orders:
                name = f"{script.name}-before-{gpus}" + (f"-as-{order.split('-')[1]}" if order else "")
                plain[name] = job(script, script.before, name, gpus, order)
    plain["by hand, before"] = job(SCRIPTS[1], SCRIPTS[1].before, "by hand, before", 0, "right")
    return Runs(folder, torchrun, plain)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Runs:
    """What became of all scripts; the workers of one session share it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if hasattr(request.config, "workerinput") else base
    folder = base / "migration"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = jobs(folder)
        done = folder / "done"
        if not done.exists():
            launch(found.torchrun, folder / "torchrun", processes=2)
            launch(found.plain, folder / "plain")
            done.touch()
    return found
