"""Make devlint/placement/api/facts.json: what torch and its neighbours do with devices, as one JSON file.

Two sources. The installed torch is inspected: the schemas of its operators, `native_functions.yaml` (shipped in
torchgen), the signatures of its Python functions, its modules and optimizers, each made once on the CPU. What that
cannot tell stands in the hand-written `*.toml` beside the JSON, each group with its source; a hand-written row is laid
over the inspected one of the same name, key by key.

The result depends on torch's version alone, not on Python's. Run it with torch installed:

    python scripts/build_api.py            writes the file
    python scripts/build_api.py --check    exit code 1 when the file is not what would be written
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Row = dict[str, Any]
Table = dict[str, Row]

API = Path(__file__).resolve().parent.parent / "devlint" / "placement" / "api"
FACTS = API / "facts.json"

# Where a namespace's functions stand in the schemas: torch.linalg.norm is aten::linalg_norm.
NAMESPACES = {
    "torch": "",
    "torch.nn.functional": "",
    "torch.linalg": "linalg_",
    "torch.fft": "fft_",
    "torch.special": "special_",
}

# Not for users, or only a name that leaked into the namespace.
HIDDEN = re.compile(
    r"^(_|has_torch_function|handle_torch_function|boolean_dispatch|assert_int_or_pair|parse_|import_ir|merge_type|"
    r"unify_type|prepare_multi|profiler_|get_file_path|classproperty|autocast_(in|de)crement|fork$|wait$|"
    r"init_num_threads|sym_fresh|thread_safe|Optional$|get_device_module|get_autocast_(ipu|xla)|set_autocast_(ipu|xla)|fbgemm_|miopen_|mkldnn_|cudnn_)"
)


# ---------------------------------------------------------------- operators


def operator_schemas() -> dict[str, list[Any]]:
    """The schemas of all ATen operators by name, without those that write into `out=`."""
    import torch

    schemas: dict[str, list[Any]] = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        if any(argument.is_out for argument in schema.arguments):
            continue
        if any("Dimname" in str(argument.type) for argument in schema.arguments):
            continue
        schemas[schema.name[len("aten::") :]].append(schema)
    for overloads in schemas.values():
        overloads.sort(key=str)
    return schemas


def scalar_operators() -> set[str]:
    """The operators that take a 0-dim CPU tensor beside one on an accelerator: TensorIterator checks their devices."""
    import torchgen  # type: ignore[import-untyped, unused-ignore]

    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml").read_text(encoding="utf-8")
    found = set()
    for block in re.split(r"\n(?=- func: )", text):
        name = re.match(r"- func: (\w+)", block)
        # The check is generated for kernels of CUDA only; what is made of other operators leaves it to them.
        own_kernel = "structured_delegate:" in block or re.search(r"dispatch:.*CUDA", block, re.DOTALL)
        if name and ("device_check: NoCheck" in block or not own_kernel):
            found.add(name[1])
    return found


def kind_of_type(text: str) -> str:
    """The kind of one returned value, from the type that its schema states."""
    if text in ("Tensor", "Optional[Tensor]", "Tensor?"):
        return "tensor"
    if "List[Tensor" in text or "Tensor[]" in text:
        return "tensors"
    if text in ("NoneType", "None"):
        return "none"
    return "number"


def kind_of_schema(schema: Any) -> str:
    returned = [kind_of_type(str(value.type)) for value in schema.returns]
    if not returned:
        return "none"
    if len(returned) == 1:
        return returned[0]
    return "tensors" if "tensor" in returned else "number"


def is_tensor_type(text: str) -> bool:
    return "Tensor" in text


def tensor_arguments(schema: Any) -> list[str]:
    return [argument.name for argument in schema.arguments if is_tensor_type(str(argument.type))]


def positions(schema: Any, skip: int) -> dict[str, int]:
    """The 0-based positions of a schema's positional parameters, the first `skip` of them not counted."""
    found = {}
    for at, argument in enumerate(schema.arguments):
        if argument.kwarg_only:
            break
        if at >= skip:
            found[argument.name] = at - skip
    return found


def row_of_overloads(name: str, overloads: Sequence[Any], scalars: set[str], *, method: bool) -> Row | None:
    """What the overloads of one operator say together; None when no overload is one of tensors or a factory."""
    factories = [s for s in overloads if any(a.name == "device" for a in s.arguments)]
    tensors = [s for s in overloads if tensor_arguments(s)]
    if method:
        tensors = [s for s in tensors if s.arguments and str(s.arguments[0].type) == "Tensor"]
        if not tensors:
            return None
    used = tensors or factories or list(overloads)
    if not method and factories:
        used = sorted({str(s): s for s in [*tensors, *factories]}.values(), key=str)
    kinds = {kind_of_schema(s) for s in used}
    row: Row = {}
    if kinds == {"tensor", "tensors"}:
        row["returns"] = "tensor"
        row |= pair_overloads(used, skip=1 if method else 0)
    elif "tensor" in kinds:
        row["returns"] = "tensor"
    elif "tensors" in kinds:
        row["returns"] = "tensors"
    else:
        row["returns"] = min(kinds) if len(kinds) == 1 else "number"
    row["place"] = place_of(used, tensors, factories, method=method)
    operands = max((len(tensor_arguments(s)) for s in used), default=0)
    lists = any("List[" in str(a.type) for s in used for a in s.arguments if is_tensor_type(str(a.type)))
    if row["place"] in ("operands", "self") and (operands > 1 or lists) and name not in scalars:
        row["scalar_ok"] = False
    if name.endswith("_") and not name.endswith("__") and any(s.is_mutable for s in used):
        row["inplace"] = True
    elif any(is_view(s) for s in used):
        row["view"] = True
    if row["returns"] in ("tensor", "tensors") and any(a.name == "generator" for s in used for a in s.arguments):
        row["random"] = True
    return row


def is_view(schema: Any) -> bool:
    return any(v.alias_info is not None and not v.alias_info.is_write for v in schema.returns)


def place_of(used: Sequence[Any], tensors: Sequence[Any], factories: Sequence[Any], *, method: bool) -> str:
    if factories:
        return "like" if tensors else "factory"
    if not tensors:
        return "none"
    if not method:
        return "operands"
    return "operands" if any(len(tensor_arguments(s)) > 1 for s in used) else "self"


def pair_overloads(used: Sequence[Any], skip: int) -> Row:
    """Which parameters make the difference between one tensor and several: `torch.max(x)` and `torch.max(x, dim)`."""
    one: set[str] = set()
    many: dict[str, int | None] = {}
    for schema in used:
        where = positions(schema, skip)
        if kind_of_schema(schema) == "tensor":
            one |= {a.name for a in schema.arguments}
        else:
            required = {a.name: where.get(a.name) for a in schema.arguments if not a.has_default_value()}
            many = required if not many else {k: v for k, v in many.items() if k in required}
    differ = {name: at for name, at in sorted(many.items()) if name not in one}
    return {"tensors_if": sorted(differ), "at": {name: at for name, at in differ.items() if at is not None}}


def annotated(function: Callable[..., Any]) -> Row | None:
    """What a Python function says in its annotations: `-> Tensor`, `-> tuple[Tensor, Tensor]`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    returns = signature.return_annotation
    text = returns if isinstance(returns, str) else getattr(returns, "__name__", str(returns))
    text = str(returns) if text in ("tuple", "Tuple", "list", "List") else str(text)
    if text.endswith("Tensor") and "[" not in text:
        return {"returns": "tensor", "place": "operands"}
    if "Tensor" in text:
        return {"returns": "tensors", "place": "operands"}
    return None


def public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(set(dir(module))):
        value = getattr(module, name)
        if HIDDEN.match(name) or inspect.isclass(value) or isinstance(value, ModuleType) or not callable(value):
            continue
        if not str(getattr(value, "__module__", None) or "torch").startswith("torch"):
            continue
        yield name, value


def function_rows(schemas: Mapping[str, list[Any]], scalars: set[str]) -> Table:
    """The rows of the functions of torch, torch.nn.functional, torch.linalg, torch.fft, torch.special."""
    import torch

    table: Table = {}
    for namespace, prefix in NAMESPACES.items():
        module: Any = torch
        for part in namespace.split(".")[1:]:
            module = getattr(module, part)
        for name, function in public_functions(module):
            row = None
            if prefix + name in schemas:
                row = row_of_overloads(prefix + name, schemas[prefix + name], scalars, method=False)
                if row is not None and inspect.isfunction(function):
                    row = with_own_positions(row, function)
            elif inspect.isfunction(function):
                row = annotated(function)
            if row is not None:
                table[f"{namespace}.{name}"] = {**row, **reduced(function)} if inspect.isfunction(function) else row
    return table


def reduced(function: Callable[..., Any]) -> Row:
    """A loss gives no dimension unless its `reduction` (or the deprecated `reduce`) is given."""
    parameters = inspect.signature(function).parameters
    if "reduction" not in parameters or parameters["reduction"].default != "mean":
        return {}
    names = [name for name in ("reduction", "reduce") if name in parameters]
    return {"dims": 0, "dims_unless": names, "at": {name: list(parameters).index(name) for name in names}}


def with_own_positions(row: Row, function: Callable[..., Any]) -> Row:
    """The same row with positions of the Python function, which may order its parameters otherwise."""
    if "at" not in row:
        return row
    names = list(inspect.signature(function).parameters)
    return {**row, "at": {name: names.index(name) for name in row["at"] if name in names}}


def method_rows(schemas: Mapping[str, list[Any]], scalars: set[str]) -> Table:
    """The rows of the methods of torch.Tensor that are operators."""
    import torch

    table: Table = {}
    for name in sorted(set(dir(torch.Tensor))):
        if name.startswith("_") or name not in schemas:
            continue
        row = row_of_overloads(name, schemas[name], scalars, method=True)
        if row is not None:
            table[name] = row
    return table


def zero_dim(table: Table, find: Callable[[str], Callable[..., Any]]) -> None:
    """Mark what gives a 0-dim tensor for a matrix alone (`x.sum()`), by trying it."""
    import torch

    matrix = torch.ones(3, 3)
    for name, row in table.items():
        if row["returns"] != "tensor" or row.get("inplace") or row["place"] not in ("operands", "self"):
            continue
        try:
            result = find(name)(matrix)
        except Exception:
            continue
        if isinstance(result, torch.Tensor) and result.dim() == 0:
            row["dims_alone"] = 0


def constants() -> dict[str, str]:
    """The kinds of torch's constants: `torch.float32`, `torch.strided`, `torch.pi`."""
    import torch

    found = {}
    for name in sorted(set(dir(torch))):
        value = getattr(torch, name)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)):
            found[f"torch.{name}"] = "dtype"
        elif isinstance(value, (bool, int, float, str)) and not name.startswith("_"):
            found[f"torch.{name}"] = "number"
    return found


# ---------------------------------------------------------------- classes


# Arguments that make an instance, tried in turn.
TRIES: tuple[tuple[Any, ...], ...] = ((), (3,), (3, 3), (4, 4, 4), (4, 2), (1, 2, 3), (3, 3, 3), (0.1, 20.0))

# What calling an instance gives, where it is not one tensor; a test runs those that can be run.
GIVES: dict[str, Row] = {
    "AdaptiveLogSoftmaxWithLoss": {"gives": "output"},
    **{n: {"gives": "tensors"} for n in ("RNNBase", "RNN", "LSTM", "GRU", "LSTMCell", "MultiheadAttention")},
    **{n: {"gives": "any"} for n in ("Module", "Container", "DataParallel", "Sequential", "Identity")},
    **{n: {} for n in ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "RNNCellBase")},
}


def instances(cls: type) -> Iterator[Any]:
    from torch import nn

    special: dict[str, Callable[[], Any]] = {
        "TransformerEncoder": lambda: cls(nn.TransformerEncoderLayer(4, 2, 4), 1, enable_nested_tensor=False),
        "TransformerDecoder": lambda: cls(nn.TransformerDecoderLayer(4, 2, 4), 1),
        "Transformer": lambda: cls(4, 2, 1, 1, 4),
        "TransformerEncoderLayer": lambda: cls(4, 2, 4),
        "TransformerDecoderLayer": lambda: cls(4, 2, 4),
        "RNNBase": lambda: cls("LSTM", 3, 3),
        "RNNCellBase": lambda: cls(3, 3, True, 1),
        "AdaptiveLogSoftmaxWithLoss": lambda: cls(4, 6, [2]),
        "Unflatten": lambda: cls(1, (2, 2)),
        "FractionalMaxPool2d": lambda: cls(2, output_size=2),
        "FractionalMaxPool3d": lambda: cls(2, output_size=2),
        "LinearCrossEntropyLoss": lambda: cls(4, 4),
    }
    if cls.__name__ in special:
        yield special[cls.__name__]()
        return
    for arguments in TRIES:
        try:
            yield cls(*arguments)
        except Exception:
            continue


def module_row(cls: type) -> Row:
    """A torch.nn module: has it parameters or buffers, and which argument brings them."""
    import torch

    row: Row = {"kind": "module", "to": "in-place"}
    parameters = inspect.signature(cls).parameters
    made = next(instances(cls), None)
    state: Any = bool(made is not None and [*made.parameters(), *made.buffers()])
    if not state and made is not None:
        bringing = []
        for name in sorted({"weight", "pos_weight", "affine", "track_running_stats"} & set(parameters)):
            given: Any = torch.ones(3) if "weight" in name else True
            needed = (3,) if "affine" in parameters else ()
            with_it = cls(*needed, **{name: given})
            if [*with_it.parameters(), *with_it.buffers()]:
                bringing.append(name)
        if bringing:
            state = bringing
            row["at"] = {name: list(parameters).index(name) for name in bringing}
            row["call"] = {"place": "operands"}
    row["state"] = state
    if "device" in parameters or (made is not None and issubclass(cls, torch.nn.RNNBase)):
        row["call"] = {"place": "factory"}
    elif state is True:
        # Made of others (nn.TransformerEncoder copies the layer that it is given).
        row["call"] = {"place": "operands"}
    row |= GIVES.get(cls.__name__, {"gives": "tensor"})
    if "reduction" in parameters and parameters["reduction"].default == "mean":
        row |= {"gives_dims": 0, "dims_unless": [name for name in ("reduction", "reduce") if name in parameters]}
        where = {name: list(parameters).index(name) for name in row["dims_unless"]}
        row["at"] = {**where, **row.get("at", {})}
    bases = [f"torch.nn.{base.__name__}" for base in cls.__mro__[1:] if public_in_nn(base)]
    if bases:
        row["bases"] = bases[:1]
    return row


def public_in_nn(cls: type) -> bool:
    from torch import nn

    return getattr(nn, cls.__name__, None) is cls


def nn_classes() -> Iterator[tuple[str, type]]:
    from torch import nn

    for name in sorted(set(dir(nn))):
        value = getattr(nn, name)
        if inspect.isclass(value) and issubclass(value, nn.Module) and not name.startswith("_"):
            yield name, value


def optimizer_row(cls: type) -> Row:
    """An optimizer: `eager_state` where making it allocates tensors beside the parameters, at once."""
    import torch

    row: Row = {"kind": "optimizer", "bases": ["torch.optim.Optimizer"]}
    if cls is torch.optim.Optimizer:
        return {"kind": "optimizer"}
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    made = cls([parameter])
    if made.state and any(isinstance(v, torch.Tensor) for s in made.state.values() for v in s.values()):
        row["eager_state"] = True
    return row


def class_rows() -> tuple[Table, dict[str, str]]:
    """The classes of torch.nn, torch.optim, its schedulers and torch.distributions, and other names for them."""
    import torch
    from torch.optim import lr_scheduler

    table: Table = {}
    aliases: dict[str, str] = {}

    def add(name: str, cls: type, row: Row) -> None:
        table[name] = row
        home = f"{cls.__module__}.{cls.__qualname__}"
        if home != name and home.startswith("torch."):
            aliases[home] = name
            parent = cls.__module__.rpartition(".")[0]
            if f"{parent}.{cls.__name__}" != name and parent not in ("torch", "torch.nn"):
                aliases[f"{parent}.{cls.__name__}"] = name

    for name, cls in nn_classes():
        add(f"torch.nn.{name}", cls, module_row(cls))
    container: Row = {"kind": "container", "call": {"place": "operands"}}
    for name in ("Sequential", "ModuleList", "ModuleDict"):
        table[f"torch.nn.{name}"] |= {**container, "state": "children"}
    for name in ("ParameterList", "ParameterDict"):
        table[f"torch.nn.{name}"] |= {**container, "state": True, "items": "parameters"}
    table["torch.nn.Module"] |= {"state": "children"}
    for name in ("Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"):
        aliases[f"torch.nn.parameter.{name}"] = f"torch.nn.{name}"
    for name in sorted(set(dir(torch.optim))):
        cls = getattr(torch.optim, name)
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer):
            add(f"torch.optim.{name}", cls, optimizer_row(cls))
    for name in sorted(set(dir(lr_scheduler))):
        cls = getattr(lr_scheduler, name)
        if inspect.isclass(cls) and (issubclass(cls, lr_scheduler.LRScheduler) or name == "ReduceLROnPlateau"):
            table[f"torch.optim.lr_scheduler.{name}"] = {"kind": "scheduler"}
    table["torch.optim.swa_utils.SWALR"] = {"kind": "scheduler"}
    averaged: Row = {"kind": "module", "to": "in-place", "state": True, "bases": ["torch.nn.Module"], "gives": "any"}
    copied = {"place": "like", "device_position": 1}
    table["torch.optim.swa_utils.AveragedModel"] = {**averaged, "wraps": "module", "call": copied}
    for name in sorted(set(dir(torch.distributions))):
        cls = getattr(torch.distributions, name)
        if not inspect.isclass(cls):
            continue
        if issubclass(cls, torch.distributions.Distribution):
            add(f"torch.distributions.{name}", cls, {"kind": "distribution", "call": {"place": "operands"}})
    return table, dict(sorted(aliases.items()))


# ---------------------------------------------------------------- hand-written rows


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; `tomllib` is new in Python 3.11, `tomli` is the same for 3.10."""
    import importlib

    for name in ("tomllib", "tomli", "pip._vendor.tomli"):
        try:
            parser = importlib.import_module(name)
        except ImportError:
            continue
        content: dict[str, Any] = parser.loads(path.read_text(encoding="utf-8"))
        return content
    raise RuntimeError("Python 3.10 needs `tomli` to build the facts")


def lay_over(table: Table, names: Iterable[str], row: Mapping[str, Any]) -> None:
    for name in names:
        old = {key: value for key, value in table.get(name, {}).items() if key not in row.get("drop", ())}
        new = {key: value for key, value in row.items() if key != "drop"}
        table[name] = {**old, **new}


def add_hand_written(facts: dict[str, Any], content: Mapping[str, Any]) -> None:
    """Lay the groups of one TOML file over `facts`, in the order in which they stand there."""
    for kind in ("call", "class"):
        for group in content.get(kind, ()):
            lay_over(facts[kind], group["names"].split(), group["row"])
    for group in content.get("method", ()):
        row = {"attribute": True, **group["row"]} if group.get("attribute") else group["row"]
        lay_over(facts["method"].setdefault(group["kind"], {}), group["names"].split(), row)
    for group in content.get("alias", ()):
        facts["aliases"].update(dict(group["names"]))
    for group in content.get("prefix", ()):
        facts["prefixes"].append([group["old"], group["new"]])
    for group in content.get("pattern", ()):
        for glob in group["names"].split():
            facts["pattern"].append([glob, group["table"], group["row"]])
    for group in content.get("constant", ()):
        facts["constant"].update(dict.fromkeys(group["names"].split(), group["kind"]))
    for group in content.get("package", ()):
        facts["package"].setdefault(group["role"], set()).update(group["names"].split())
    for group in content.get("inherits", ()):
        facts["inherits"].update(dict(group["pairs"]))


def evidence(content: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names that tell a module from a tensor, and a tensor from all else."""
    import torch

    tensor = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    module = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    lists = content["evidence"]
    others = {name for key, names in lists.items() if key != "source" for name in names.split()}
    alike = set(content["evidence_like"]["names"].split())
    only = tensor - module - others
    return {
        "only_module": sorted(module - tensor),
        "only_tensor": sorted(only - alike),
        "tensor_like": sorted(only & alike),
    }


# ---------------------------------------------------------------- the file


def build() -> dict[str, Any]:
    """All facts, as Facts in devlint/placement/api reads them (see there for what the keys mean)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return inspect_and_read()


def inspect_and_read() -> dict[str, Any]:
    import torch

    schemas, scalars = operator_schemas(), scalar_operators()
    call = function_rows(schemas, scalars)
    tensor = method_rows(schemas, scalars)

    def function(name: str) -> Callable[..., Any]:
        value: Any = torch
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        found: Callable[..., Any] = value
        return found

    zero_dim(call, function)
    zero_dim(tensor, lambda name: getattr(torch.Tensor, name))
    classes, aliases = class_rows()
    facts: dict[str, Any] = {
        "torch": torch.__version__.partition("+")[0],
        "call": call,
        "class": classes,
        "method": {"tensor": tensor},
        "aliases": aliases,
        "prefixes": [],
        "pattern": [],
        "inherits": {},
        "constant": constants(),
        "package": {},
    }
    for path in sorted(API.glob("*.toml"), key=lambda path: (path.stem != "torch", path.stem)):
        content = read_toml(path)
        add_hand_written(facts, content)
        if "evidence" in content:
            facts |= evidence(content)
    return facts


def groups(table: Mapping[str, Row]) -> list[list[Any]]:
    """The table as pairs of a row and the names that share it: smaller, and a change shows as one line."""
    shared: dict[str, list[str]] = defaultdict(list)
    for name in sorted(table):
        shared[json.dumps(table[name], sort_keys=True)].append(name)
    return [[json.loads(text), " ".join(names)] for text, names in sorted(shared.items())]


def kinds_of(constant: Mapping[str, str]) -> list[list[str]]:
    return [
        [kind, " ".join(sorted(n for n, k in constant.items() if k == kind))] for kind in sorted(set(constant.values()))
    ]


def render(facts: Mapping[str, Any]) -> str:
    """The facts as the text of the JSON file, one group a line."""

    def lines(items: Iterable[Any]) -> str:
        return "[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in items) + "\n]"

    parts = {
        "torch": json.dumps(facts["torch"]),
        "call": lines(groups(facts["call"])),
        "class": lines(groups(facts["class"])),
        "method": "{\n"
        + ",\n".join(f'"{kind}":{lines(groups(rows))}' for kind, rows in sorted(facts["method"].items()))
        + "\n}",
        "aliases": lines(sorted(facts["aliases"].items())),
        "prefixes": lines(facts["prefixes"]),
        "pattern": lines(facts["pattern"]),
        "inherits": json.dumps(facts["inherits"], sort_keys=True),
        "constant": lines(kinds_of(facts["constant"])),
        "package": json.dumps({role: " ".join(sorted(names)) for role, names in sorted(facts["package"].items())}),
        **{key: json.dumps(" ".join(facts[key])) for key in ("only_module", "only_tensor", "tensor_like")},
    }
    return "{\n" + ",\n".join(f'"{key}":{text}' for key, text in parts.items()) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the facts about torch and its neighbours.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the file is out of date")
    options = parser.parse_args(arguments)
    text = render(build())
    old = FACTS.read_text(encoding="utf-8") if FACTS.exists() else ""
    if options.check:
        return 0 if text == old else 1
    FACTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
