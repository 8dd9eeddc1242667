"""What each public case is driven with (sizes, made data) and how its fault shows.

A driver gets the case's names and a folder; it runs on a simulated machine with two CUDA devices. `BUGS` says for each
row with the verdict "bug" either which error is raised (a text in it) or, for faults that raise nothing, what is asked
of the driver's result. `NOT_RUN` names the rows that the simulation cannot show, with the reason.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy
import torch
import torch.distributed as dist
from runtime.rows import argument
from torch import nn
from torch.utils.data import TensorDataset

from devlint.runtime import simulate

Names = dict[str, Any]
GPU = "cuda"
CUDA = torch.device("cuda")
H = torch.arange(32.0).view(8, 4) / 32
Y = torch.arange(8) % 2

NOT_RUN = {
    ("057", "10"): "order of asynchronous copies: here every copy is done when it returns",
    ("093", "7"): "a TorchScript archive keeps its devices in C++, where no simulated one is known",
    ("173", "13"): "CUDA_VISIBLE_DEVICES is read by the driver; a simulated machine has the devices it was asked for",
}


@contextlib.contextmanager
def one_process(**more: str) -> Iterator[None]:
    """What torchrun sets for a world of one process."""
    port = str(random.Random().randint(20000, 50000))
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1", **more}
    with mock.patch.dict(os.environ, environment):
        try:
            yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


def batches(n: int = 2) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(H, Y)] * n


def case_005(c: Names, tmp: Path) -> Any:
    return c["complete"]("The weather")


def case_006(c: Names, tmp: Path) -> Any:
    return [x.device for x, _ in c["consume"](TensorDataset(H, Y))]


def case_007(c: Names, tmp: Path) -> Any:
    torch.save(H, tmp / "f.pt")
    return list(c["loader"](tmp / "f.pt"))


def case_008(c: Names, tmp: Path) -> Any:
    return c["main"]("picture.png")


def case_009(c: Names, tmp: Path) -> Any:
    with one_process():
        dist.init_process_group("nccl")
        assert c["mean_over_ranks"](3.0, "cuda:0") == 3.0
        assert c["host_sum"](3.0) == 3.0
        return c["count_local"]([H])


def nothing(c: Names, tmp: Path) -> Any:
    """The case does all at import."""


def case_010(c: Names, tmp: Path) -> Any:
    assert c["pick"]() == CUDA
    return c["place"](nn.Linear(2, 2), H)


def case_012(c: Names, tmp: Path) -> Any:
    x = torch.rand(8, 8)
    return c["run"]([(x, Y)], GPU)


def case_016(c: Names, tmp: Path) -> Any:
    return list(c["run"](nn.Embedding(8, 2).to(GPU), c["Captions"](Y, list("abcdefgh")), GPU))


def case_019(c: Names, tmp: Path) -> Any:
    c["encode"](H, c["Encoder"](4))
    return c["lazy"]()


def case_022(c: Names, tmp: Path) -> Any:
    return c["setup"](0, "cuda")


def case_030(c: Names, tmp: Path) -> Any:
    return c["upload"]([[1.0, 2.0]], GPU)


def case_033(c: Names, tmp: Path) -> Any:
    x = torch.rand(2, 5, 3, device=GPU)
    return c["masked_l1"](x, x, torch.tensor([3, 5], device=GPU))


def case_036(c: Names, tmp: Path) -> Any:
    net = c["CachedMaskAttention"](8).to("cuda:0")
    net(torch.rand(1, 4, 8, device="cuda:0"))
    return net.to("cuda:1")(torch.rand(1, 4, 8, device="cuda:1"))


def case_038(c: Names, tmp: Path) -> Any:
    return c["Decoder"](4).to(GPU)(H[None].to(GPU))


def case_039(c: Names, tmp: Path) -> Any:
    return c["serve"](H)


def case_040(c: Names, tmp: Path) -> Any:
    c["Split"]()(torch.rand(2, 8))
    return c["wrap"]()(H)


def case_041(c: Names, tmp: Path) -> Any:
    c["collect"](nn.Linear(4, 2).to(GPU), batches(), CUDA)
    assert c["mirror"](H.to(GPU), "cuda:1").device == torch.device("cuda:1")
    return c["offload"](H.to(GPU), torch.cuda.Event())


def case_045(c: Names, tmp: Path) -> Any:
    lengths = torch.tensor([5, 3])
    model = c["Enc"](9, 4).to(GPU)
    return model(torch.ones(2, 5, dtype=torch.long, device=GPU), lengths)  # noqa: DEV103 (lengths belong on the host)


def case_047(c: Names, tmp: Path) -> Any:
    return c["embed"](nn.Linear(4, 2), [H], torch.device("cuda", 0))


def case_048(c: Names, tmp: Path) -> Any:
    return c["ArrayEnv"](SimpleNamespace(reset=lambda: numpy.zeros(3)), GPU).reset()


def case_051(c: Names, tmp: Path) -> Any:
    assert c["louder"]() == 4
    c["KernelTest"]("test_add").test_add()
    return c["require_gpu"](lambda x: x + 1)


def case_052(c: Names, tmp: Path) -> Any:
    net = c["ScaledDot"](4, GPU)
    net(H.to(GPU)).sum().backward()
    return [name for name, _ in net.named_parameters()]


def case_053(c: Names, tmp: Path) -> Any:
    with one_process():
        return c["gather_predictions"](Y, "cuda:0")


def case_057(c: Names, tmp: Path) -> Any:
    return list(c["stream_scores"](nn.Linear(4, 2), [H], GPU))


def case_061(c: Names, tmp: Path) -> Any:
    c["metrics"](H.to(GPU), Y.to(GPU))
    return c["export"](nn.Linear(4, 2), batches(), GPU)


def case_063(c: Names, tmp: Path) -> Any:
    replay = c["Replay"](8, GPU)
    replay.push([0.0, 1.0], 1, 0.5, [1.0, 1.0], False)
    return replay.sample(1)


def case_065(c: Names, tmp: Path) -> Any:
    return c["test"](nn.Linear(4, 2), GPU, batches(), nn.functional.cross_entropy)


def case_066(c: Names, tmp: Path) -> Any:
    return c["PadToLength"](9)(torch.rand(2, 5, 3, device=GPU))


def case_067(c: Names, tmp: Path) -> Any:
    return c["RelativePositions"](3, 4).to(GPU)(torch.rand(2, 5, 4, device=GPU))


def case_070(c: Names, tmp: Path) -> Any:
    c["quick_fit"](nn.Linear(4, 1), H, H[:, :1])
    net = nn.Linear(4, 1)  # noqa: DEV106 (resume moves it)
    state = {"net": net.state_dict(), "opt": torch.optim.Adagrad(net.parameters()).state_dict()}
    opt = c["resume"](net, state, GPU)
    net(H.to(GPU)).sum().backward()
    return opt.step()


def case_073(c: Names, tmp: Path) -> Any:
    net = nn.Linear(4, 2).to(GPU)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    return c["step"](net, H.to(GPU), H[:, :2].to(GPU), opt, CUDA)


def case_074(c: Names, tmp: Path) -> Any:
    return c["ConvGRUCell"](2, 3).to(GPU)(torch.rand(1, 2, 5, 5, device=GPU))


def case_075(c: Names, tmp: Path) -> Any:
    return c["Classifier"](3).to(GPU)(torch.rand(1, 3, 8, 8, device=GPU))


def case_076(c: Names, tmp: Path) -> Any:
    return c["PINNLoss"]({"a": 1.0})({"a": H.to(GPU)})


def case_077(c: Names, tmp: Path) -> Any:
    return c["score"](["hello", "world"])


def case_081(c: Names, tmp: Path) -> Any:
    c["Mixup"](0.4)(H.to(GPU), Y.to(GPU))
    return c["cutout"](torch.rand(2, 3, 8, 8, device=GPU), 2)


def case_085(c: Names, tmp: Path) -> Any:
    return c["PatchEmbed"](4, 2).to(GPU)(torch.rand(1, 3, 32, 32, device=GPU))


def case_086(c: Names, tmp: Path) -> Any:
    return c["step"](c["Sentiment"](9, 4), torch.tensor([[1, 2, 0], [3, 0, 0]]), GPU)


def case_088(c: Names, tmp: Path) -> Any:
    return c["Pyramid"](3, 2).to(GPU)(torch.rand(1, 3, 16, 16, device=GPU))


def case_089(c: Names, tmp: Path) -> Any:
    flags = c["policy"](SimpleNamespace(device="cuda"), H.to(GPU), H.to(GPU), nn.Linear(1, 1).to(GPU))
    assert flags == ["amp", "pin", "same", "gpu"]


def case_097(c: Names, tmp: Path) -> Any:
    return c["DQNAgent"](4, 2, GPU).act(numpy.zeros((1, 4)), 0.1)


def case_101(c: Names, tmp: Path) -> Any:
    return c["elbo_terms"](H.to(GPU), H.to(GPU))


def case_102(c: Names, tmp: Path) -> Any:
    return c["NoisyLinear"](4, 2).to(GPU)(H.to(GPU))


def case_105(c: Names, tmp: Path) -> Any:
    assert c["KalmanState"](3).to(GPU).mean.is_cuda
    return c["FilterBank"](4).to(GPU)(H.to(GPU))


def case_108(c: Names, tmp: Path) -> Any:
    with mock.patch("sys.argv", ["case"]):
        return c["main"]()


def case_114(c: Names, tmp: Path) -> Any:
    return c["MemoryBank"](9, 4).enqueue(H.to(GPU))


def case_115(c: Names, tmp: Path) -> Any:
    c["Normaliser"]([0.1] * 4, [0.2] * 4)(H)
    return c["Head"](2, [0.5, 0.5]).to(GPU)(H.to(GPU))


def case_116(c: Names, tmp: Path) -> Any:
    return c["latency"](nn.Linear(4, 2), H, runs=2, device=GPU)


def case_118(c: Names, tmp: Path) -> Any:
    return c["classify"](["a", "b"], GPU)


def case_119(c: Names, tmp: Path) -> Any:
    return c["report"](nn.Linear(4, 2), GPU)


def case_120(c: Names, tmp: Path) -> Any:
    return c["CausalSelfAttention"](8, 2).to(GPU)(torch.rand(1, 4, 8, device=GPU))


def case_123(c: Names, tmp: Path) -> Any:
    """Saved on a machine with two devices from the second, loaded on one without."""
    torch.save(c["build"]().to("cuda:1").state_dict(), tmp / "model.pt")
    with simulate(devices=0):
        return c["main"](["--weights", str(tmp / "model.pt")])


def case_124(c: Names, tmp: Path) -> Any:
    net = nn.DataParallel(nn.Linear(2, 2).to(GPU))
    c["save"](net, tmp / "m.pt")
    c["load"](nn.Linear(2, 2), tmp / "m.pt")
    return c["resume_wrapped"](tmp / "w.pt")


def case_125(c: Names, tmp: Path) -> Any:
    return c["SupCon"]()(H.to(GPU), Y.to(GPU))


def case_126(c: Names, tmp: Path) -> Any:
    return c["fit"](nn.Linear(4, 1), H, H[:, :1], GPU, epochs=1, bs=4)


def case_134(c: Names, tmp: Path) -> Any:
    return c["train"](multi_gpu=True)


def case_137(c: Names, tmp: Path) -> Any:
    state = c["round_trip"](nn.Linear(2, 2).to(GPU))
    assert state["weight"].device == torch.device("cpu")
    torch.save({"a": H.to(GPU)}, tmp / "k")
    return c["restore"](c["Store"](), tmp / "k")


def case_138(c: Names, tmp: Path) -> Any:
    return c["CoordConv"](2, 3).to(GPU)(torch.rand(1, 2, 5, 5, device=GPU))


def case_139(c: Names, tmp: Path) -> Any:
    return c["Sampler"](1.0, 0)(H.to(GPU))


def case_145(c: Names, tmp: Path) -> Any:
    return c["evaluate"](nn.Linear(4, 2).to(GPU), batches(), GPU)


def case_146(c: Names, tmp: Path) -> Any:
    return list(c["batches"](8, GPU))


def case_150(c: Names, tmp: Path) -> Any:
    return c["smooth_nll"](H.to(GPU).log_softmax(1), Y.to(GPU))


def case_153(c: Names, tmp: Path) -> Any:
    return c["first"](TensorDataset(H, Y), GPU)


def case_156(c: Names, tmp: Path) -> Any:
    """The third process of a world over two machines with two devices each: its device is the first of its machine.

    The network is left out: the fault is the index that the process takes.
    """
    environment = {"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}
    with mock.patch.dict(os.environ, environment), mock.patch.object(dist, "init_process_group"):
        return c["setup"]()


def case_159(c: Names, tmp: Path) -> Any:
    c["empty_like_batch"](H.to(GPU))
    return c["to_gpu"]("1,0.5,0.25", GPU)


def case_160(c: Names, tmp: Path) -> Any:
    return list(c["run"](nn.Linear(4, 2), [(row, 0) for row in H]))


def case_161(c: Names, tmp: Path) -> Any:
    return c["LitClassifier"](4, 2).to(GPU).validation_step((H.to(GPU), Y.to(GPU)), 0)


def case_164(c: Names, tmp: Path) -> Any:
    return c["LazyHead"](2)(H.to(GPU), Y.to(GPU))


def case_165(c: Names, tmp: Path) -> Any:
    net = nn.Linear(4, 2)
    c["train"](net, batches(), torch.optim.SGD(net.parameters(), lr=0.1), GPU)
    c["test"](net, [(H, Y, Y)], GPU)
    return c["host_eval"](net, H, Y)


def case_167(c: Names, tmp: Path) -> Any:
    c["cpu_time"](lambda x: x + 1, H.to(GPU))
    c["proper"](lambda x: x + 1, H.to(GPU))
    return c["ms_per_batch"](nn.Linear(4, 2), H)


def case_169(c: Names, tmp: Path) -> Any:
    images = torch.rand(1, 3, 8, 8)
    return c["finetune"](nn.Conv2d(3, 3, 3, padding=1), [(images, images)], GPU)


def case_172(c: Names, tmp: Path) -> Any:
    return c["inspect"](c["Net"]().to(GPU))


def case_173(c: Names, tmp: Path) -> Any:
    with mock.patch.dict(os.environ):
        return c["main"]([])


def case_174(c: Names, tmp: Path) -> Any:
    return c["TwoStage"]()(torch.rand(2, 32))


def case_175(c: Names, tmp: Path) -> Any:
    return c["MultiTask"](4, {"a": 2}).to(GPU)(H.to(GPU))


def case_177(c: Names, tmp: Path) -> Any:
    return c["train"](nn.Linear(4, 2), [(H, H[:, :2])])


def case_178(c: Names, tmp: Path) -> Any:
    return c["Quantizer"](3, 4).to(GPU)(H.to(GPU))


def case_180(c: Names, tmp: Path) -> Any:
    return c["train"](nn.Linear(4, 2), batches(), torch.ones(2), 1)


def case_181(c: Names, tmp: Path) -> Any:
    return c["TinyDecoder"](9).to(GPU)(torch.ones(2, 5, dtype=torch.long, device=GPU))


def case_182(c: Names, tmp: Path) -> Any:
    return str(c["to_device"]({"x": H}, GPU)["x"].device)


def case_183(c: Names, tmp: Path) -> Any:
    c["Policy"](4, 2).to(GPU).act([0.0] * 4)
    return c["LitDenoiser"](4).to(GPU).training_step((H.to(GPU), Y), 0)


def case_184(c: Names, tmp: Path) -> Any:
    g, d = (net.to(GPU) for net in c["build"](4))
    opts = [torch.optim.Adam(net.parameters()) for net in (g, d)]
    return c["train_step"](g, d, torch.rand(8, 784), *opts, 4, GPU)


def case_187(c: Names, tmp: Path) -> Any:
    return c["NTXent"]()(H.to(GPU), H.to(GPU) + 1)


def case_189(c: Names, tmp: Path) -> Any:
    for name in "abc":
        c[name](nn.Linear(4, 2), H)


def case_192(c: Names, tmp: Path) -> Any:
    """The second process; the devices on which its checkpoint arrives. The network is left out."""
    net = nn.Linear(10, 10).to("cuda:0")
    opt = torch.optim.AdamW(net.parameters())
    torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, tmp / "c.pt")
    seen: list[str] = []
    load = torch.load

    def watched(*args: Any, **kwargs: Any) -> Any:
        state = load(*args, **kwargs)
        seen.extend(str(value.device) for value in state["net"].values())
        return state

    with (
        mock.patch.object(dist, "init_process_group"),
        mock.patch.object(torch, "load", watched),
        mock.patch.object(nn.parallel, "DistributedDataParallel", lambda net, device_ids: net),
    ):
        c["worker"](1, 2, tmp / "c.pt")
    return set(seen)


def case_194(c: Names, tmp: Path) -> Any:
    return c["soft_dice"](torch.rand(1, 3, 4, 4, device=GPU), torch.zeros(1, 4, 4, dtype=torch.long, device=GPU))


def case_196(c: Names, tmp: Path) -> Any:
    return c["fakes"](nn.Linear(100, 2).to(GPU), 3)


def case_197(c: Names, tmp: Path) -> Any:
    return c["evaluate"](nn.Linear(4, 2), [H])


def case_198(c: Names, tmp: Path) -> Any:
    return c["Gather"](9, 4).to(GPU)(H.to(GPU))


def case_199(c: Names, tmp: Path) -> Any:
    c["Switch"](4).to(GPU)(H.to(GPU), "tanh")
    c["Ensemble"]([nn.Linear(4, 2)], GPU)(H.to(GPU))
    return c["Student"](nn.Linear(4, 2), nn.Linear(4, 2)).to(GPU)(H.to(GPU))


def case_201(c: Names, tmp: Path) -> Any:
    return c["fit"](nn.Linear(4, 2), batches(), epochs=1)


def case_202(c: Names, tmp: Path) -> Any:
    return c["score"](nn.Linear(4, 2), H, Y, GPU)


def case_204(c: Names, tmp: Path) -> Any:
    return c["setup"](GPU)


def case_206(c: Names, tmp: Path) -> Any:
    return c["sample_noise"](2, 3), c["labels"](2, 1.0)


def case_207(c: Names, tmp: Path) -> Any:
    return c["stylize"](torch.rand(1, 3, 8, 8), nn.Conv2d(3, 8, 3).to(GPU), 2, GPU)


def case_210(c: Names, tmp: Path) -> Any:
    return c["main"]([])


def case_211(c: Names, tmp: Path) -> Any:
    return c["evaluate"](nn.Linear(4, 2), batches(), torch.device("cpu"))


def case_158(c: Names, tmp: Path) -> Any:
    return c["main"](["--device", "cuda"])


def case_059(c: Names, tmp: Path) -> Any:
    net = nn.Linear(4, 2).to(GPU)
    data = [(H.to(GPU), Y.to(GPU))]
    return c["train_amp"](net, data, torch.optim.SGD(net.parameters(), lr=0.1))


def case_027(c: Names, tmp: Path) -> Any:
    return c["loaders"](TensorDataset(H.cpu(), Y.cpu()), TensorDataset(H.cpu(), Y.cpu()))


DRIVERS: dict[str, Callable[[Names, Path], Any]] = {
    name.removeprefix("case_"): value for name, value in list(globals().items()) if name.startswith("case_")
} | dict.fromkeys(("060", "163", "168", "188"), nothing)

TWO = "found at least two devices, cuda:0 and cpu!"
FORKED = "Cannot re-initialize CUDA in forked subprocess"

# (case, line as in cases.tsv) -> a text in the error, or a question to the result
BUGS: dict[tuple[str, str], str | Callable[[Any], bool]] = {
    ("005", "11"): "wrapper_CUDA__index_select",
    ("007", "9"): FORKED,
    ("008", "17,19"): "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ("016", "18"): "'list' object has no attribute 'to'",
    ("022", "8"): lambda result: result == (CUDA, False),
    ("030", "6"): "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    ("033", "7"): TWO,
    ("036", "12,13"): argument("attn_bias", "cuda:0", "cuda:1", "__scaled_dot_product_efficient_attention")[1],
    ("039", "11"): "expected input on cuda, got cuda:0",
    ("047", "10"): "Expected `device_type` of type `str`",
    ("048", "13"): "from_numpy() takes no keyword arguments",
    ("052", "9"): lambda result: "temperature" not in result,
    ("053", "9,10"): "No backend type associated with device type cpu",
    ("060", "9"): "Expected a 'cuda' device type for generator but found 'cpu'",
    ("063", "17"): "legacy constructor expects device type: cpu but device type: cuda was passed",
    ("065", "10"): "wrapper_CUDA_addmm",
    ("065", "11"): "wrapper_CUDA_nll_loss_forward",
    ("066", "17"): "wrapper_CUDA_cat",
    ("074", "15"): "wrapper_CUDA_cat",
    ("075", "8"): TWO,
    ("075", "9"): TWO,
    ("076", "13,15"): TWO,
    ("077", "11,12"): "wrapper_CUDA__index_select",
    ("086", "14"): "'lengths' argument should be a 1D CPU int64 tensor",
    ("088", "9"): "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ("097", "15,16"): "wrapper_CUDA_addmm",
    ("101", "8,11"): "wrapper_CUDA_cat",
    ("102", "13"): TWO,
    ("108", "11"): "wrapper_CUDA_nll_loss_forward",
    ("120", "20"): "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
    ("123", "17"): "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False",
    ("138", "10"): "wrapper_CUDA_cat",
    ("138", "11"): "wrapper_CUDA_cat",
    ("139", "7,13"): "Expected a 'cuda' device type for generator but found 'cpu'",
    ("150", "8"): "wrapper_CUDA_scatter_",
    ("153", "6,8"): "Expected a 'cpu' device type for generator but found 'cuda'",
    ("156", "11"): "CUDA error: invalid device ordinal",
    ("160", "9"): FORKED,
    ("161", "12"): TWO,
    ("163", "16"): "can't convert cuda:0 device type tensor to numpy",
    ("169", "17,22"): "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ("174", "17"): "found at least two devices, cuda:1 and cuda:0!",
    ("175", "9"): "wrapper_CUDA_addmm",
    ("177", "7,8"): "must be on the same device and the same dtype",
    ("181", "17"): "wrapper_CUDA__index_select",
    ("182", "7"): lambda result: result == "cpu",
    ("184", "18"): "wrapper_CUDA_addmm",
    ("187", "15"): "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
    ("188", "4"): "Expected one of cpu, cuda",
    ("192", "15"): lambda result: result == {"cuda:0"},
    ("194", "8"): "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ("196", "8"): "must be Tensor, not builtin_function_or_method",
    ("201", "12,16"): "wrapper_CUDA_nll_loss_forward",
    ("202", "10"): "can't convert cuda:0 device type tensor to numpy",
    ("204", "19,20,21"): TWO,
    ("207", "8"): "can't optimize a non-leaf Tensor",
    ("210", "14"): "found at least two devices, cuda:1 and cuda:0!",
    ("211", "11"): "Invalid device, must be cuda device",
}
