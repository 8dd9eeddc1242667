"""The facts about libraries: well-formed, found under every name, and true of the installed torch.

The rows about torch are tried: each function and tensor method is called with made arguments until some fit, first on
the CPU (is the kind of the result as stated? does it share memory? is it the receiver?), then with fake tensors that
claim to be on an accelerator (is the result there? do mixed devices raise?). Factories are tried on the meta device.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from devlint.placement.api import KEYS, KINDS, PLACES, ROLES, Row, check_row, facts, fits

torch = pytest.importorskip("torch", reason="the facts are tried on an installed torch")
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FACTS = facts()
SAME_VERSION = torch.__version__.partition("+")[0] == FACTS.torch
same_version = pytest.mark.skipif(not SAME_VERSION, reason=f"the facts are those of torch {FACTS.torch}")


@cache
def build_api() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_api", ROOT / "scripts" / "build_api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_api"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    state = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_rng_state(state)


# ---------------------------------------------------------------- the file


@same_version
def test_the_file_is_what_the_script_makes() -> None:
    script = build_api()
    assert script.FACTS.read_text(encoding="utf-8") == script.render(script.build())


def test_the_file_stays_small_since_each_run_reads_it() -> None:
    """Its size is what loading costs: 150 kB take 3 ms."""
    assert (ROOT / "devlint/placement/api/facts.json").stat().st_size < 200_000


def test_loading_imports_nothing_heavy() -> None:
    import subprocess

    heavy = "('torch', 'libcst', 'tomllib')"
    code = f"import sys, devlint.placement.api as a; a.facts(); print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def all_rows() -> Iterator[tuple[str, Row]]:
    yield from FACTS.calls.items()
    yield from FACTS.classes.items()
    for kind, table in FACTS.methods.items():
        yield from ((f"{kind}.{name}", row) for name, row in table.items())
    yield from ((pattern, row) for pattern, _, row in FACTS.patterns)


def test_rows_use_known_keys_kinds_and_places_only() -> None:
    for name, row in all_rows():
        check_row(name, row)
        assert ("kind" in row) != ("returns" in row), name
        assert "kind" in row or "place" in row, name
        for parameter in itertools.chain(row.get("tensors_if", ()), row.get("strict", ()), row.get("dims_unless", ())):
            assert isinstance(parameter, str), name
        assert all(isinstance(at, int) and at >= 0 for at in row.get("at", {}).values()), name
        if "device_position" in row:
            assert "device_param" in row, name
        for table in row.get("tables", ()):
            assert table in FACTS.methods, name


def test_packages_have_the_roles_that_are_explained() -> None:
    assert FACTS.packages.keys() == ROLES
    assert all(FACTS.packages.values())


def test_each_kind_and_place_is_used_and_each_key_explained() -> None:
    rows = [row for _, row in all_rows()]
    inner = [row["call"] for row in rows if "call" in row]
    used = {row.get(key) for row in rows for key in ("kind", "returns", "gives")}
    assert KINDS - used == set()
    assert PLACES - {row.get("place") for row in rows + inner} == set()
    assert KEYS - {key for row in rows + inner for key in row} == set()
    text = (ROOT / "devlint/placement/api/__init__.py").read_text(encoding="utf-8")
    explained = text.partition('"""\n\nfrom')[0]
    assert [key for key in sorted(KEYS) if f"`{key}`" not in explained] == []


def test_bases_and_types_are_classes_of_the_table() -> None:
    for name, row in all_rows():
        for base in [*row.get("bases", ()), *([row["type"]] if "type" in row else ())]:
            assert FACTS.cls(base) is not None, (name, base)
    for child, parent in FACTS.inherits.items():
        assert child in FACTS.methods or child in KINDS
        assert parent in FACTS.methods


def test_each_hand_written_group_says_where_its_fact_comes_from() -> None:
    script = build_api()
    files = sorted(script.API.glob("*.toml"))
    assert len(files) >= 9
    for path in files:
        for table, groups in script.read_toml(path).items():
            for group in groups if isinstance(groups, list) else [groups]:
                assert len(group.get("source", "")) > 10, (path.name, table, group)


# ---------------------------------------------------------------- looking things up


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.modules.Linear", "torch.nn.Linear"),
        ("torch.nn.parallel.data_parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.optim.adam.Adam", "torch.optim.Adam"),
        ("torch.functional.einsum", "torch.einsum"),
        ("torch.distributions.normal.Normal", "torch.distributions.Normal"),
        ("pytorch_lightning.LightningModule", "lightning.LightningModule"),
        ("lightning.pytorch.LightningModule", "lightning.LightningModule"),
        ("transformers.tokenization_utils_base.BatchEncoding", "transformers.BatchEncoding"),
        ("torch.zeros", "torch.zeros"),
        ("my.own.thing", "my.own.thing"),
    ],
)
def test_canonical(name: str, canonical: str) -> None:
    assert FACTS.canonical(name) == canonical


def test_aliases_of_torch_are_the_same_object_or_its_wrapper() -> None:
    for old, new in FACTS.aliases.items():
        if not old.startswith("torch."):
            continue
        first, second = imported(old), imported(new)
        if first is None or second is None:
            assert FACTS.call(new) is not None, (old, new)
            continue
        same = first is second or (isinstance(first, type) and isinstance(second, type) and issubclass(second, first))
        # torch._dynamo, once imported, wraps torch.manual_seed.
        same = same or old == "torch.random.manual_seed"
        assert same or old in {"torch.autograd.Variable", "torch.autograd.variable.Variable", "torch.TensorType"}, old


@pytest.mark.parametrize(
    ("name", "returns", "place"),
    [
        ("transformers.AutoModelForCausalLM.from_pretrained", "module", "factory"),
        ("transformers.BertModel.from_pretrained", "module", "factory"),
        ("transformers.AutoTokenizer.from_pretrained", "tokenizer", "none"),
        ("transformers.models.bert.tokenization_bert.BertTokenizer.from_pretrained", "tokenizer", "none"),
        ("transformers.AutoImageProcessor.from_pretrained", "processor", "none"),
        ("transformers.AutoConfig.from_pretrained", "any", "none"),
        ("diffusers.StableDiffusionPipeline.from_pretrained", "pipeline", "host"),
        ("diffusers.DDIMScheduler.from_pretrained", "noise_scheduler", "host"),
        ("diffusers.UNet2DConditionModel.from_pretrained", "module", "factory"),
        ("torchvision.models.resnet18", "module", "factory"),
        ("torchvision.models.detection.fasterrcnn_resnet50_fpn", "module", "factory"),
        ("timm.create_model", "module", "factory"),
        ("torchmetrics.Accuracy", "metric", "factory"),
        ("torchmetrics.functional.accuracy", "tensor", "operands"),
        ("torch_geometric.nn.GCNConv", "module", "factory"),
        ("torch_geometric.nn.conv.gcn_conv.GCNConv", "module", "factory"),
        ("torch_geometric.nn.global_mean_pool", "tensor", "operands"),
        ("dgl.graph", "graph", "like"),
        ("numpy.array", "array", "host"),
        ("mymodels.Net.load_from_checkpoint", "any", "saved"),
        ("torch.nn.Linear", "module", "factory"),
        ("torch.Generator", "generator", "factory"),
    ],
)
def test_calls_of_neighbours(name: str, returns: str, place: str) -> None:
    row = FACTS.call(name)
    assert row is not None and (row["returns"], row["place"]) == (returns, place)


@pytest.mark.parametrize(
    ("cls", "to"),
    [
        ("torch.Tensor", "copy"),
        ("torch.nn.Parameter", "copy"),
        ("torch.nn.utils.rnn.PackedSequence", "copy"),
        ("torch.nn.Linear", "in-place"),
        ("transformers.BatchEncoding", "in-place"),
        ("transformers.BertModel", "in-place"),
        ("torch_geometric.data.Data", "in-place"),
        ("dgl.DGLGraph", "copy"),
        ("torchmetrics.Accuracy", "in-place"),
        ("diffusers.StableDiffusionPipeline", "in-place"),
        ("tensordict.TensorDict", "copy"),
        ("lightning.LightningModule", "in-place"),
    ],
)
def test_what_to_does_agrees_with_the_row_of_the_method(cls: str, to: str) -> None:
    row = FACTS.cls(cls)
    assert row is not None and row["to"] == to
    method = FACTS.member(cls, "to")
    assert method is not None
    assert bool(method.get("inplace")) == (to == "in-place") and bool(method.get("copy")) == (to == "copy")


def test_members_of_classes_come_from_their_tables_kind_and_bases() -> None:
    assert FACTS.member("transformers.BertModel", "generate")["returns"] == "tensor"  # type: ignore[index]
    assert FACTS.member("lightning.LightningModule", "device")["returns"] == "device"  # type: ignore[index]
    assert FACTS.member("torch.nn.Linear", "parameters")["returns"] == "parameters"  # type: ignore[index]
    assert FACTS.member("torch.nn.Linear", "device") is None
    assert FACTS.member("torchmetrics.Accuracy", "half").get("inplace") is None  # type: ignore[union-attr]
    assert FACTS.method("parameter", "cuda") == FACTS.method("tensor", "cuda")
    assert FACTS.method("tensor", "no_such_method") is None
    assert FACTS.cls("transformers.AutoModel.from_pretrained") is None
    assert FACTS.constant("torch.float32") == "dtype"
    assert FACTS.constant("torch.zeros") is None


def test_patterns_know_dots() -> None:
    assert fits("a.*", "a.b") and not fits("a.*", "a.b.c")
    assert fits("a.**Model", "a.b.c.BertModel") and not fits("a.**Model", "b.Model")
    assert fits("a.[A-Z]*", "a.Bert") and not fits("a.[A-Z]*", "a.bert")
    assert not fits("a.b", "axb")


def test_users_rows_are_laid_over_ours_and_leave_ours_alone() -> None:
    assert FACTS.call("mylib.make") is None
    merged = FACTS.merge(
        {
            "call": {
                "mylib.make": {"returns": "tensor", "place": "host"},
                "mylib.load_*": {"returns": "module", "place": "host"},
            },
            "class": {"mylib.Batch": {"kind": "batch", "to": "copy"}},
            "method": {"tensor": {"frobnicate": {"returns": "tensor", "place": "self"}}},
            "aliases": {"mylib.core.make": "mylib.make"},
        }
    )
    assert merged.call("mylib.core.make") == {"returns": "tensor", "place": "host"}
    assert merged.call("mylib.load_big")["returns"] == "module"  # type: ignore[index]
    assert merged.cls("mylib.Batch")["to"] == "copy"  # type: ignore[index]
    assert merged.method("parameter", "frobnicate") is not None
    assert merged.call("torch.zeros") == FACTS.call("torch.zeros")
    assert FACTS.call("mylib.make") is None and FACTS.method("tensor", "frobnicate") is None


@pytest.mark.parametrize(
    ("extra", "near"),
    [
        ({"calls": {}}, "'call'"),
        ({"call": {"a.b": {"returns": "tensor", "place": "hots"}}}, "'host'"),
        ({"call": {"a.b": {"return": "tensor"}}}, "'returns'"),
        ({"call": {"a.b": {"returns": "tensr"}}}, "'tensor'"),
        ({"class": {"a.B": {"kind": "module", "call": {"place": "hosts"}}}}, "'host'"),
        ({"method": {"tensor": {"m": {"returns": "tensor", "place": "selv"}}}}, "'self'"),
    ],
)
def test_mistakes_in_users_rows_name_the_nearest_right_one(extra: dict[str, Any], near: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {near}"):
        FACTS.merge(extra)


@pytest.mark.parametrize("extra", [{"call": "x"}, {"call": {"a.b": "tensor"}}, {"method": {"tensor": {"m": 1}}}])
def test_rows_of_users_must_be_tables(extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be a table"):
        FACTS.merge(extra)


# ---------------------------------------------------------------- torch: what exists


def imported(name: str) -> Any:
    """The object of that qualified name as `import` would find it; None when a module of it cannot be imported."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        try:
            for part in parts[cut:]:
                value = getattr(value, part)
        except AttributeError:
            continue
        return value
    return None


def in_this_version(row: Row) -> bool:
    def numbers(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split(".")[:2])

    now = numbers(torch.__version__)
    return numbers(row.get("since", "0.0")) <= now < numbers(row.get("until", "999.0"))


@same_version
def test_names_of_torch_exist() -> None:
    missing = [
        name
        for name, row in [*FACTS.calls.items(), *FACTS.classes.items()]
        if name.startswith("torch.") and in_this_version(row) and imported(name) is None
    ]
    # SummaryWriter needs the package tensorboard.
    assert [name for name in missing if "tensorboard" not in name] == []


@same_version
def test_every_public_function_of_the_namespaces_has_a_row() -> None:
    script = build_api()
    for namespace in script.NAMESPACES:
        for name, _ in script.public_functions(imported(namespace)):
            assert FACTS.call(f"{namespace}.{name}") is not None, f"{namespace}.{name}"
    for namespace in ("torch.nn.init", "torch.nn.utils.rnn", "torch.signal.windows"):
        module = imported(namespace)
        for name in getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]):
            value = getattr(module, name)
            if callable(value) and getattr(value, "__module__", "").startswith(namespace):
                assert FACTS.call(f"{namespace}.{name}") is not None, f"{namespace}.{name}"


@same_version
def test_every_member_of_tensor_and_module_has_a_row() -> None:
    table = FACTS.methods["tensor"]
    assert sorted(name for name in dir(torch.Tensor) if not name.startswith("_") and name not in table) == []
    gone = [
        n for n, row in table.items() if in_this_version(row) and not row.get("plugin") and not hasattr(torch.Tensor, n)
    ]
    assert gone == []
    for name, row in table.items():
        if hasattr(torch.Tensor, name):
            assert bool(row.get("attribute")) != callable(getattr(torch.Tensor, name)), name
    module = torch.nn.Module()
    assert sorted(n for n in dir(module) if not n.startswith("_") and n not in FACTS.methods["module"]) == []


@same_version
def test_every_class_of_nn_optim_and_distributions_has_a_row() -> None:
    for home, base, kinds in [
        ("torch.nn", torch.nn.Module, {"module", "container"}),
        ("torch.optim", torch.optim.Optimizer, {"optimizer"}),
        ("torch.optim.lr_scheduler", torch.optim.lr_scheduler.LRScheduler, {"scheduler"}),
        ("torch.distributions", torch.distributions.Distribution, {"distribution"}),
        ("torch.utils.data", torch.utils.data.Dataset, {"dataset"}),
        ("torch.utils.data", torch.utils.data.Sampler, {"sampler"}),
    ]:
        module = imported(home)
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, type) and issubclass(value, base) and not name.startswith("_"):
                row = FACTS.cls(f"{home}.{name}")
                assert row is not None and row["kind"] in kinds, f"{home}.{name}"
                assert FACTS.cls(f"{value.__module__}.{value.__name__}") == row


@same_version
def test_device_constructors_are_factories() -> None:
    from torch.utils._device import _device_constructors

    known = {id(imported(name)): row for name, row in FACTS.calls.items() if name.startswith("torch.")}
    for constructor in _device_constructors():
        row = known[id(constructor)]
        assert row["returns"] == "tensor" and row["place"] in ("factory", "like"), constructor


def test_evidence_tells_modules_tensors_and_the_rest_apart() -> None:
    assert {
        "parameters",
        "named_parameters",
        "eval",
        "train",
        "state_dict",
        "load_state_dict",
        "zero_grad",
        "modules",
        "named_modules",
        "children",
        "register_buffer",
    } <= FACTS.only_module
    assert {"softmax", "matmul", "requires_grad", "new_zeros", "scatter_"} <= FACTS.only_tensor
    assert {"detach", "unsqueeze"} <= FACTS.tensor_like
    tensor, module = set(dir(torch.Tensor)), set(dir(torch.nn.Module()))
    assert FACTS.only_module.isdisjoint(tensor) and module >= FACTS.only_module
    packed = torch.nn.utils.rnn.PackedSequence
    for names in (FACTS.only_tensor, FACTS.tensor_like):
        if SAME_VERSION:
            assert tensor >= names
        for other in (torch.nn.Module, list, dict, tuple, set, str, bytes, torch.nn.Linear):
            assert names.isdisjoint(dir(other)), other
    assert FACTS.only_tensor.isdisjoint(dir(packed))
    assert FACTS.only_tensor.isdisjoint(FACTS.methods["graph_data"]) and FACTS.only_tensor.isdisjoint(
        FACTS.methods["batch"]
    )


def test_evidence_holds_against_the_installed_numpy() -> None:
    numpy = pytest.importorskip("numpy", reason="only the installed numpy can be asked")
    assert (FACTS.only_tensor | FACTS.tensor_like).isdisjoint(dir(numpy.ndarray))


# ---------------------------------------------------------------- torch: functions and methods, run


def candidates() -> list[tuple[Any, ...]]:
    """Argument lists of many shapes; a function is called with the first that it takes."""
    torch.manual_seed(0)
    x, y, z = (torch.rand(3, 3) + 0.1 for _ in range(3))
    spd = x @ x.T + torch.eye(3)
    v, w = torch.rand(3) + 0.1, torch.rand(3) + 0.1
    i, iv = torch.tensor([[0, 1, 2], [2, 1, 0], [1, 0, 2]]), torch.tensor([2, 0, 1])
    b, c, b3 = torch.tensor([[True, False, True]] * 3), torch.complex(x, y), torch.rand(2, 3, 3)
    q, k, s, sk = torch.rand(1, 3, 4, 4), torch.rand(3, 3, 2, 2), torch.rand(1, 3, 8), torch.rand(3, 3, 2)
    vol, volk, one, sign = torch.rand(1, 3, 4, 4, 4), torch.rand(3, 3, 2, 2, 2), torch.ones(3), torch.tensor([1, -1, 1])
    wave = torch.rand(64)
    one_tensor = [(x,), (spd,), (v,), (i,), (b,), (c,), (b3,), (q,), (s,), (vol,)]
    two = [
        (x, y),
        (v, w),
        (i, i),
        (b, b),
        (b3, b3),
        (x, v),
        (spd, y),
        (x, iv),
        (i, x),
        (v, iv),
        (iv, v),
        (x, i),
        (q, k),
        (s, sk),
        (vol, volk),
        (v, b[0]),
        (x, b),
        (c, c),
        (x, spd),
        (i, v),
        (s, s),
        (x.double(), y),
    ]
    numbers = [
        (x, 1),
        (x, 2),
        (x, (1, 1)),
        (q, 2),
        (s, 2),
        (vol, 2),
        (b3, (1, 2)),
        (q, (2, 2)),
        (vol, (2, 2, 2)),
        (i, 1),
        (x, 0.5),
        (x, [1]),
        (x, (3, 3)),
        (x, (9,)),
        (q, 3),
        (v, 3),
        (s, 2, 2),
        (q, 2, 2),
        (vol, 2, 2),
        (x, torch.float64),
        (i, 3),
        (1, x),
        (2, x),
        (0, i),
        (0.5, x),
        (x, 0, 1),
        (x, 1, 2),
        (x, 0, 1, 1),
        (x, (3, 3), (3, 1)),
        (x, -1, 1),
        (x, 0.1, 0.9),
        (x, 0, iv),
        (x, 0, i),
        (x, 0, (3, 1)),
        (x, 0, (1, 3)),
        (x, [0], [0]),
        (x, 1, (0, 1)),
        (x, 2, 0, 1),
        (x, -1, (3, 1)),
        (x, 0.5, True),
        (b3, (2, 0, 1)),
        (torch.rand(3, 2),),
    ]
    three = [
        (x, y, z),
        (v, w, v),
        (b3, b3, b3),
        (x, v, v),
        (v, x, v),
        (x, b3, b3),
        (b, x, y),
        (x, b, y),
        (x, b, v),
        (x, iv, v),
        (x, i, y),
        (x, b, 0.5),
        (x, y, 0.5),
        (b, x, 0.5),
        (x, sign, v),
        (x, y, v),
        (x, y, iv),
        (x, y, sign),
        (spd, y, z),
        (x, v, w),
        (q, v, w),
        (spd, iv.int() + 1, y),
    ]
    mixed = [
        (x, 0, iv, y),
        (x, 0, i, y),
        (x, 0, iv, 1.0),
        (x, 0, i, 1.0),
        (x, 0, iv, y, "mean"),
        (x, 0, i, y, "mean"),
        (x, (iv,), y),
        (x, (iv, iv), v),
        (x, v, 0),
        (x, v, 0, 1),
        (x, y, 0, 0),
        (x, y, 0, 0, 1),
        (x, (0,), (2,)),
        ([x, y],),
        ([v, w],),
        ([x, y], 0),
        ((x, y), 1),
        ([b3, b3],),
        (q, [0, 1]),
        (q, 2, 1),
        (q, 1),
        (x, 4),
        (x, [1, 2]),
        (q, v, w, v, w),
        (q, 3, v, w),
        (x, (3,), v, w),
        (q, torch.rand(1, 4, 4, 2)),
        (torch.rand(1, 2, 3), (1, 1, 4, 4)),
        (torch.rand(1, 12, 4), (4, 4), 2),
        (q, None, None),
        (b3.log(), torch.ones(3, 3, dtype=torch.long), one.long() * 2, one.long() * 2),
        (q, q, q),
        (b3, b3[0], v),
        (x, y, b3),
        (q, 2, 3, 0.1),
        (v, 2.0, 1),
        (x, [[0, 1]]),
        (i.to(torch.uint8),),
        (iv, iv),
        (v, v, v, v),
        (x, x, v, v, v),
        (q, v, w, v, w, True, 0.1, 1e-5, False),
        (wave, 16),
        (x, y, (3, 3), (3, 1)),
        (x.to_sparse(),),
        (x.to_sparse_csr(),),
        (spd.triu(), y, True),
        (x.to_sparse(), y),
    ]
    return [*one_tensor, *two, *numbers, *three, *mixed]


def tensors_in(value: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def kind_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if value is None:
        return "none"
    if isinstance(value, torch.dtype):
        return "dtype"
    return "tensors" if isinstance(value, (tuple, list)) and tensors_in(value) else "number"


Case = tuple[str, Callable[..., Any], Row, tuple[Any, ...]]


@cache
def runnable() -> tuple[list[Case], list[str]]:
    """The rows whose function takes one of the candidates, with it; and the names of the others."""
    rows: list[tuple[str, Callable[..., Any], Row]] = []
    for name, row in FACTS.calls.items():
        if name.rpartition(".")[0] in build_api().NAMESPACES and row["place"] in ("operands", "first"):
            rows.append((name, imported(name), row))
    for name, row in FACTS.methods["tensor"].items():
        plain = not name.startswith("__") and not row.get("attribute") and hasattr(torch.Tensor, name)
        if plain and row["place"] in ("operands", "self"):
            rows.append((f"Tensor.{name}", getattr(torch.Tensor, name), row))
    found, without = [], []
    every = candidates()
    for name, function, row in rows:
        if row["returns"] not in ("tensor", "tensors", "number", "dtype"):
            continue
        for arguments in every:
            try:
                function(*copied(arguments))
            except Exception:
                continue
            found.append((name, function, row, arguments))
            break
        else:
            without.append(name)
    return found, without


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    copies: tuple[Any, ...] = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, arguments)
    return copies


@same_version
def test_nine_of_ten_rows_can_be_run() -> None:
    found, without = runnable()
    assert len(found) >= 1150
    assert len(found) >= 0.9 * (len(found) + len(without)), without


@same_version
def test_kinds_of_results() -> None:
    wrong = []
    for name, function, row, arguments in runnable()[0]:
        got = kind_of(function(*copied(arguments)))
        expected = row["returns"]
        if row.get("tensors_if_alone") and len(arguments) == 1:
            expected = "tensors"
        if got != expected:
            wrong.append((name, got, expected))
    assert wrong == []


@same_version
def test_in_place_rows_return_their_receiver_and_the_others_do_not_change_it() -> None:
    wrong = []
    for name, function, row, arguments in runnable()[0]:
        given = copied(arguments)
        before = tensors_in(copied(arguments))
        result = function(*given)
        if row.get("inplace"):
            if result is not given[0]:
                wrong.append(name)
        elif any(not same(old, new) for old, new in zip(before, tensors_in(given), strict=True)):
            wrong.append(name)
    # batch_norm updates the statistics that it is given, module_load copies into its receiver, resize changes it.
    known = {
        "Tensor.module_load",
        "torch.batch_norm",
        "torch.nn.functional.batch_norm",
        "torch.instance_norm",
        "Tensor.resize",
        "Tensor.resize_as",
    }
    assert [name for name in wrong if name not in known] == []


def same(old: Any, new: Any) -> bool:
    if old.is_sparse or old.layout != torch.strided:
        return True
    return old.shape == new.shape and bool(torch.equal(torch.nan_to_num(old), torch.nan_to_num(new)))


@same_version
def test_what_shares_memory_is_marked_as_a_view() -> None:
    unmarked = []
    for name, function, row, arguments in runnable()[0]:
        if row.get("inplace"):
            continue
        given = copied(arguments)
        if any(tensor.layout != torch.strided for tensor in tensors_in(given)):
            continue
        mine = {tensor.untyped_storage().data_ptr() for tensor in tensors_in(given)}
        made = [t for t in tensors_in(function(*given)) if t.layout == torch.strided and t.numel()]
        if any(t.untyped_storage().data_ptr() in mine for t in made) and not row.get("view"):
            unmarked.append(name)
    assert unmarked == []


@same_version
def test_what_has_no_dimension() -> None:
    matrix = torch.rand(3, 3) + 0.1
    tried = 0
    for name, function, row, arguments in runnable()[0]:
        if row.get("dims_alone") == 0:
            assert function(matrix).dim() == 0, name
            tried += 1
        if row.get("dims") == 0 and not (set(row.get("dims_unless", ())) and "reduction" in str(arguments)):
            assert function(*copied(arguments)).dim() == 0, name
            tried += 1
    assert tried > 50


# ---------------------------------------------------------------- torch: places, on tensors that claim an accelerator


ACCELERATOR = "cuda:0"


def placed(arguments: tuple[Any, ...], mode: Any, host: int | None = None, *, scalar: bool = False) -> tuple[Any, ...]:
    """The arguments as fake tensors on an accelerator, but for the one numbered `host`; with `scalar` that is 0-dim."""
    count = itertools.count()

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if next(count) == host:
            leaf = leaf.flatten()[0].clone() if scalar else leaf.clone()
            return mode.from_tensor(leaf)
        return FakeTensor(mode, leaf.to("meta"), torch.device(ACCELERATOR))

    moved: tuple[Any, ...] = tree_map(move, arguments)
    return moved


@cache
def simulated() -> tuple[dict[str, list[str]], dict[tuple[str, int], str | None], dict[tuple[str, int], str | None]]:
    """For each row that runs: devices of its results, error with one operand on the host, with one host scalar."""
    import logging

    logging.getLogger("torch._subclasses.fake_tensor").disabled = True
    devices: dict[str, list[str]] = {}
    mixed: dict[tuple[str, int], str | None] = {}
    scalar: dict[tuple[str, int], str | None] = {}
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def attempt(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, str | None]:
        try:
            with mode:
                return function(*arguments), None
        except Exception as error:
            return None, str(error) or type(error).__name__

    for name, function, _, arguments in runnable()[0]:
        if any(tensor.layout != torch.strided for tensor in tensors_in(arguments)):
            continue
        result, error = attempt(function, placed(arguments, mode))
        if error is not None:
            continue
        devices[name] = [str(tensor.device) for tensor in tensors_in(result)]
        several = len(tensors_in(arguments))
        for host in range(several if several > 1 else 0):
            mixed[name, host] = attempt(function, placed(arguments, mode, host))[1]
            scalar[name, host] = attempt(function, placed(arguments, mode, host, scalar=True))[1]
    return devices, mixed, scalar


@same_version
def test_results_are_where_the_operands_are() -> None:
    devices = simulated()[0]
    assert len(devices) >= 1080
    assert {name: at for name, at in devices.items() if set(at) - {ACCELERATOR}} == {}


# The simulation does not look at devices here; the real kernels do (their error names the types of input and weight).
LENIENT = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"


@same_version
def test_operands_on_two_devices_raise_unless_one_is_free() -> None:
    rows = {name: row for name, _, row, _ in runnable()[0]}
    free = {name for name, row in rows.items() if row.get("free")}
    lenient = {f"{home}.{name}" for home in ("torch", "torch.nn.functional") for name in LENIENT.split()}
    mixed = simulated()[1]
    silent = {name for (name, _), error in mixed.items() if error is None}
    assert silent - free - lenient == set()
    assert sum(error is not None for error in mixed.values()) > 500
    assert {"torch.add", "torch.matmul", "Tensor.where", "torch.cat", "Tensor.mul_"} <= {
        name for name, _ in mixed
    } - silent


@same_version
def test_scalars_on_the_host_are_refused_only_where_a_row_says_so() -> None:
    rows = {name: row for name, _, row, _ in runnable()[0]}
    refused = {
        name
        for (name, host), error in simulated()[2].items()
        if error is not None
        and "device" in error
        and rows[name].get("scalar_ok", True)
        # the receiver of an operation in place, and its like, is no operand
        and not (rows[name].get("inplace") and host == 0)
        and not rows[name].get("free")
    }
    assert refused == set()
    taken = {name for (name, _), error in simulated()[2].items() if error is None and rows[name].get("scalar_ok", True)}
    assert {"torch.add", "torch.mul", "Tensor.where", "torch.maximum", "Tensor.add_", "torch.lerp"} <= taken


@same_version
def test_stack_and_cat_take_no_host_scalar() -> None:
    for name in ("stack", "cat", "hstack", "vstack"):
        assert FACTS.call(f"torch.{name}")["scalar_ok"] is False  # type: ignore[index]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    device = FakeTensor(mode, torch.ones((), device="meta"), torch.device(ACCELERATOR))
    host = mode.from_tensor(torch.zeros(()))
    # The simulation takes stack's operands as they are; hstack and vstack end in the same cat.
    for name in ("hstack", "vstack", "column_stack"):
        with mode, pytest.raises(Exception):  # noqa: B017  (which error depends on the build)
            getattr(torch, name)([device, host])
    with mode:
        assert str((device + host).device) == ACCELERATOR


# ---------------------------------------------------------------- torch: factories, transfers, attributes


SIZES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((3,), {}),
    ((3, 4), {}),
    (((2, 2),), {}),
    ((0, 5), {}),
    ((0, 5, 3), {}),
    (((2, 2), 1.0), {}),
    ((1.0,), {}),
    ((5, (2, 2)), {}),
    ((3, 3, 0), {}),
    (((2, 2), (2, 1)), {}),
    (((2, 2), (0, 1)), {}),
    (([1.0, 2.0],), {}),
    (((2, 2), 0.5, 0.5), {}),
    ((1.0, 1.0, (2, 2)), {}),
    ((4,), {"a": [0.5, 0.5]}),
    ((4, [0.5, 0.5]), {}),
    (([[1.0], [2.0]],), {}),
    (([torch.ones(2)],), {}),
    (([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)), {}),
    (([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), {}),
    (([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), {"layout": torch.sparse_csr}),
    (([0, 1], [0], [[[1.0]]], (1, 1)), {}),
    (((2, 2),), {"dtype": torch.qint8}),
]


def made(function: Callable[..., Any], **keywords: Any) -> Any:
    for arguments, more in SIZES:
        try:
            return function(*arguments, **more, **keywords)
        except Exception:
            continue
    return None


def factory_rows() -> dict[str, Row]:
    rows = {name: row for name, row in FACTS.calls.items() if name.startswith("torch.")}
    return {name: row for name, row in rows.items() if row["place"] == "factory" and row["returns"] == "tensor"}


@same_version
def test_factories_follow_device_and_default_device() -> None:
    rows = factory_rows()
    skipped = []
    for name in rows:
        function = imported(name)
        result = made(function)
        if result is None:
            skipped.append(name)
            continue
        assert result.device.type == "cpu", name
        if name == "torch.nested.nested_tensor":
            continue
        assert made(function, device="meta").device.type == "meta", name
        with torch.device("meta"):
            assert made(function).device.type == ("cpu" if rows[name].get("legacy") else "meta"), name
            assert made(function, device="cpu").device.type == "cpu", name
    assert len(rows) >= 35
    assert skipped == ["torch.empty_quantized"]


@same_version
def test_random_factories_draw_and_the_others_do_not() -> None:
    for name, row in factory_rows().items():
        if "empty" not in name and "nested" not in name:
            function = imported(name)
            draws = [made(lambda *a, f=function, **k: f(*(40 if x == 3 else x for x in a), **k)) for _ in range(2)]
            assert bool(row.get("random")) != torch.equal(*draws), name


@same_version
def test_like_rows_follow_their_tensor_and_device() -> None:
    meta = torch.ones(3, 3, device="meta")
    more: list[tuple[Any, ...]] = [(), (1.0,), (5,), ((2, 2),), ((2, 2), 1.0), ((2, 2), (2, 1)), ([1.0],), (meta,)]

    def first(function: Callable[..., Any], start: Any, **keywords: Any) -> Any:
        for rest in more:
            try:
                return function(start, *rest, **keywords)
            except Exception:
                continue
        return None

    tried = []
    for name, row in FACTS.calls.items():
        if name.startswith("torch.") and row["place"] == "like" and row["returns"] == "tensor" and "like" not in row:
            result = first(imported(name), meta)
            if result is not None:
                assert result.device.type == "meta", name
                tried.append(name)
    for name, row in FACTS.methods["tensor"].items():
        if row["place"] == "like":
            assert first(getattr(torch.Tensor, name), meta).device.type == "meta", name
            tried.append(name)
    wanted = {
        "torch.zeros_like",
        "torch.rand_like",
        "torch.full_like",
        "torch.randint_like",
        "torch.as_tensor",
        "torch.asarray",
    }
    assert wanted <= set(tried) and len(tried) >= 16
    assert torch.zeros_like(meta, device="cpu").device.type == "cpu"
    assert torch.tensor(torch.ones(2)).device.type == "cpu" and torch.as_tensor([1.0]).device.type == "cpu"


@same_version
def test_sparse_factories_follow_their_values() -> None:
    assert FACTS.call("torch.sparse_coo_tensor")["at"] == {"values": 1}  # type: ignore[index]
    values = torch.ones(2, device="meta")
    indices = torch.zeros(2, 2, dtype=torch.long, device="meta")
    assert torch.sparse_coo_tensor(indices, values, (2, 2)).device.type == "meta"
    crow = torch.tensor([0, 1, 2], device="meta")
    assert torch.sparse_csr_tensor(crow, torch.tensor([0, 1], device="meta"), values, (2, 2)).device.type == "meta"
    assert FACTS.call("torch.sparse_csr_tensor")["at"] == {"values": 2}  # type: ignore[index]
    assert torch.sparse.FloatTensor(indices, values, torch.Size([2, 2])).device.type == "meta"
    assert FACTS.call("torch.sparse.FloatTensor")["at"] == {"values": 1}  # type: ignore[index]


@same_version
def test_legacy_constructors_stay_on_the_host() -> None:
    names = [
        n
        for n, r in FACTS.calls.items()
        if r.get("legacy") and r["place"] == "host" and not n.startswith("torch.sparse.")
    ]
    assert len(names) == 11
    for name in names:
        if imported(name) is None:
            continue
        with torch.device("meta"):
            assert imported(name)(2).device.type == "cpu", name
        with pytest.raises((RuntimeError, TypeError)):
            imported(name)([1], device="meta")


@same_version
def test_host_rows_are_on_the_host() -> None:
    import numpy

    with torch.device("meta"):
        assert torch.from_numpy(numpy.ones(2)).device.type == "cpu"
        assert torch.frombuffer(bytearray(8), dtype=torch.float32).device.type == "cpu"
        assert torch.get_rng_state().device.type == "cpu"
        assert torch.manual_seed(0).device.type == "cpu"


@same_version
def test_transfers_copy_and_modules_move_in_place() -> None:
    tensor = torch.ones(2)
    for name, row in FACTS.methods["tensor"].items():
        if row.get("copy") and row["place"] == "self":
            other = tensor if name != "float" else tensor.double()
            result = getattr(other, name)()
            assert result is not other and result.device == other.device and result.dtype != other.dtype, name
            assert row.get("dtype"), name
    moved = tensor.to("meta")
    assert moved is not tensor and tensor.device.type == "cpu" and moved.device.type == "meta"
    assert tensor.type_as(moved).device.type == "meta"
    for name in ("to", "type_as", "cuda"):
        transfer = FACTS.method("tensor", name)
        assert transfer is not None and transfer["copy"] and "inplace" not in transfer
    for name, row in FACTS.methods["module"].items():
        if row.get("inplace") and row["place"] in ("self", "host"):
            module = torch.nn.Linear(2, 2)
            arguments = {"type": (torch.float64,), "apply": (lambda m: None,), "_apply": (lambda t: t,)}.get(name, ())
            assert getattr(module, name)(*arguments) is module, name
    module = torch.nn.Linear(2, 2)
    assert module.to("meta") is module and module.weight.device.type == "meta"
    assert module.to_empty(device="cpu") is module and module.weight.device.type == "cpu"


@same_version
def test_attributes_of_tensors_and_modules() -> None:
    tensor = torch.rand(3, 3, device="meta", requires_grad=True)
    for name, row in FACTS.methods["tensor"].items():
        if not row.get("attribute") or not in_this_version(row):
            continue
        try:
            value = getattr(torch.view_as_complex(torch.ones(3, 2, device="meta")) if name == "imag" else tensor, name)
        except (RuntimeError, AttributeError):
            continue
        if row["returns"] == "tensor":
            assert value is None or value.device.type == "meta", name
        elif row["returns"] == "device":
            assert value == torch.device("meta")
        elif row["returns"] == "number":
            assert not isinstance(value, torch.Tensor), name
    module = torch.nn.Linear(2, 2, device="meta")
    assert all(p.device.type == "meta" for p in module.parameters())
    assert [type(e) for e in next(module.named_parameters())] == [str, torch.nn.Parameter]
    assert next(module.modules()) is module


@same_version
def test_what_needs_the_host_raises_elsewhere() -> None:
    tensor = torch.ones(2, device="meta")
    for name, row in FACTS.methods["tensor"].items():
        if row.get("needs_host"):
            # apply_ and its like do nothing at all on a tensor without memory; on an accelerator they raise.
            if name in ("apply_", "map_", "map2_"):
                continue
            with pytest.raises((TypeError, RuntimeError, NotImplementedError)):
                getattr(tensor, name)()


@same_version
@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")
def test_what_needs_an_accelerator_raises_without_one() -> None:
    given: dict[str, tuple[Any, ...]] = {
        "set_device": (0,),
        "device": (0,),
        "device_of": (torch.ones(1),),
        "manual_seed": (0,),
        "manual_seed_all": (0,),
        "set_per_process_memory_fraction": (0.5,),
        "set_rng_state": (torch.get_rng_state(),),
        "get_device_properties": (0,),
        "set_rng_state_all": ([torch.get_rng_state()],),
        "can_device_access_peer": (0, 0),
        "set_stream": (None,),
        "set_sync_debug_mode": (0,),
        "stream": (None,),
        "get_stream_from_external": (1, 0),
        "check_error": (0,),
        "caching_allocator_delete": (0,),
        "caching_allocator_alloc": (8,),
        "ExternalStream": (1,),
    }
    # These need arguments that only CUDA can make, or a package.
    untried = {
        "make_graphed_callables",
        "StreamContext",
        "graph",
        "use_mem_pool",
        "change_current_allocator",
        "clock_rate",
        "utilization",
        "device_memory_used",
        "memory_usage",
        "power_draw",
        "temperature",
        "list_gpu_processes",
    }
    raised, fine = set(), set()
    rows = {**FACTS.calls, **FACTS.classes}
    for name in rows:
        home, _, short = name.rpartition(".")
        if home != "torch.cuda" or short in untried:
            continue
        try:
            result = getattr(torch.cuda, short)(*given.get(short, ()))
            if hasattr(result, "__enter__"):
                with result:
                    pass
            fine.add(name)
        except Exception:
            raised.add(name)
    marked = {name for name in rows if rows[name].get("needs_accelerator") and name.startswith("torch.cuda.")}
    assert marked == raised
    assert {
        "torch.cuda.is_available",
        "torch.cuda.device_count",
        "torch.cuda.empty_cache",
        "torch.cuda.manual_seed",
    } <= fine


# ---------------------------------------------------------------- torch: classes


@same_version
def test_modules_move_in_place_and_have_the_state_that_their_row_says() -> None:
    tried = 0
    for name, cls in build_api().nn_classes():
        row = FACTS.cls(f"torch.nn.{name}")
        assert row is not None and row["to"] == "in-place"
        module = next(build_api().instances(cls), None)
        if module is None:
            continue
        tried += 1
        state = [*module.parameters(), *module.buffers()]
        if row["state"] is True and row["kind"] == "module":
            assert state, name
        elif row["state"] is False or isinstance(row["state"], list):
            assert not state, name
        assert module.to("meta") is module, name
        assert all(tensor.device.type == "meta" for tensor in [*module.parameters(), *module.buffers()])
    assert tried >= 130


def test_losses_with_weights_have_state_and_the_others_not() -> None:
    for name, parameters in {
        "CrossEntropyLoss": ["weight"],
        "NLLLoss": ["weight"],
        "BCELoss": ["weight"],
        "BCEWithLogitsLoss": ["pos_weight", "weight"],
        "MultiMarginLoss": ["weight"],
        "BatchNorm2d": True,
        "Linear": True,
        "LSTM": True,
        "Embedding": True,
        "ReLU": False,
        "MSELoss": False,
        "Dropout": False,
        "Flatten": False,
        "LayerNorm": True,
        "PReLU": True,
        "Softmax": False,
        "Sequential": "children",
        "ModuleList": "children",
        "ParameterList": True,
    }.items():
        assert FACTS.cls(f"torch.nn.{name}")["state"] == parameters, name  # type: ignore[index]
    instance_norm = FACTS.cls("torch.nn.InstanceNorm2d")
    assert instance_norm is not None and instance_norm["state"] == ["affine", "track_running_stats"]


@same_version
def test_what_modules_give() -> None:
    inputs = [
        candidate
        for candidate in candidates()
        if all(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(candidate))
    ]
    tried, wrong = 0, []
    for name, cls in build_api().nn_classes():
        row = FACTS.cls(f"torch.nn.{name}")
        assert row is not None
        if row.get("gives") not in ("tensor", "tensors"):
            continue
        for module, arguments in itertools.product(itertools.islice(build_api().instances(cls), 3), inputs):
            try:
                result = module(*copied(arguments))
            except Exception:
                continue
            tried += 1
            if kind_of(result) != row["gives"] or (row.get("gives_dims") == 0 and result.dim() != 0):
                wrong.append((name, kind_of(result), row["gives"]))
            break
    assert wrong == []
    assert tried >= 100


@same_version
def test_modules_are_made_on_the_default_device() -> None:
    tried = 0
    for name, cls in build_api().nn_classes():
        row = FACTS.cls(f"torch.nn.{name}")
        assert row is not None
        if row.get("call", {}).get("place") != "factory":
            continue
        with torch.device("meta"):
            module = next(build_api().instances(cls), None)
        if module is not None and row["state"] is True:
            tried += 1
            assert all(tensor.device.type == "meta" for tensor in module.parameters()), name
    assert tried >= 30


def test_the_optimizers_that_allocate_at_once() -> None:
    eager = {name for name, row in FACTS.classes.items() if row.get("eager_state")}
    assert eager == {"torch.optim.Adagrad"}
    for name in ("SGD", "Adam", "Adagrad"):
        made_now = getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(2))]).state
        assert bool(made_now) == (name == "Adagrad")


@same_version
def test_lengths_must_be_on_the_host_and_come_back_there() -> None:
    row = FACTS.call("torch.nn.utils.rnn.pack_padded_sequence")
    assert row is not None and row["strict"] == ["lengths"] and row["at"] == {"lengths": 1}
    padded, lengths = torch.rand(3, 2, 4), torch.tensor([3, 2])
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.nn.utils.rnn.pack_padded_sequence(padded, lengths.to("meta"))
    packed = torch.nn.utils.rnn.pack_padded_sequence(padded, lengths)
    assert type(packed).__name__ == "PackedSequence" and packed.to("meta") is not packed
    assert packed.to("meta").batch_sizes.device.type == "cpu" and packed.to("meta").data.device.type == "meta"
    assert FACTS.method("packed", "batch_sizes")["place"] == "host"  # type: ignore[index]
    assert FACTS.call("torch.nn.utils.rnn.pad_packed_sequence")["host_items"] == [1]  # type: ignore[index]


def test_positions_of_parameters_are_those_of_the_signatures() -> None:
    import inspect

    tried = 0
    for name, row in FACTS.calls.items():
        if not name.startswith("torch.") or not in_this_version(row):
            continue
        function = imported(name)
        if not inspect.isfunction(function):
            continue
        names = list(inspect.signature(function).parameters)
        if names[:1] == ["args"] or "args" in names:
            continue
        for parameter, at in row.get("at", {}).items():
            if parameter in names:
                assert names.index(parameter) == at, (name, parameter)
                tried += 1
        if "device_position" in row and row["device_param"] in names:
            assert names.index(row["device_param"]) == row["device_position"], name
            tried += 1
    assert tried >= 40
