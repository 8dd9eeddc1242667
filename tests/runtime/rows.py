# ruff: noqa: E501 (a table: the code of a row stays on its line)
"""The rules as data: one row each, true of a machine with CUDA devices, simulated or real.

A row's code is a function body that gives `r`; the names it may use are made by `names`. `place` says where the result
lies, and its values are those of the same code with every tensor on the CPU. `error` is the type and text that torch
raises. `source` says where the right answer comes from; paths are PyTorch's own, "doc" is docs.pytorch.org/docs/stable.
"""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn import functional as F

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

SCALARS = "doc/tensor_attributes.html#torch.device: zero-dim CPU tensors are the exception"
CHECK = "aten/src/ATen/core/adaption.cpp and the operator's entry in native_functions.yaml"
ITERATOR = "aten/src/ATen/TensorIterator.cpp, compute_types"
INDEXING = "aten/src/ATen/native/TensorAdvancedIndexing.cpp"
RNN = "aten/src/ATen/native/RNN.h, check_attributes"
DOC_LOAD = "doc/generated/torch.load.html"
LEGACY = "torch/csrc/utils/tensor_new.cpp"


@dataclass(frozen=True)
class Row:
    """See the module's words. `devices` is the number of accelerators that the row needs."""

    name: str
    code: str
    place: str | None = None
    error: tuple[str, str] | None = None
    source: str = ""
    devices: int = 1
    values: bool = True


def names(first: str, second: str | None) -> dict[str, Any]:
    """h, c, d: one matrix on the CPU, the first and the second device; i, ic, id: an index; s: a 0-dim CPU tensor."""
    h = torch.arange(16.0).view(4, 4) / 16 + 0.1
    i = torch.tensor([0, 2])
    space: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "copy": copy, "io": io, "pickle": pickle, "np": numpy}
    space |= {
        "h": h,
        "c": h.clone().to(first),
        "i": i,
        "ic": i.clone().to(first),
        "s": torch.tensor(2.0),
        "D": first,
        "E": second,
    }
    if second is not None:
        space |= {"d": h.clone().to(second), "id": i.clone().to(second)}
    space["linear"] = lambda: _seeded(nn.Linear(4, 3))
    space["reload"] = reload
    return space


def _seeded(module: nn.Module) -> nn.Module:
    """The same small numbers in every run, drawn nowhere."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view(parameter.shape))
    return module


def reload(value: Any, **how: Any) -> Any:
    """What torch.load makes of what torch.save wrote."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **how)


def two(first: str, second: str) -> tuple[str, str]:
    """TensorIterator's text."""
    return (
        "RuntimeError",
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!",
    )


def argument(name: str, place: str, others: str, method: str) -> tuple[str, str]:
    """The text of the check before a kernel, in the words of the version at hand."""
    if VERSION >= (2, 8):
        text = (
            f"Expected all tensors to be on the same device, but got {name} is on {place}, different from other tensors "
            f"on {others} (when checking argument in method wrapper_CUDA_{method})"
        )
    else:
        text = (
            f"Expected all tensors to be on the same device, but found at least two devices, {others} and {place}! "
            f"(when checking argument for argument {name} in method wrapper_CUDA_{method})"
        )
    return "RuntimeError", text


def runtime(text: str) -> tuple[str, str]:
    """A RuntimeError that starts so."""
    return "RuntimeError", text


GPU, CPU = "cuda:0", "cpu"

ROWS = [
    # operands
    Row("operands on one device", "r = c + c * 2", GPU),
    Row("device and host", "r = c + h", error=two(GPU, CPU), source=ITERATOR),
    Row("host and device: the accelerator is named first", "r = h + c", error=two(GPU, CPU), source=ITERATOR),
    Row("two accelerators", "r = c * d", error=two(GPU, "cuda:1"), source=ITERATOR, devices=2),
    Row("0-dim CPU tensor as second operand", "r = c * s", GPU, source=SCALARS),
    Row("0-dim CPU tensor as first operand", "r = s - c", GPU, source=SCALARS),
    Row("0-dim tensor of another accelerator", "r = c * d.sum()", error=two(GPU, "cuda:1"), source=ITERATOR, devices=2),
    Row("0-dim CPU tensor in a comparison", "r = c > s", GPU, source=SCALARS),
    Row("0-dim CPU tensor in maximum", "r = torch.maximum(c, s)", GPU, source=SCALARS),
    Row("0-dim CPU tensor in pow", "r = c.pow(s)", GPU, source=SCALARS),
    Row("1-element CPU tensor is no scalar", "r = c + torch.ones(1)", error=two(GPU, CPU), source=SCALARS),
    Row("0-dim CPU tensor in clamp", "r = c.clamp(min=s)", error=argument("min", CPU, GPU, "clamp_Tensor"), source=CHECK),
    Row("in place on a CPU scalar", "s += c.sum(); r = s", error=two(GPU, CPU), source=ITERATOR),
    Row("in place on a 1-element CPU tensor", "t = torch.zeros(1); t += c.sum()", error=two(GPU, CPU), source=ITERATOR),
    Row("rebinding a CPU scalar", "t = torch.tensor(0.0); t = t + c.sum(); r = t", GPU, source=SCALARS),
    Row("in place on the device with a CPU scalar", "c *= s; r = c", GPU, source=SCALARS),
    Row("in place on the device with a CPU matrix", "c += h", error=two(GPU, CPU), source=ITERATOR),
    Row("Python numbers", "r = (c + 1) / 2.5", GPU),
    Row("stack with a CPU scalar", "r = torch.stack([c.sum(), s])", error=argument("tensors", CPU, GPU, "cat"), source=CHECK),
    Row("cat with a CPU matrix", "r = torch.cat([c, h])", error=argument("tensors", CPU, GPU, "cat"), source=CHECK),
    Row("cat on one device", "r = torch.cat([c, c], 1)", GPU),
    Row("hypot with a CPU scalar", "r = torch.hypot(c, s)", *((GPU, None) if VERSION >= (2, 10) else (None, argument("other", CPU, GPU, "hypot"))),
        source="https://github.com/pytorch/pytorch/pull/169302"),
    Row("where with a CPU scalar", "r = torch.where(c > 0.5, c, s)", GPU, source="aten/src/ATen/native/TensorCompare.cpp"),
    Row("where with two CPU scalars", "r = torch.where(c > 0.5, s, s)", GPU, source="the same"),
    Row("where with a CPU branch", "r = torch.where(c > 0.5, c, h)", error=two(GPU, CPU), source="the same"),
    Row("where with a CPU condition", "r = torch.where(h > 0.5, c, c)", error=two(GPU, CPU), source="the same"),
    Row("masked_fill with a CPU mask", "r = c.masked_fill(h > 0.5, 0.0)",
        error=runtime("expected self and mask to be on the same device, but got mask on cpu and self on cuda:0"),
        source="aten/src/ATen/native/cuda/Indexing.cu"),
    Row("masked_fill with a 0-dim CPU value", "r = c.masked_fill(c > 0.5, s)", GPU, source="the same"),
    Row("lerp with a CPU end", "r = c.lerp(h, 0.5)", error=two(GPU, CPU), source=ITERATOR),
    Row("addcmul with a CPU factor", "r = torch.addcmul(c, c, h)", error=two(GPU, CPU), source=ITERATOR),
    Row("equal", "r = torch.equal(c, h)", error=argument("other", CPU, GPU, "_equal"), source=CHECK),
    Row("allclose", "r = torch.allclose(c, h)", error=two(GPU, CPU), source=ITERATOR),
    # matrix products
    Row("mm, second on the host", "r = c @ h", error=argument("mat2", CPU, GPU, "mm"), source=CHECK),
    Row("mm, first on the host", "r = h @ c", error=argument("mat2", GPU, CPU, "mm"), source=CHECK),
    Row("mm on one device", "r = c @ c", GPU),
    Row("bmm", "r = torch.bmm(c[None], h[None])", error=argument("mat2", CPU, GPU, "bmm"), source=CHECK),
    Row("dot", "r = torch.dot(c[0], h[0])", error=argument("tensor", CPU, GPU, "_dot"), source=CHECK),
    Row("mv, vector on the host", "r = c.mv(h[0])", error=argument("mat", GPU, CPU, "addmv_"), source="aten/src/ATen/native/Blas.cpp, mv"),
    Row("out= on the host", "torch.mm(c, c, out=h)", error=argument("self", GPU, CPU, "mm_out_out"), source=CHECK),
    Row("einsum", "r = torch.einsum('ij,jk->ik', c, h)", error=argument("mat2", CPU, GPU, "bmm"), source=CHECK),
    Row("baddbmm", "r = torch.baddbmm(c[None], c[None], h[None])", error=argument("batch2", CPU, GPU, "baddbmm"), source=CHECK),
    # layers
    Row("linear, input on the host", "r = linear().to(D)(h)", error=argument("mat1", CPU, GPU, "addmm"), source=CHECK),
    Row("linear, module on the host", "r = linear()(c)", error=argument("mat1", GPU, CPU, "addmm"), source=CHECK),
    Row("linear on one device", "r = linear().to(D)(c)", GPU),
    Row("linear on the other device", "r = linear().to(E)(c)", error=argument("mat1", GPU, "cuda:1", "addmm"), source=CHECK, devices=2),
    Row("convolution, input on the host", "r = nn.Conv2d(1, 2, 3).to(D)(h[None, None])",
        error=runtime("Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input "
                      "should be a MKLDNN tensor and weight is a dense tensor"),
        source="aten/src/ATen/native/Convolution.cpp"),
    Row("convolution, module on the host", "r = nn.Conv2d(1, 2, 3)(c[None, None])",
        error=runtime("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same"),
        source="the same"),
    Row("layer norm, module on the host", "r = nn.LayerNorm(4)(c)", error=argument("weight", CPU, GPU, "_native_layer_norm"), source=CHECK),
    Row("batch norm, module on the host", "r = nn.BatchNorm2d(1)(c[None, None])", error=argument("weight", CPU, GPU, "_cudnn_batch_norm"), source="aten/src/ATen/native/Normalization.cpp"),
    Row("batch norm, input on the host", "r = nn.BatchNorm2d(1).to(D)(h[None, None])", error=argument("weight", GPU, CPU, "_native_batch_norm"), source="the same"),
    Row("batch norm on one device", "r = nn.BatchNorm1d(4).to(D)(c)", GPU),
    Row("embedding, index on the host", "r = F.embedding(i, c)", error=argument("index", CPU, GPU, "_index_select"),
        source="aten/src/ATen/native/Embedding.cpp"),
    Row("embedding, table on the host", "r = F.embedding(ic, h)", error=argument("index", GPU, CPU, "_index_select"), source="the same"),
    Row("LSTM, input on the host", "r = nn.LSTM(4, 2).to(D)(h[None])",
        error=runtime("Input and parameter tensors are not at the same device, found input tensor at cpu and parameter "
                      "tensor at cuda:0"), source=RNN),
    Row("LSTM, hidden state on the host", "z = torch.zeros(1, 4, 2); r = nn.LSTM(4, 2).to(D)(c[None], (z, z))",
        error=runtime("Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden "
                      "tensor at cpu"), source=RNN),
    Row("GRU, no hidden state", "r = nn.GRU(4, 2).to(D)(c[None])[1]", GPU, source="torch/nn/modules/rnn.py", values=False),
    Row("attention, value on the host", "r = F.scaled_dot_product_attention(c[None], c[None], h[None])",
        error=runtime("Expected query, key, and value to have the same device type"),
        source="aten/src/ATen/native/transformers/sdp_utils_cpp.h"),
    Row("cross entropy, target on the host", "r = F.cross_entropy(c[:2], i)",
        error=argument("target", CPU, GPU, "nll_loss_forward"), source=CHECK),
    Row("cross entropy, weights on the host", "r = F.cross_entropy(c[:2], ic, weight=torch.ones(4))",
        error=argument("weight", CPU, GPU, "nll_loss_forward"), source=CHECK),
    Row("cross entropy on one device", "r = F.cross_entropy(c[:2], ic)", GPU),
    Row("mse loss", "r = F.mse_loss(c, h)", error=two(GPU, CPU), source=ITERATOR),
    Row("BCE with logits, pos_weight on the host",
        "r = F.binary_cross_entropy_with_logits(c, c, pos_weight=torch.ones(4))", error=two(GPU, CPU), source=ITERATOR),
    Row("BCE with logits, 0-dim pos_weight on the host",
        "r = F.binary_cross_entropy_with_logits(c, c, pos_weight=torch.tensor(2.0))", GPU, source=SCALARS),
    Row("grid_sample, grid on the host", "r = F.grid_sample(c[None, None], torch.zeros(1, 4, 4, 2), align_corners=False)",
        error=runtime("grid_sampler(): expected input and grid to be on same device, but input is on cuda:0 and grid is on cpu"),
        source="aten/src/ATen/native/GridSamplerUtils.h"),
    # indices
    Row("CPU index into a device tensor", "r = c[i]", GPU, source=INDEXING),
    Row("CPU mask into a device tensor", "r = c[h > 0.5]", GPU, source=INDEXING),
    Row("device index into a CPU table", "r = h[ic]",
        error=runtime("indices should be either on cpu or on the same device as the indexed tensor (cpu)"), source=INDEXING),
    Row("device index into the other device", "r = d[ic]",
        error=runtime("indices should be either on cpu or on the same device as the indexed tensor (cuda:1)"),
        source=INDEXING, devices=2),
    Row("0-dim device index into a CPU table", "r = h[ic[1]]", CPU, source="torch/csrc/autograd/python_variable_indexing.cpp"),
    Row("index_select with a CPU index", "r = c.index_select(0, i)", error=argument("index", CPU, GPU, "_index_select"), source=CHECK),
    Row("gather with a CPU index", "r = c.gather(1, i[:, None])", error=argument("index", CPU, GPU, "gather"), source=CHECK),
    Row("scatter_ with a CPU index", "r = c.scatter_(1, i[:, None], 1.0)", error=argument("index", CPU, GPU, "scatter__value"), source=CHECK),
    Row("scatter_ into a CPU tensor", "r = h.scatter_(1, ic[:, None], 1.0)", error=argument("index", GPU, CPU, "scatter__value"), source=CHECK),
    Row("index_add_ with a CPU source", "r = c.index_add_(0, ic, h[:2])", error=argument("source", CPU, GPU, "index_add_"), source=CHECK),
    Row("assignment through a CPU index", "c[i] = torch.zeros(2, 4, device=D); r = c", GPU, source=INDEXING),
    Row("assignment of CPU values through an index", "c[i] = torch.zeros(2, 4)", error=two(GPU, CPU), source=INDEXING),
    Row("assignment of a 0-dim CPU value through an index", "c[i] = s; r = c", GPU, source=INDEXING),
    Row("index_put_ with CPU values", "c.index_put_((ic,), torch.zeros(2, 4))", error=two(GPU, CPU), source=INDEXING),
    Row("assignment through a CPU mask of a number", "c[h > 0.5] = 0.0; r = c", GPU, source=INDEXING),
    Row("slice assignment from the host", "c[1:3] = h[:2]; r = c", GPU, source="doc/tensor_view.html and Tensor.copy_"),
    Row("slice assignment to the host", "h[0] = c[1]; r = h", CPU, source="the same"),
    Row("slice assignment between devices", "d[0] = c[1]; r = d", "cuda:1", source="the same", devices=2),
    Row("copy_ from the host", "r = torch.empty_like(c).copy_(h)", GPU, source="doc/generated/torch.Tensor.copy_.html"),
    Row("copy_ to the host", "r = torch.empty(4, 4).copy_(c)", CPU, source="the same"),
    # moves
    Row(".to is the tensor itself where nothing changes", "r = c if c.to(D) is c else h", GPU, source="doc/generated/torch.Tensor.to.html"),
    Row(".to another device copies", "t = c.to('cpu'); t.zero_(); r = c", GPU, source="the same", values=False),
    Row(".to(other)", "r = h.double().to(c)", GPU, source="the same"),
    Row(".to(device, dtype)", "r = h.to(D, torch.float64)", GPU, source="the same"),
    Row(".to(dtype) stays", "r = c.to(torch.float64)", GPU, source="the same"),
    Row(".to(copy=True)", "t = c.to(D, copy=True); t.zero_(); r = c", GPU, source="the same"),
    Row(".to(number)", "r = h.to(0)", GPU, source="doc/tensor_attributes.html#torch.device: an integer is an accelerator"),
    Row("the result of .to may be thrown away", "h.to(D); r = h", CPU, source="the same"),
    Row(".cuda()", "r = h.cuda()", GPU, source="doc/generated/torch.Tensor.cuda.html"),
    Row(".cuda(1)", "r = h.cuda(1)", "cuda:1", source="the same", devices=2),
    Row(".cuda of a CPU device", "r = h.cuda(torch.device('cpu'))", error=runtime("Invalid device, must be cuda device"),
        source="tools/autograd/templates/python_variable_methods.cpp"),
    Row(".cpu()", "r = c.cpu()", CPU),
    Row("bare .cuda() after set_device", "torch.cuda.set_device(1); r = h.cuda(); torch.cuda.set_device(0)", "cuda:1",
        source="doc/notes/cuda.html", devices=2),
    Row("with torch.cuda.device", "with torch.cuda.device(1):\n    r = h.cuda()", "cuda:1", source="doc/notes/cuda.html", devices=2),
    Row("index out of range", "r = h.to('cuda:77')", error=("AcceleratorError" if VERSION >= (2, 8) else "RuntimeError",
        "CUDA error: invalid device ordinal"), source="c10/cuda/CUDAFunctions.cpp"),
    Row("factory with an index out of range", "r = torch.zeros(2, device='cuda:77')",
        error=("AcceleratorError" if VERSION >= (2, 8) else "RuntimeError", "CUDA error: invalid device ordinal"),
        source="c10/cuda/CUDAFunctions.cpp"),
    Row("not a device", "r = h.to('gpu')", error=runtime("Expected one of cpu, cuda"), source="c10/core/Device.cpp"),
    Row(".type_as", "r = h.type_as(c)", GPU, source="doc/generated/torch.Tensor.type_as.html"),
    Row(".type of a CPU type moves", "r = c.type(torch.FloatTensor)", CPU, source="doc/generated/torch.Tensor.type.html"),
    Row(".type of a CUDA type moves", "r = i.type(torch.cuda.FloatTensor)", GPU, source="the same"),
    Row(".type of a name", "r = h.type('torch.cuda.DoubleTensor')", GPU, source="the same"),
    Row(".type asks", "r = torch.tensor(float(c.type() == 'torch.cuda.FloatTensor'))", CPU, source="the same", values=False),
    Row(".float stays", "r = c.double().float()", GPU),
    Row("numpy of a device tensor", "r = c.numpy()",
        error=("TypeError", "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
               "memory first."), source="torch/csrc/utils/tensor_numpy.cpp"),
    Row("numpy.asarray of a device tensor", "r = np.asarray(c)",
        error=("TypeError", "can't convert cuda:0 device type tensor to numpy"), source="torch/_tensor.py, __array__"),
    Row("numpy(force=True)", "r = torch.from_numpy(c.numpy(force=True))", CPU, source="doc/generated/torch.Tensor.numpy.html"),
    Row("item and tolist copy by themselves", "r = torch.tensor([c.sum().item(), *c[0].tolist()])", CPU),
    Row("pin_memory of a device tensor", "r = c.pin_memory()",
        error=runtime("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"),
        source="aten/src/ATen/native/Memory.cpp"),
    Row("pin_memory=True on a device", "r = torch.zeros(2, device=D, pin_memory=True)",
        error=runtime("Only dense CPU tensors can be pinned"), source="aten/src/ATen/EmptyTensor.cpp"),
    Row("pin_memory", "t = h.pin_memory(); assert t.is_pinned() and not h.is_pinned(); r = t", CPU, values=False),
    # factories
    Row("factory without a device", "r = torch.zeros(4)", CPU),
    Row("factory with a device", "r = torch.arange(4, device=D)", GPU),
    Row("*_like", "r = torch.zeros_like(c)", GPU, source="doc/generated/torch.zeros_like.html"),
    Row("*_like with a device", "r = torch.ones_like(c, device='cpu')", CPU, source="the same"),
    Row("new_*", "r = c.new_ones(3)", GPU, source="doc/generated/torch.Tensor.new_ones.html"),
    Row("new_tensor", "r = c.new_tensor([1.0, 2.0])", GPU, source="doc/generated/torch.Tensor.new_tensor.html"),
    Row("new, the old spelling", "r = c.new(2, 3).zero_()", GPU, source=LEGACY),
    Row("tensor of a device tensor", "r = torch.as_tensor(c)", GPU, source="doc/generated/torch.as_tensor.html"),
    Row("as_tensor with a device copies", "t = torch.as_tensor(h, device=D); t.zero_(); r = h", CPU, source="the same", values=False),
    Row("from_numpy", "r = torch.from_numpy(np.ones(3))", CPU),
    Row("from_numpy takes no device", "r = torch.from_numpy(np.ones(3), device=D)", error=("TypeError", ""), source="its signature"),
    Row("with torch.device", "with torch.device(D):\n    r = torch.ones(3)", GPU, source="doc/generated/torch.set_default_device.html"),
    Row("set_default_device", "torch.set_default_device(D); r = torch.ones(3); torch.set_default_device(None)", GPU, source="the same"),
    Row("a default device does not reach legacy constructors", "with torch.device(D):\n    r = torch.FloatTensor([1.0])", CPU, source=LEGACY),
    Row("module under a default device", "with torch.device(D):\n    m = nn.Linear(2, 2)\nr = m.weight", GPU, values=False),
    Row("legacy constructor with a device", "r = torch.FloatTensor([1.0], device=D)",
        error=runtime("legacy constructor expects device type: cpu but device type: cuda was passed"), source=LEGACY),
    Row("CUDA legacy constructor", "r = torch.cuda.FloatTensor([1.0, 2.0])", GPU, source="doc/tensors.html"),
    Row("windows", "r = torch.hann_window(5, device=D)", GPU),
    Row("sparse tensor of device parts", "r = torch.sparse_coo_tensor(ic[None], c[0, :2], (4,)).to_dense()", GPU, source="doc/generated/torch.sparse_coo_tensor.html"),
    Row("sparse", "r = torch.eye(3, device=D).to_sparse().to_dense()", GPU),
    # views, in place, copies
    Row("views stay", "r = c.t()[1:].reshape(-1)", GPU),
    Row("a view shares its memory", "c[0].zero_(); r = c", GPU),
    Row("chunk, unbind, topk", "a, b = c.chunk(2); v, j = a.topk(2); r = v + b.unbind(0)[0][:2]", GPU),
    Row("deepcopy of a tensor", "r = copy.deepcopy(c)", GPU, source="torch/_tensor.py, __deepcopy__"),
    Row("deepcopy of a module", "r = copy.deepcopy(linear().to(D)).weight", GPU, source="the same"),
    Row("pickle", "r = pickle.loads(pickle.dumps(c))", GPU, source="torch/_tensor.py, __reduce_ex__"),
    Row("detach and data", "r = c.detach() + c.data", GPU),
    # modules
    Row("Module.to moves parameters and buffers", "m = nn.BatchNorm1d(4).to(D); r = m.running_mean + m.weight", GPU,
        source="doc/generated/torch.nn.Module.html", values=False),
    Row("a plain attribute stays", "m = nn.Identity(); m.t = torch.ones(2); r = m.to(D).t", CPU, source="the same"),
    Row("Module.to keeps the parameters' identity", "m = nn.Linear(2, 2); w = m.weight; m.to(D); r = w", GPU, source="the same", values=False),
    Row("Module.cuda", "r = nn.Linear(2, 2).cuda().weight", GPU, values=False),
    Row("Module.to(number)", "r = nn.Linear(2, 2).to(0).weight", GPU, values=False),
    Row("layer with device=", "r = nn.Linear(2, 2, device=D).bias", GPU, values=False),
    Row("Parameter of a device tensor", "r = nn.Parameter(c)", GPU),
    Row("Parameter.to is no parameter", "p = nn.Parameter(h).to(D); assert not isinstance(p, nn.Parameter) and not p.is_leaf; r = p", GPU,
        source="doc/generated/torch.Tensor.is_leaf.html", values=False),
    Row("optimizer refuses a moved leaf", "p = torch.zeros(2, requires_grad=True).to(D); torch.optim.SGD([p], lr=1.0)",
        error=("ValueError", "can't optimize a non-leaf Tensor"), source="torch/optim/optimizer.py"),
    Row("load_state_dict copies to where the parameters are",
        "m = linear().to(D); m.load_state_dict(linear().state_dict()); r = m.weight", GPU, source="torch/nn/modules/module.py"),
    Row("load_state_dict(assign=True) keeps what was loaded",
        "m = linear().to(D); m.load_state_dict(linear().state_dict(), assign=True); r = m.weight", CPU, source="the same"),
    # autograd and optimizers
    Row("gradients lie with their tensors", "p = nn.Parameter(c); (p * 2).sum().backward(); r = p.grad", GPU),
    Row("gradient through a move", "p = nn.Parameter(h); (p.to(D) * 3).sum().backward(); r = p.grad", CPU),
    Row("autograd.grad", "p = nn.Parameter(c); r, = torch.autograd.grad((p * p).sum(), [p])", GPU),
    Row("gradient assigned from elsewhere", "p = nn.Parameter(c); p.grad = h",
        error=runtime("attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'"
                      if VERSION >= (2, 9) else ""), source="torch/csrc/autograd/python_variable.cpp"),
    Row("hook", "p = nn.Parameter(c); out = []; q = p * 2; q.register_hook(out.append); q.sum().backward(); r = out[0]", GPU),
    Row("Adam made before the move", "m = linear(); o = torch.optim.Adam(m.parameters()); m.to(D)\n"
        "m(c).sum().backward(); o.step(); r = o.state[m.weight]['exp_avg']", GPU, source="torch/optim/adam.py: state is made lazily"),
    Row("Adagrad made before the move", "m = linear(); o = torch.optim.Adagrad(m.parameters()); m.to(D)\n"
        "m(c).sum().backward(); o.step()", error=runtime("Tensors of the same index must be on the same device and the same dtype except `step` tensors"), source="torch/optim/adagrad.py: state is made at once"),
    Row("Adagrad made after the move", "m = linear().to(D); o = torch.optim.Adagrad(m.parameters())\n"
        "m(c).sum().backward(); o.step(); r = m.weight", GPU, source="the same"),
    Row("optimizer state follows the parameters on loading",
        "m = linear(); o = torch.optim.Adam(m.parameters()); m(h).sum().backward(); o.step()\n"
        "n = linear().to(D); p = torch.optim.Adam(n.parameters()); p.load_state_dict(o.state_dict()); r = p.state[n.weight]['exp_avg']",
        GPU, source="torch/optim/optimizer.py, _process_value_according_to_param_policy"),
    Row("Adam's state loaded before the move",
        "m = linear(); o = torch.optim.Adam(m.parameters()); m(h).sum().backward(); o.step()\n"
        "n = linear(); p = torch.optim.Adam(n.parameters()); p.load_state_dict(o.state_dict()); n.to(D)\n"
        "n(c).sum().backward(); p.step()",
        error=runtime("Tensors of the same index must be on the same device and the same dtype except `step` tensors"),
        source="torch/optim/optimizer.py, load_state_dict; aten/src/ATen/native/ForeachUtils.h"),
    Row("Adam's state loaded before the move, tensor by tensor",
        "m = linear(); o = torch.optim.Adam(m.parameters()); m(h).sum().backward(); o.step()\n"
        "n = linear(); p = torch.optim.Adam(n.parameters(), foreach=False); p.load_state_dict(o.state_dict()); n.to(D)\n"
        "n(c).sum().backward(); p.param_groups[0]['foreach'] = False; p.step()", error=two(GPU, CPU), source=ITERATOR),
    Row("clip_grad_norm_", "m = linear().to(D); m(c).sum().backward(); r = nn.utils.clip_grad_norm_(m.parameters(), 1.0)", GPU),
    Row("autocast", "with torch.autocast('cuda', dtype=torch.bfloat16):\n    t = linear().to(D)(c)\nassert t.dtype == torch.bfloat16; r = t.float()",
        GPU, source="doc/amp.html", values=False),
    Row("autocast goes up to float32", "with torch.autocast('cuda', dtype=torch.bfloat16):\n    t = F.softmax(linear().to(D)(c), 1)\n"
        "assert t.dtype == torch.float32; r = t", GPU, source="doc/amp.html, CUDA ops that autocast to float32", values=False),
    Row("autocast leaves CPU tensors alone", "with torch.autocast('cuda', dtype=torch.bfloat16):\n    t = linear()(h)\nassert t.dtype == torch.float32; r = t",
        CPU, source="aten/src/ATen/autocast_mode.cpp: one key for each device"),
    Row("autocast, input on the host", "m = linear().to(D)\nwith torch.autocast('cuda', dtype=torch.float16):\n    m(c)\n    m(h)", error=argument("mat1", CPU, GPU, "addmm"), source=CHECK),
    Row("autocast of a torch.device", "with torch.autocast(torch.device(D)):\n    pass", error=("ValueError", "Expected `device_type` of type `str`"),
        source="torch/amp/autocast_mode.py"),
    # sequences
    Row("pack_padded_sequence, lengths on the device", "r = nn.utils.rnn.pack_padded_sequence(c, torch.tensor([4, 4, 4, 4], device=D))",
        error=runtime("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"),
        source="aten/src/ATen/native/PackedSequence.cpp"),
    Row("pack_padded_sequence, lengths on the host", "r = nn.utils.rnn.pack_padded_sequence(c, torch.tensor([4, 3, 2, 1])).data", GPU, source="the same"),
    Row("pad_packed_sequence gives lengths on the host",
        "r = nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_padded_sequence(c, torch.tensor([4, 3, 2, 1])))[1]", CPU, source="the same"),
    Row("packed LSTM", "p = nn.utils.rnn.pack_padded_sequence(c[:, :, None], torch.tensor([4, 3, 2, 1])); r = nn.LSTM(1, 2).to(D)(p)[0].data", GPU, values=False),
    # random numbers
    Row("a CPU generator for a device draw", "r = torch.randn(3, generator=torch.Generator(), device=D)",
        error=runtime("Expected a 'cuda' device type for generator but found 'cpu'"), source="aten/src/ATen/core/Generator.h"),
    Row("a device generator for a CPU draw", "r = torch.randperm(3, generator=torch.Generator(device=D))",
        error=runtime("Expected a 'cpu' device type for generator but found 'cuda'"), source="the same"),
    Row("multinomial with a CPU generator", "r = torch.multinomial(c, 1, generator=torch.Generator())",
        error=runtime("Expected a 'cuda' device type for generator but found 'cpu'"), source="the same"),
    Row("a device generator for a device draw", "g = torch.Generator(device=D).manual_seed(1); a = torch.rand(3, generator=g, device=D)\n"
        "g.manual_seed(1); r = a - torch.rand(3, generator=g, device=D)", GPU),
    Row("a device draw leaves the CPU's generator alone", "torch.manual_seed(3); torch.rand(5, device=D); r = torch.rand(2)", CPU,
        source="doc/notes/randomness.html", values=False),
    # checkpoints
    Row("torch.load goes where it was saved from", "r = reload(c)", GPU, source=DOC_LOAD),
    Row("torch.load of a state_dict", "r = reload(linear().to(D).state_dict())['weight']", GPU, source=DOC_LOAD),
    Row("map_location='cpu'", "r = reload(c, map_location='cpu')", CPU, source=DOC_LOAD),
    Row("map_location, a device", "r = reload(c, map_location=torch.device(E))", "cuda:1", source=DOC_LOAD, devices=2),
    Row("map_location, a dictionary", "r = reload(c, map_location={'cuda:0': 'cuda:1'})", "cuda:1", source=DOC_LOAD, devices=2),
    Row("map_location, a function", "r = reload(c, map_location=lambda storage, location: storage)", CPU, source=DOC_LOAD),
    Row("map_location out of range", "r = reload(c, map_location='cuda:77')",
        error=runtime("Attempting to deserialize object on CUDA device 77 but torch.cuda.device_count() is"), source="torch/serialization.py"),
    Row("a host tensor loads on the host", "r = reload(h)", CPU, source=DOC_LOAD),
    Row("shared storage stays shared", "a, b = reload([c, c[0]]); b.zero_(); r = a", GPU, source=DOC_LOAD),
    # streams
    Row("streams and events", "t = torch.cuda.Stream(); t.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(t):\n    b = c * 2\n"
        "torch.cuda.current_stream().wait_stream(t); e = torch.cuda.Event(); e.record(); e.synchronize(); r = b", GPU),
]  # fmt: skip
