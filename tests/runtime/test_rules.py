"""Every rule of the simulation, one test a row of rows.py; on a real GPU with DEVLINT_REAL_DEVICES=1."""

from __future__ import annotations

import json
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime import rows

from devlint.runtime import rules, simulate

TABLE = Path(rules.__file__).with_name("operators.json")
REAL = os.environ.get("DEVLINT_REAL_DEVICES") == "1"


@pytest.fixture
def machine() -> Iterator[int]:
    """A machine with CUDA devices: the number of them."""
    if REAL:
        yield torch.cuda.device_count()
        torch.set_default_device(None)
        torch.cuda.set_device(0)
        return
    with simulate(devices=2, kind="cuda"):
        yield 2


def run(row: Any, first: str, second: str | None) -> dict[str, Any]:
    """The names after the row's code ran."""
    space: dict[str, Any] = rows.names(first, second)
    exec(compile(row.code, f"<{row.name}>", "exec"), space)
    return space


def on_cpu(row: Any) -> Any:
    """What the row's code gives where no device is in it: the values to compare with."""
    code = row.code.replace("torch.cuda.FloatTensor", "torch.FloatTensor")
    code = code.replace("torch.cuda.DoubleTensor", "torch.DoubleTensor")
    for name in ("h.cuda(1)", "h.cuda()", "h.to(0)"):
        code = code.replace(name, "h")
    row = rows.Row(row.name, code)
    return run(row, "cpu", "cpu")["r"]


@pytest.mark.parametrize("row", rows.ROWS, ids=[row.name for row in rows.ROWS])
def test_row(row: Any, machine: int) -> None:
    if row.devices > machine:
        pytest.skip(f"needs {row.devices} devices, this machine has {machine}")
    first, second = "cuda:0", "cuda:1" if machine > 1 else None
    if row.error is not None:
        kind, text = row.error
        with pytest.raises(Exception) as caught:
            run(row, first, second)
        assert type(caught.value).__name__ == kind
        assert text in str(caught.value)
        return
    result = run(row, first, second)["r"]
    assert str(result.device) == row.place
    only_on_devices = ("cuda.stream", "set_device(1)", "cuda.device(1)")
    if row.values and not any(words in row.code for words in only_on_devices):
        expected = on_cpu(row)
        torch.testing.assert_close(result.cpu(), expected.cpu(), rtol=1e-5, atol=1e-5)


def test_names_of_rows_are_their_own() -> None:
    names = [row.name for row in rows.ROWS]
    assert len(names) == len(set(names))


def schema(full: str) -> Any:
    """The schema of an operator of this torch, None where it has none of that name."""
    name, _, overload = full.partition(".")
    operator = getattr(getattr(torch.ops.aten, name, None), overload or "default", None)
    return operator and operator._schema


def can_fail(full: str) -> bool:
    """Whether the check before an operator can fail: it takes several tensors. Others have no name in torch 2.6.0."""
    found = schema(full)
    if found is None or any(argument.is_out for argument in found.arguments):
        return False
    types = [str(argument.type) for argument in found.arguments]
    return sum(("Tensor" in kind) + ("List[" in kind and "Tensor" in kind) for kind in types) > 1


def test_wrappers_are_those_of_the_cuda_library() -> None:
    """Where torch was built with CUDA its library holds the name of each wrapper whose check of devices can fail."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    if not library.exists():
        pytest.skip("this torch was built without CUDA")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        names = {name.decode() for name in re.findall(rb"\0wrapper_CUDA_(\w+)(?=\0)", content)}
    checked = [full for full in (*rules.STRUCTURED, *rules.PLAIN) if can_fail(full)]
    ours = {rules.wrapper(*full.partition(".")[::2], out=False) for full in checked}
    assert len(ours & names) > 140
    # what another version of torch checks or runs on a device and this one does not (2.6.0: four)
    assert len(ours - names) < 6, sorted(ours - names)
    iterator = set(json.loads(TABLE.read_text())["iterator"].split()) - rules.STRUCTURED
    unchecked = {full.replace(".", "_") for full in iterator}
    assert not unchecked & names


@pytest.mark.skipif(REAL, reason="a matter of the file, not of the device")
def test_table_of_operators_is_what_torch_ships() -> None:
    """operators.json is made from the newest torch that devlint is tested with."""
    script = Path(__file__).with_name("make_operator_checks.py")
    pytest.importorskip("yaml", reason="PyYAML reads torch's table of operators")
    made_from = TABLE.read_text()
    if f'"torch": "{torch.__version__.partition("+")[0]}"' not in made_from:
        pytest.skip(f"made from another torch than {torch.__version__}")
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0
