"""torch.device's grammar: which strings name a device, what torch says of the others, and what was meant.

Measured on torch 2.13 (c10/core/Device.cpp); a test compares this module with torch.device over thousands of strings.
A device is a type, made of ASCII letters and underscores, and after a colon an index: 0, or digits that do not begin
with 0. Nothing may stand before, between or after them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

TYPES = [
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve"),
    *("fpga", "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
]
"""The types that torch knows on its own, in the order in which its error lists them. Backends add others by
`torch.utils.rename_privateuse1_backend`, so another name is not wrong for being unknown."""

MAX_INDEX = 127
"""The index is kept in a signed byte: a larger one is accepted and wraps round."""
_MAX_INT = 2**31 - 1
"""What torch parses; beyond, it raises."""

_GRAMMAR = re.compile(r"([A-Za-z_]+)(?::(0|[1-9][0-9]*))?", re.ASCII)
_OTHER_CHARACTER = re.compile(r"[^A-Za-z_:0-9]")
_READING = re.compile(
    r"\s*([A-Za-z_]+)\s*(?::\s*|\s)?(?:(0|[1-9][0-9]*)((?:\s*,\s*(?:[A-Za-z_]+:)?[0-9]+)*)\s*,?)?\s*", re.ASCII
)
"""What a person may have meant: a type and an index, spaced freely, or a list of which the first counts."""

_SLIPS = frozenset({"gpu", "gpus"})
"""Words for "cuda" that are no type of any backend of torch."""


@dataclass(frozen=True, slots=True)
class DeviceText:
    """A string that the grammar accepts. `index` is as written; torch keeps `kept_index`."""

    type: str
    index: int | None = None

    @property
    def kept_index(self) -> int | None:
        """The index after it was squeezed into a signed byte; -1 stands for none."""
        return None if self.index is None else (self.index + 128) % 256 - 128

    @property
    def wraps(self) -> bool:
        return self.index is not None and self.index > MAX_INDEX


def read(text: str) -> DeviceText | None:
    """The device that a string names, of a type known or not; None where torch.device refuses the string whatever
    backends there are."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    index = match[2]
    if index is None:
        return DeviceText(match[1])
    return DeviceText(match[1], int(index)) if len(index) <= 10 and int(index) <= _MAX_INT else None


def error(text: str) -> str | None:
    """What torch.device raises for a string, as far as it holds on every build: an unknown type counts only where it
    is a slip for a known one. None where it raises nothing."""
    if not text:
        return "Device string must not be empty"
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return f"Invalid device string: '{text}'"
    if read(text) is None:
        return f"Could not parse device index '{match[2]}' in device string '{text}'"
    return unknown_type(match[1]) if near_miss(match[1]) else None


def unknown_type(name: str) -> str:
    """What torch says of a type that no backend has registered, shortened."""
    return f"Expected one of cpu, cuda, ... device type at start of device string: {name}"


def near_miss(name: str) -> str | None:
    """The type that an unknown type's name is a slip for, if it plainly is: another case, `gpu`, one letter of `cuda`
    or `cpu` wrong. Short names of other backends (`npu`, `tpu`) are one letter from each other and are none."""
    if name in TYPES:
        return None
    lower = name.lower()
    if lower in TYPES:
        return lower
    if lower in _SLIPS:
        return "cuda"
    if lower in _one_slip("cuda"):
        return "cuda"
    return "cpu" if lower in ("pcu", "cup", "cppu", "cpuu", "ccpu") else None


def _one_slip(word: str) -> set[str]:
    """Words that one wrong, missing, doubled or exchanged letter makes of a word."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    missing = {a + b[1:] for a, b in cuts if b}
    exchanged = {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}
    wrong = {a + letter + b[1:] for a, b in cuts if b for letter in letters}
    doubled = {a + b[0] + b for a, b in cuts if b}
    return (missing | exchanged | wrong | doubled) - {word}


def impossible(piece: str) -> bool:
    """Whether no device string holds this piece: it has a character that the grammar knows nowhere."""
    return _OTHER_CHARACTER.search(piece) is not None


def repaired(text: str) -> str | None:
    """The device string that was meant, where one reading is plain: the first of several indices, without stray
    spaces, in lower case. None for `cuda:01` (device 1, or 0 and 1?) and for what is no device at all."""
    match = _READING.fullmatch(text)
    if match is None:
        return None
    kind, index = match[1], match[2]
    if kind not in TYPES:
        kind = near_miss(kind) or ""
    if not kind or (index is not None and (len(index) > 3 or int(index) > MAX_INDEX)):
        return None
    fixed = kind if index is None else f"{kind}:{index}"
    return fixed if fixed != text and error(fixed) is None else None


_TAGGED = ("cuda", "xpu", "mtia", "mps")
"""`torch.load` hands what begins so to torch.device; it compares `cpu` and `meta` as they stand."""


def map_location_error(text: str) -> str | None:
    """What torch.load raises for a string as `map_location`, as far as it holds on every build; None for nothing."""
    found = read(text)
    if found is None and text.startswith(_TAGGED):
        return error(text)
    if found is None or near_miss(found.type) or (found.type in ("cpu", "meta") and found.index is not None):
        return f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {text})"
    return None


_PIECE = re.compile(r"\s*/?(?:[Dd]evice:)?([A-Za-z]+)(?:[\s:,]*)[\s\d,:+%a-z{}()\[\]/.-]*")
_NEAR = {*TYPES, *_SLIPS, *_one_slip("cuda")}


@cache
def suspicious(text: str) -> bool:
    """Whether a string, or the beginning of one that is put together, is plainly meant for a device and is none as it
    stands: `cuda:0,1`, `gpu`, `cuda:` (of an f-string), `cuda:128`."""
    if len(text) > 24:
        return False
    match = _PIECE.fullmatch(text)
    if match is None:
        return False
    kind = match[1].lower()
    if kind not in _NEAR and not (near_miss(kind) or ""):
        return False
    found = read(text)
    if found is None:
        rest = text[match.end(1) :]
        return re.search(r"[A-Za-z]{3}", rest) is None
    return near_miss(found.type) is not None or found.wraps
