"""Write devlint/runtime/operators.json from the table of operators that torch ships (torchgen, native_functions.yaml).

    python tests/runtime/make_operator_checks.py            writes the file
    python tests/runtime/make_operator_checks.py --check    exit 1 where the file differs from what would be written

The code generator of torch (torchgen/dest/register_dispatch_key.py) puts a device check before every kernel of an
accelerator unless the entry says `device_check: NoCheck`, and names the wrapper `wrapper_CUDA_<name>_<overload>` for
structured kernels and `wrapper_CUDA_<overload>_<name>` for others. Entries that leave the check to TensorIterator say
so in a comment. Operators of one kernel for all backends (Composite...) get no check of their own.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import torch
import yaml

TARGET = Path(__file__).parents[2] / "devlint" / "runtime" / "operators.json"


def entries() -> list[tuple[dict[str, object], str]]:
    """Each entry of native_functions.yaml with its text (the loader drops comments)."""
    import torchgen

    path = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    blocks = re.split(r"(?m)^(?=- func:)", path.read_text())
    return [(yaml.safe_load(block)[0], block) for block in blocks if block.startswith("- func:")]


def table() -> dict[str, object]:
    """What the file holds: operators by the kind of check in front of their accelerator kernel."""
    kinds: dict[str, list[str]] = {"structured": [], "plain": [], "iterator": []}
    for entry, text in entries():
        name = str(entry["func"]).partition("(")[0]
        if re.search(
            r"backward|quantize|qint|cudnn|miopen|mkldnn|mps|^_?sparse|nested|efficient|fbgemm|conv_depth", name
        ):
            continue
        dispatch = entry.get("dispatch") or {}
        keys = (
            {key.strip() for group in dispatch for key in str(group).split(",")}
            if isinstance(dispatch, dict)
            else set()
        )
        structured = bool(entry.get("structured") or entry.get("structured_delegate"))
        if not structured and "CUDA" not in keys:
            continue
        if entry.get("device_check") == "NoCheck":
            if "TensorIterator" in text:
                kinds["iterator"].append(name)
        else:
            kinds["structured" if structured else "plain"].append(name)
    return {
        "torch": torch.__version__.partition("+")[0],
        **{kind: " ".join(sorted(names)) for kind, names in kinds.items()},
    }


def main() -> int:
    """Write or compare; 1 where they differ."""
    text = json.dumps(table(), indent=1) + "\n"
    if "--check" in sys.argv:
        return int(TARGET.read_text() != text)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
