"""Compares two runs of a script: each function gives what is wrong, in words; nothing if all is well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from migration.launch import Outcome

Files = dict[str, Any]
"""What each file holds, by its path in the folder of the run."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def files(before: Files, after: Files) -> list[str]:
    """The same files with the same keys."""
    wanted, found = ({name: _keys(content) for name, content in part.items()} for part in (before, after))
    wrong = [f"not saved: {name}" for name in wanted.keys() - found.keys()]
    wrong += [f"saved too: {name}" for name in found.keys() - wanted.keys()]
    for name in wanted.keys() & found.keys():
        if wanted[name] != found[name]:
            lost, new = wanted[name] - found[name], found[name] - wanted[name]
            wrong.append(f"{name}: keys {sorted(lost)} became {sorted(new)}")
    return wrong


def values(before: Files, after: Files, tolerance: float) -> list[str]:
    """The same numbers in the files, up to a largest difference; keys are compared by `files`."""
    wrong = []
    for name in before.keys() & after.keys():
        if isinstance(before[name], str):
            wrong += [f"{name}: {text}" for text in _texts([before[name]], [after[name]])]
            continue
        found = dict(_leaves(after[name]))
        for key, value in _leaves(before[name]):
            other = found.get(key)
            if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
                if value.shape != other.shape:
                    wrong.append(f"{name}: {key} has the shape {tuple(other.shape)}, not {tuple(value.shape)}")
                    continue
                difference = (value.double() - other.double()).abs().max().item() if value.numel() else 0.0
                if not difference <= tolerance:
                    wrong.append(f"{name}: {key} differs by {difference:.1e}")
            elif isinstance(value, float) and isinstance(other, float):
                if not abs(value - other) <= 1e-4 * max(1.0, abs(value)):
                    wrong.append(f"{name}: {key} is {other}, not {value}")
            elif key in found and value != other:
                wrong.append(f"{name}: {key} is {other!r}, not {value!r}")
    return wrong


def lines(before: Outcome, after: Outcome) -> list[str]:
    """The same lines in all processes together, each as often as before; numbers may differ in their last digit."""
    wanted, found = ([line for process in run.processes for line in process.lines] for run in (before, after))
    extra = Counter(_skeleton(line) for line in found)
    extra.subtract(Counter(_skeleton(line) for line in wanted))
    wrong = [f"printed {count} times too often: {line}" for line, count in extra.items() if count > 0]
    wrong += [f"printed {-count} times too few: {line}" for line, count in extra.items() if count < 0]
    return wrong or _texts(wanted, found)


def writers(after: Outcome) -> list[str]:
    """One process saves, and each process leaves its group."""
    wrong = []
    for run in after.runs:
        for rank, process in enumerate(run):
            if rank and process.saves:
                wrong.append(f"process {rank} saves {', '.join(process.saves)} as well")
            if process.group_is_left:
                wrong.append(f"process {rank} ends without destroy_process_group")
    return wrong


def samples(after: Outcome, size: int, shuffled: bool) -> list[str]:
    """In each pass over the training data each sample is seen once, by any process; shuffled, in a new order."""
    wrong = []
    orders = []
    for number, one in enumerate(after.passes(size)):
        seen = [index for batches in one for batch in batches for index in batch]
        if sorted(seen) != list(range(size)):
            counts = Counter(seen)
            twice = sum(count > 1 for count in counts.values())
            wrong.append(f"pass {number}: of {size} samples {size - len(counts)} are not seen, {twice} more than once")
        if len({len(batches) for batches in one}) > 1:
            wrong.append(f"pass {number}: the processes have different numbers of batches")
        orders.append(seen)
    if len(orders) != 3:
        wrong.append(f"{len(orders)} passes in place of 3")
    if shuffled and len({tuple(order) for order in orders}) < len(orders):
        wrong.append("the order is the same in two passes")
    if not shuffled and any(order != orders[0] for order in orders):
        wrong.append("the order changes, though nothing was shuffled")
    return wrong


def batches(before: Outcome, after: Outcome, size: int) -> list[str]:
    """Each step takes as many samples in all processes together as it took in one."""
    wanted, found = (
        [[sum(len(batch) for batch in step) for step in zip(*one, strict=False)] for one in run.passes(size)]
        for run in (before, after)
    )
    return [] if wanted == found else [f"samples per step: {found[:1]}, not {wanted[:1]}"]


def without_prefix(content: Any) -> Any:
    """A state dict, or what holds some, without `module.` before the keys."""
    if isinstance(content, dict):
        return {
            key.removeprefix("module.") if isinstance(key, str) else key: without_prefix(value)
            for key, value in content.items()
        }
    return content


def _leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _leaves(value, f"{path}/{key}")
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from _leaves(value, f"{path}/{index}")
    else:
        yield path, content


def _keys(content: Any) -> set[str]:
    return set() if isinstance(content, str) else {path for path, _ in _leaves(content)}


def _skeleton(line: str) -> str:
    return _NUMBER.sub("#", line)


def _texts(wanted: list[str], found: list[str]) -> list[str]:
    """Lines of the same skeletons in the same order, whose numbers differ by no more than one in the last digit."""
    wrong = []
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for which, part in enumerate((wanted, found)):
        for line in part:
            groups.setdefault(_skeleton(line), ([], []))[which].append(line)
    for first, second in groups.values():
        for old, new in zip(first, second, strict=True):
            for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
                digits = len(a.partition(".")[2])
                if abs(float(a) - float(b)) > (1.01 * 10.0**-digits if digits else 0):
                    wrong.append(f"{new.strip()!r} in place of {old.strip()!r}")
                    break
    return wrong
