"""torch.device's grammar as devlint knows it, against torch.device itself."""

from __future__ import annotations

import io
import random

import pytest
import torch

from devlint.placement.device_text import (
    TYPES,
    error,
    map_location_error,
    near_miss,
    read,
    repaired,
    suspicious,
    unknown_type,
)

KINDS = [*TYPES, "gpu", "CUDA", "Cuda", "npu", "cude", "cu_da", "_", "", "cuda0", "cudä", "cuda ", " cuda", "a"]
TAILS = [
    "", ":", ":0", ":1", ":7", ":00", ":01", ":10", ":127", ":128", ":255", ":256", ":65536", ":2147483647",
    ":2147483648", ":99999999999", ":-1", ":+1", ": 0", ":0 ", ":0,1", ":0:1", "::0", ":x", ":0x1", ":1_0", ":٣", "0",
    "-0", ".0", "\n", "\t:0", ":0\n", ",", "/0",
]  # fmt: skip


def generated(count: int) -> list[str]:
    """Strings of the characters that matter, the same in every run."""
    dice = random.Random(13)
    alphabet = ["cuda", "cpu", "mps", "c", "u", "A", "_", ":", ":", "0", "1", "9", "128", " ", ",", "-", "é", "\n"]
    return ["".join(dice.choices(alphabet, k=dice.randint(0, 5))) for _ in range(count)]


def asked_of_torch(text: str) -> tuple[str, int | None] | str:
    """The type and index that torch makes of a string, or the first line of its error."""
    try:
        device = torch.device(text)
    except RuntimeError as problem:
        return str(problem).split("\nException raised from")[0]
    return device.type, device.index


@pytest.mark.parametrize("texts", [[kind + tail for kind in KINDS for tail in TAILS], generated(5000)])
def test_the_grammar_is_that_of_torch(texts: list[str]) -> None:
    accepted = 0
    for text in texts:
        ours, theirs = read(text), asked_of_torch(text)
        if ours is None:
            assert theirs == error(text), text
        elif ours.type in TYPES:
            kept = ours.kept_index
            index = None if kept == -1 else kept
            assert theirs == (ours.type, index), text
            assert ours.wraps == (ours.index is not None and ours.index != index), text
            assert error(text) is None, text
            accepted += 1
        else:
            assert isinstance(theirs, str), text
            assert theirs.endswith(f"device type at start of device string: {ours.type}"), text
            assert error(text) in (None, unknown_type(ours.type)), text
    assert accepted > 100


def test_the_types_are_those_of_the_error() -> None:
    said = asked_of_torch("gpu")
    assert isinstance(said, str)
    listed = said.removeprefix("Expected one of ").partition(" device type")[0]
    assert listed.split(", ") == TYPES


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpu", "cuda"), ("GPU", "cuda"), ("CUDA", "cuda"), ("Cpu", "cpu"), ("MPS", "mps"), ("cude", "cuda"),
        ("cuad", "cuda"), ("cda", "cuda"), ("cudaa", "cuda"), ("cup", "cpu"),
        ("cuda", None), ("npu", None), ("tpu", None), ("ipu", None), ("mlu", None), ("musa", None), ("gcu", None),
        ("sdaa", None), ("auto", None), ("data", None), ("disk", None), ("ort", None), ("dml", None), ("hps", None),
    ],
)  # fmt: skip
def test_near_misses(name: str, meant: str | None) -> None:
    assert near_miss(name) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("cuda:0,1", "cuda:0"), ("cuda:1,3", "cuda:1"), ("cuda:1, 3", "cuda:1"), ("cuda:2,cuda:3", "cuda:2"),
        ("gpu", "cuda"), ("gpu:1", "cuda:1"), ("GPU:0", "cuda:0"), ("cuda0", "cuda:0"), ("cuda: 0", "cuda:0"),
        ("cuda ", "cuda"), ("cuda:", "cuda"), ("cude:1", "cuda:1"), ("mps0", "mps:0"), ("CPU", "cpu"),
        ("cuda:0,", "cuda:0"),
        ("cuda:01", None), ("cuda:00", None), ("cuda:128", None), ("cuda:-1", None), ("0", None), ("0,1", None),
        ("", None), ("npu0x", None), ("/gpu:0", None), ("cuda:a", None), ("cuda", None), ("cuda:1", None),
        ("float32", None),
        ("cuda:999,1", None),
    ],
)  # fmt: skip
def test_repairs(text: str, meant: str | None) -> None:
    assert repaired(text) == meant
    if meant is not None:
        assert isinstance(asked_of_torch(text), str), "what works needs no repair"
        assert not isinstance(asked_of_torch(meant), str)


def test_map_location_is_that_of_torch_load() -> None:
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(1)}, file)
    texts = [
        "gpu",
        "cuda0",
        "cuda:0,1",
        "cuda:01",
        "cpu:0",
        "cpu0",
        "CPU",
        "meta:0",
        "meta",
        "cpu",
        "cude",
        "cuda:",
        "foo:bar",
        "mtia0",
        "xpu0",
    ]
    for text in [*texts, "", "cuda: 0", "cpu "]:
        file.seek(0)
        try:
            torch.load(file, map_location=text)
            theirs = None
        except RuntimeError as problem:
            theirs = str(problem)
        assert map_location_error(text) == theirs, text


@pytest.mark.parametrize(
    "text", ["cuda:0,1", "gpu", "cuda:", "cuda:{}", "cuda:%d", "cuda0", "CUDA:0", "cuda:128", "cuda: "]
)
def test_suspicious_strings(text: str) -> None:
    assert suspicious(text)


@pytest.mark.parametrize(
    "text", ["cuda", "cpu", "npu", "mps:0", "auto", "gpu_id", "cuda is not available", "", "0,1", "GPU memory"]
)
def test_other_strings(text: str) -> None:
    assert not suspicious(text)
