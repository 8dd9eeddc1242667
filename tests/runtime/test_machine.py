"""The machine itself: what it answers, that it nests, and that it leaves nothing behind."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from devlint.runtime import TorchMissing, simulate
from devlint.runtime.devices import describe, real_devices

ROOT = Path(__file__).parents[2]
HERE = torch.cuda.is_available()  # a machine with real devices: some answers outside the block are then its own


def snapshot() -> dict[str, Any]:
    """What the modules of torch hold, by identity."""
    owners = [torch, torch.cuda, torch.xpu, torch.mps, torch.accelerator, torch._C, torch._C._nn, torch.serialization]
    owners += [torch._utils, torch.UntypedStorage, torch.Tensor, torch.nn.Parameter, torch.autograd.Function, torch.jit]
    owners += [torch.nn.parallel.comm, torch.nn.parallel._functions.Gather, torch.backends.mps]
    owners += [torch.distributed, torch.distributed.distributed_c10d]
    return {f"{owner.__name__}.{name}": value for owner in owners for name, value in vars(owner).items()}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before.keys() | after.keys() if before.get(name) is not after.get(name)]


def test_it_answers_for_its_devices() -> None:
    with simulate(devices=3):
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == torch.accelerator.device_count() == 3
        assert torch.cuda.current_device() == 0
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        properties = torch.cuda.get_device_properties(2)
        assert properties.total_memory > 2**30
        assert "imulated" in properties.name
        assert torch.cuda.get_device_name(2) == properties.name
        torch.cuda.set_device(2)
        assert torch.cuda.current_device() == 2
        assert str(torch.zeros(1, device="cuda").device) == "cuda:2"
        with torch.cuda.device(1):
            assert str(torch.zeros(1).cuda().device) == "cuda:1"
        assert torch.cuda.current_device() == 2
        assert torch.device(1) == torch.device("cuda:1")
        assert isinstance(torch.zeros(1).device, torch.device)


def test_memory_is_that_of_the_tensors() -> None:
    with simulate(devices=2):
        held = torch.zeros(256, device="cuda:1")
        view = held[:3]
        assert torch.cuda.memory_allocated(1) == 1024
        assert torch.cuda.memory_allocated(0) == 0
        del held, view
        assert torch.cuda.memory_allocated(1) == 0
        assert torch.cuda.max_memory_allocated(1) == 1024


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mps"])
def test_each_kind_answers_for_itself(kind: str) -> None:
    with simulate(kind=kind):
        tensor = torch.ones(2, device=kind)
        assert str(tensor.device) == f"{kind}:0"
        assert [tensor.is_cuda, tensor.is_xpu, tensor.is_mps] == [kind == name for name in ("cuda", "xpu", "mps")]
        assert str(torch.accelerator.current_accelerator()) == kind
        assert torch.backends.mps.is_available() is (kind == "mps")
        assert torch.accelerator.device_count() == (1 if kind == "mps" else 2)
        layer = nn.Linear(2, 1).to(kind)
        layer(tensor).backward()
        assert str(layer.weight.grad.device) == f"{kind}:0"  # type: ignore[union-attr]
        with pytest.raises(RuntimeError, match=f"found at least two devices, {kind}:0 and cpu!"):
            tensor + torch.ones(2)


@pytest.mark.parametrize(
    "code",
    [
        "torch.zeros(2, dtype=torch.float64, device='mps')",
        "torch.zeros(2, dtype=torch.float64).to('mps')",
        "torch.zeros(2, device='mps').double()",
        "torch.zeros(2, device='mps').to(torch.float64)",
        "torch.nn.Linear(2, 2).double().to('mps')",
    ],
)
def test_mps_has_no_float64(code: str) -> None:
    with simulate(kind="mps"), pytest.raises(TypeError, match="the MPS framework doesn't support float64"):
        eval(code)


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        simulate(kind="gpu")
    with pytest.raises(ValueError, match="cannot have -1"):
        simulate(devices=-1)
    with pytest.raises(ValueError, match="cannot have 2 mps"):
        simulate(devices=2, kind="mps")


def test_a_machine_without_devices() -> None:
    with simulate(devices=0):
        assert not torch.cuda.is_available()
        with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
            torch.zeros(1).cuda()


def test_everything_is_restored_also_after_an_exception() -> None:
    with simulate():
        pass  # what torch imports at the first use of something is there now
    before, default = snapshot(), torch.get_default_device()
    with pytest.raises(ZeroDivisionError), simulate(devices=2):
        torch.set_default_device("cuda:1")
        layer = nn.Linear(2, 2)
        assert str(layer.weight.device) == "cuda:1"
        1 / 0  # noqa: B018
    assert differences(before, snapshot()) == []
    assert torch.get_default_device() == default
    assert torch.overrides._len_torch_function_stack() == 0  # type: ignore[attr-defined]
    assert str(layer.weight.device) == "cpu"
    assert not layer.weight.__dict__
    layer(torch.ones(1, 2))


def test_set_default_tensor_type_is_undone() -> None:
    with simulate():
        torch.set_default_tensor_type("torch.cuda.DoubleTensor")
        assert (str(torch.zeros(1).device), torch.zeros(1).dtype) == ("cuda:0", torch.float64)
    assert (str(torch.zeros(1).device), torch.zeros(1).dtype) == ("cpu", torch.float32)


def test_a_default_device_taken_back_leaves_nothing() -> None:
    default = torch.get_default_device()
    with simulate():
        torch.set_default_device("cuda")
        torch.set_default_device(None)
    assert torch.get_default_device() == default


def test_a_second_use_starts_clean() -> None:
    simulation = simulate(devices=2)
    with simulation:
        torch.cuda.set_device(1)
        old = torch.ones(2, device="cuda:1")
        first = torch.rand(2, device="cuda:0")
    with simulation:
        assert torch.cuda.current_device() == 0
        assert str(old.device) == "cpu"
        assert torch.cuda.memory_allocated(1) == 0
        torch.manual_seed(torch.initial_seed())
        assert torch.equal(torch.rand(2, device="cuda:0").cpu(), first)


def test_it_nests() -> None:
    with simulate(devices=2):
        outer = torch.ones(1, device="cuda:1")
        with simulate(devices=1, kind="xpu"):
            assert torch.xpu.is_available() and not torch.cuda.is_available()
            inner = torch.ones(1, device="xpu")
            assert (str(inner.device), str(outer.device)) == ("xpu:0", "cpu")
        assert (str(inner.device), str(outer.device)) == ("cpu", "cuda:1")
        assert torch.cuda.is_available() and not torch.xpu.is_available()


def test_an_open_simulation_cannot_be_entered_again() -> None:
    simulation = simulate()
    with simulation, pytest.raises(RuntimeError, match="open already"), simulation:
        pass


def test_checkpoints_on_a_machine_with_fewer_devices() -> None:
    """torch/serialization.py, _validate_device."""
    buffer = io.BytesIO()
    with simulate(devices=2):
        torch.save({"w": torch.ones(2, device="cuda:1"), "b": torch.ones(2)}, buffer)

    def load(**how: Any) -> dict[str, torch.Tensor]:
        buffer.seek(0)
        state: dict[str, torch.Tensor] = torch.load(buffer, **how)
        return state

    with simulate(devices=2):
        assert {key: str(value.device) for key, value in load().items()} == {"w": "cuda:1", "b": "cpu"}
    with simulate(devices=1):
        text = "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count\\(\\) is 1"
        with pytest.raises(RuntimeError, match=text):
            load()
        assert str(load(map_location="cuda:0")["w"].device) == "cuda:0"
    with simulate(devices=0):
        with pytest.raises(RuntimeError, match=r"torch.cuda.is_available\(\) is False"):
            load()
        assert str(load(map_location="cpu")["w"].device) == "cpu"
    if not HERE:
        with pytest.raises(RuntimeError, match=r"torch.cuda.is_available\(\) is False"):
            load()
    assert torch.equal(load(map_location="cpu")["w"], torch.ones(2))


def test_what_is_saved_after_the_block_carries_no_mark() -> None:
    with simulate():
        layer = nn.Linear(2, 2).cuda()
    plain, marked = io.BytesIO(), io.BytesIO()
    torch.save(layer.state_dict(), marked)
    torch.save(nn.Linear(2, 2).state_dict(), plain)
    assert len(plain.getvalue()) == len(marked.getvalue())
    marked.seek(0)
    assert str(torch.load(marked)["weight"].device) == "cpu"


def test_seeds_reach_every_device() -> None:
    with simulate(devices=2):
        torch.manual_seed(5)
        first = [torch.rand(3, device=place).cpu() for place in ("cpu", "cuda:0", "cuda:1")]
        torch.manual_seed(5)
        for place, value in zip(("cuda:1", "cpu", "cuda:0"), (first[2], first[0], first[1]), strict=True):
            assert torch.equal(torch.rand(3, device=place).cpu(), value)
        state = torch.cuda.get_rng_state(1)
        draw = torch.rand(3, device="cuda:1")
        torch.cuda.set_rng_state(state, 1)
        assert torch.equal(torch.rand(3, device="cuda:1"), draw)


def test_draws_of_layers_come_from_the_device() -> None:
    with simulate():
        torch.manual_seed(1)
        host = torch.get_rng_state()
        x = torch.ones(64, device="cuda")
        nn.functional.dropout(x)
        nn.Linear(4, 4, device="cuda")
        x.normal_()
        nn.functional.gumbel_softmax(x)
        assert torch.equal(torch.get_rng_state(), host)


def test_custom_functions_and_hooks_keep_places() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x * 2)
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (saved,) = ctx.saved_tensors
            return grads[0] * saved + torch.zeros_like(grads[0])

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    with simulate(devices=2):
        x = torch.full((3,), 2.0, device="cuda:1", requires_grad=True)
        for backward in (torch.Tensor.backward, lambda loss: torch.autograd.backward(loss)):
            x.grad = None
            y = Same.apply(Double.apply(x * 1))  # type: ignore[no-untyped-call]
            assert str(y.device) == "cuda:1"
            backward(y.sum())
            assert str(x.grad.device) == "cuda:1"  # type: ignore[attr-defined]
            assert x.grad.tolist() == [4.0, 4.0, 4.0]  # type: ignore[attr-defined]


def test_checkpointed_layers_draw_the_same_again() -> None:
    from torch.utils.checkpoint import checkpoint

    with simulate():
        layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()
        for reentrant in (True, False):
            x = torch.ones(8, 4, device="cuda", requires_grad=True)
            checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
            assert str(x.grad.device) == "cuda:0"  # type: ignore[union-attr]


def test_torch_func_keeps_places() -> None:
    with simulate():
        x = torch.arange(3.0, device="cuda")
        assert str(torch.func.vmap(lambda row: row * 2)(x).device) == "cuda:0"
        grad = torch.func.grad(lambda value: (value**2).sum())(x)
        assert (str(grad.device), grad.tolist()) == ("cuda:0", [0.0, 2.0, 4.0])


def test_compiled_and_scripted_functions_are_seen() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with simulate():
        for function in (torch.compile(double), torch.compile(fullgraph=True)(double), torch.jit.script(double)):
            assert str(function(torch.ones(2, device="cuda")).device) == "cuda:0"
        layer = nn.Linear(2, 2).cuda()
        layer.compile()
        assert torch.compile(layer) is layer
        with pytest.raises(RuntimeError, match="wrapper_CUDA_addmm"):
            layer(torch.ones(1, 2))


def test_amp_with_a_scaler() -> None:
    with simulate():
        layer = nn.Linear(4, 2).cuda()
        optimizer, scaler = torch.optim.Adam(layer.parameters()), torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = layer(torch.ones(2, 4, device="cuda")).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 65536.0
        assert str(layer.weight.grad.device) == "cuda:0"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam"])
def test_optimizers_over_two_devices(name: str) -> None:
    def train(first: str, second: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        a, b = nn.Linear(3, 3).to(first), nn.Linear(3, 1).to(second)
        optimizer = getattr(torch.optim, name)([*a.parameters(), *b.parameters()], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            b(a(torch.ones(2, 3, device=first)).to(second)).pow(2).mean().backward()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in (*a.parameters(), *b.parameters())]

    plain = train("cpu", "cpu")
    with simulate(devices=2):
        for left, right in zip(plain, train("cuda:0", "cuda:1"), strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=1e-6)


def test_streams_are_in_order_and_events_tell_time() -> None:
    with simulate(devices=2):
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        side = torch.cuda.Stream(device="cuda:1")
        with torch.cuda.stream(side):
            assert torch.cuda.current_stream() == side
            assert torch.cuda.current_device() == 1
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        end.record()
        torch.cuda.synchronize()
        assert 0 <= begin.elapsed_time(end) < 1000
        assert isinstance(side, torch.cuda.Stream)


def test_devices_are_described() -> None:
    lines = describe().splitlines()
    assert lines[0] == f"torch {torch.__version__}"
    assert lines[-1].startswith("simulated")
    with simulate(devices=2):
        found = real_devices()
        assert [device.torch_name for device in found] == ["cuda:0", "cuda:1"]
        assert describe().splitlines()[1].startswith("cuda:0")
        assert "16.0 GiB" in describe()
    with simulate(kind="mps"):
        assert [device.torch_name for device in real_devices()] == ["mps:0"]


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import devlint.runtime, devlint.runtime.devices
for ask in (devlint.runtime.simulate, devlint.runtime.devices.describe, devlint.runtime.devices.real_devices):
    try:
        ask()
    except devlint.runtime.TorchMissing as error:
        assert "pip install 'devlint[runtime]'" in str(error)
    else:
        sys.exit(1)
"""


def test_without_torch_the_message_names_the_install_command() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], cwd=ROOT, check=False)
    assert done.returncode == 0
    assert issubclass(TorchMissing, RuntimeError)


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, devlint.runtime, devlint.runtime.devices; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
