"""Torch: every kind of tensor, memory that is shared, modules, hooks, training that goes on."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "hook_of_all_modules_and_its_handle": {
        "setup": """
import torch
seen = []
hook = lambda module, args, result: seen.append(type(module).__name__)
handle = torch.nn.modules.module.register_module_forward_hook(hook)
layer = torch.nn.Linear(2, 2)""",
        "check": """
layer(torch.ones(1, 2)); assert seen == ['Linear']
handle.remove(); layer(torch.ones(1, 2)); assert seen == ['Linear']""",
    },
    "dtypes_of_every_kind": {
        "setup": """
import torch
torch.manual_seed(0)
raw = torch.randint(0, 255, (64,), dtype=torch.uint8)
names = [n for n in ('float8_e4m3fn', 'float8_e5m2', 'float8_e4m3fnuz', 'float8_e5m2fnuz', 'float8_e8m0fnu', 'float4_e2m1fn_x2',
    'float16', 'bfloat16', 'float32', 'float64', 'complex32', 'complex64', 'complex128', 'uint8', 'int8', 'int16', 'uint16',
    'int32', 'uint32', 'int64', 'uint64', 'bits8', 'bits16', 'bits1x8', 'bits2x4', 'bits4x2', 'uint1', 'uint4', 'int4', 'uint7') if hasattr(torch, n)]
all_kinds = {n: raw.clone().view(getattr(torch, n)) for n in names}
flags = torch.tensor([True, False, True])
sizes = torch.Size([2, 3])
layouts = [torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc, torch.jagged]
formats = [torch.contiguous_format, torch.channels_last, torch.channels_last_3d, torch.preserve_format]
dtypes = {torch.float32: 'a', torch.bfloat16: 'b', torch.float8_e5m2: 'c'}
devices = [torch.device('cpu'), torch.device('cuda', 0), torch.device('meta'), torch.device('cuda:1')]
qschemes = [torch.per_tensor_affine, torch.per_channel_affine, torch.per_tensor_symmetric]
finfo = torch.finfo(torch.float16)
iinfo = torch.iinfo(torch.int8)
scalar = torch.tensor(3.5)
empty = torch.empty(0, 4, 5, dtype=torch.int16)
nan_bits = torch.tensor([0x7fc00001, 0x7f800001, -1], dtype=torch.int32).view(torch.float32)""",
        "check": """
import torch
assert all(t.dtype is getattr(torch, n) for n, t in all_kinds.items()) and len(all_kinds) >= 25
assert all(torch.equal(t.view(torch.uint8), raw) for t in all_kinds.values())
assert flags.tolist() == [True, False, True] and type(sizes) is torch.Size and sizes.numel() == 6
assert layouts == [torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc, torch.jagged]
assert formats[1] is torch.channels_last and formats[0] is torch.contiguous_format and formats[3] is torch.preserve_format
assert dtypes[torch.bfloat16] == 'b' and dtypes[torch.float8_e5m2] == 'c'
assert devices == [torch.device('cpu'), torch.device('cuda:0'), torch.device('meta'), torch.device('cuda', 1)]
assert qschemes[1] is torch.per_channel_affine and finfo.max == 65504 and finfo.dtype == 'float16' and iinfo.max == 127
assert scalar.shape == () and scalar.item() == 3.5 and empty.shape == (0, 4, 5) and empty.dtype is torch.int16
assert nan_bits.view(torch.int32).tolist() == [0x7fc00001, 0x7f800001, -1]""",
    },
    "layouts_that_are_not_dense": {
        "setup": """
import torch
i = torch.tensor([[0, 1, 1], [2, 0, 2]])
v = torch.tensor([3., 4., 5.])
coo = torch.sparse_coo_tensor(i, v, (2, 3))
coalesced = coo.coalesce()
hybrid = torch.sparse_coo_tensor(i, torch.arange(6.).reshape(3, 2), (2, 3, 2)).coalesce()
dup = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1., 2.], (2, 2))
dense = torch.eye(4) * 2
csr, csc = dense.to_sparse_csr(), dense.to_sparse_csc()
bsr, bsc = dense.to_sparse_bsr((2, 2)), dense.to_sparse_bsc((2, 2))
values_of = csr.values()
coo_values = coalesced.values()
grad_coo = torch.sparse_coo_tensor(i, v.clone(), (2, 3), requires_grad=True)
half = dense.bfloat16().to_sparse_csr()
empty_coo = torch.sparse_coo_tensor(size=(3, 4))
again = csr
emb = torch.nn.Embedding(5, 2, sparse=True)
emb(torch.tensor([1, 1, 3])).sum().backward()
semi = [csr, csr, coo]""",
        "check": """
import torch
want = torch.tensor([[0., 0, 3], [4, 0, 5]])
assert torch.equal(coo.to_dense(), want) and not coo.is_coalesced() and coalesced.is_coalesced() and hybrid.to_dense()[1, 2].tolist() == [4, 5]
assert dup._nnz() == 2 and dup.coalesce()._nnz() == 1 and dup.to_dense()[0, 1] == 3
for x, layout in ((csr, torch.sparse_csr), (csc, torch.sparse_csc), (bsr, torch.sparse_bsr), (bsc, torch.sparse_bsc)):
    assert x.layout is layout and torch.equal(x.to_dense(), dense), x
values_of[0] = 9
assert csr.to_dense()[0, 0] == 9 and again is csr and semi[0] is csr and semi[2] is coo
coo_values[0] = 7
assert coalesced.to_dense()[0, 2] == 7
assert grad_coo.requires_grad and grad_coo.is_leaf and half.dtype is torch.bfloat16 and empty_coo.shape == (3, 4)
assert empty_coo._nnz() == 0, empty_coo
assert emb.weight.grad.is_sparse and emb.weight.grad.to_dense()[1].tolist() == [2, 2]
torch.optim.SparseAdam(emb.parameters()).step()""",
    },
    "nested_tensors": {
        "setup": """
import torch
a, b = torch.arange(3.), torch.arange(5.)
strided = torch.nested.nested_tensor([a, b])
jag = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4) * 2], layout=torch.jagged)
jag2 = jag * 3
offsets = jag.offsets()
leaf = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, requires_grad=True)
values = jag.values()""",
        "check": """
import torch
assert strided.is_nested and [t.tolist() for t in strided.unbind()] == [[0, 1, 2], [0, 1, 2, 3, 4]]
assert jag.layout is torch.jagged and [len(t) for t in jag.unbind()] == [2, 3] and jag.unbind()[1].sum() == 24
assert jag.offsets() is offsets or torch.equal(jag.offsets(), offsets)
both = jag + jag2
assert both.unbind()[0].sum() == 32 and leaf.requires_grad
(leaf * 2).values().sum().backward()
values[0, 0] = 50
assert jag.unbind()[0][0, 0] == 50""",
    },
    "quantised_tensors_and_modules": {
        "setup": """
import torch
torch.manual_seed(0)
x = torch.randn(4, 6)
per_tensor = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
signed = torch.quantize_per_tensor(x, 0.05, 0, torch.qint8)
wide = torch.quantize_per_tensor(x, 0.001, 0, torch.qint32)
scales, zeros = torch.rand(4) * 0.1 + 0.01, torch.zeros(4, dtype=torch.int64)
per_channel = torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)
int4 = torch.quantize_per_channel(torch.randn(4, 8), torch.rand(4) + 0.1, torch.zeros(4), 0, torch.quint4x2)
view = per_tensor[1:3]
wants = [per_tensor.dequantize(), signed.dequantize(), per_channel.dequantize(), view.dequantize(), int4.dequantize()]
engine = torch.backends.quantized.engine
import warnings
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    dynamic = torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear}, dtype=torch.qint8)
    lstm = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.LSTM(6, 4)), {torch.nn.LSTM})
    observer = torch.ao.quantization.HistogramObserver()
    observer(x)
    fake = torch.ao.quantization.FakeQuantize()
    fake(x)
    prepared = torch.ao.quantization.prepare(torch.nn.Sequential(torch.ao.quantization.QuantStub(), torch.nn.Linear(6, 2),
        torch.ao.quantization.DeQuantStub()).eval().train(False), inplace=False)
out = dynamic(x)""",
        "check": """
import torch
now = [per_tensor.dequantize(), signed.dequantize(), per_channel.dequantize(), view.dequantize(), int4.dequantize()]
assert all(torch.equal(a, b) for a, b in zip(now, wants)) and wide.dtype is torch.qint32
assert per_tensor.q_scale() == 0.1 and per_tensor.q_zero_point() == 10 and torch.equal(per_channel.q_per_channel_scales().float(), scales)
per_tensor.int_repr()
per_tensor[1, 0] = 0.5
assert view[0, 0].dequantize() == per_tensor[1, 0].dequantize() and torch.backends.quantized.engine == engine
import warnings
warnings.simplefilter('ignore')
assert torch.equal(dynamic(x), out) and type(dynamic[0]).__module__.startswith('torch.ao.nn.quantized')
assert lstm(torch.randn(3, 1, 6))[0].shape == (3, 1, 4)
observer(x); observer.calculate_qparams(); fake(x); prepared(x)""",
    },
    "views_conjugates_and_strides": {
        "setup": """
import torch
c = torch.complex(torch.arange(6.), torch.ones(6)).reshape(2, 3)
conj = c.conj()
neg = c.conj().imag
real = c.real
base = torch.arange(24.)
strided = base.as_strided((4, 3), (6, 2), 1)
expanded = torch.arange(3.).reshape(3, 1).expand(3, 5)
overlap = base.unfold(0, 4, 2)
transposed = base.view(4, 6).t()
flipped = torch.flip(base, (0,))
chan = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
scalar_view = base[7]
as_bytes = base.view(torch.uint8)
split = base.split(6)
diag = base.view(4, 6)[:, :4].diagonal()
empty_view = base[5:5]
detached = base.detach()
meta = torch.empty(3, 4, device='meta', dtype=torch.float16)
meta_model = torch.nn.Linear(3, 4, device='meta')
with torch.inference_mode():
    inferred = torch.ones(3)
with torch.device('meta'):
    big = torch.empty(10**6, 10**6)""",
        "check": """
import torch
assert conj.is_conj() and conj.is_conj() and neg.is_neg() and torch.equal(conj.imag, -c.imag)
c[0, 0] = 5 + 7j
assert conj[0, 0] == 5 - 7j and neg[0, 0] == -7 and real[0, 0] == 5
base[7] = 100
assert strided.stride() == (6, 2) and strided[1, 0] == 100 and overlap[2, 3] == 100 and transposed[1, 1] == 100 and scalar_view == 100
assert as_bytes.view(torch.float32)[7] == 100 and split[1][1] == 100 and diag[1] == 100 and empty_view.shape == (0,) and detached[7] == 100
assert expanded.stride() == (1, 0) and expanded.shape == (3, 5) and expanded[2, 4] == 2 and expanded.untyped_storage().nbytes() == 12
assert chan.is_contiguous(memory_format=torch.channels_last) and flipped[0] == 23
assert meta.is_meta and meta.dtype is torch.float16 and meta_model.weight.is_meta and big.shape == (10**6, 10**6)
assert empty_view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr() and inferred.sum() == 3
meta_model.to_empty(device='cpu')""",
    },
    "gradients_and_graphs": {
        "setup": """
import torch
w = torch.ones(3, requires_grad=True)
u = torch.full((3,), 2., requires_grad=True)
mid = w * 2
mid.retain_grad()
loss = (mid * u).sum()
loss.backward(retain_graph=True)
fired = []
handle = u.register_hook(lambda g: fired.append(g.sum().item()) or g * 10)
post = u.register_post_accumulate_grad_hook(lambda p: fired.append('post'))
view = w.detach()[1:]
frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
holder = {'loss': loss, 'w': w}
losses = [mid.sum() for _ in range(3)]""",
        "check": """
import torch
assert w.is_leaf and w.grad.tolist() == [2, 2, 2] * 1 or w.grad.tolist() == [4, 4, 4]
assert loss.item() == 12 and loss.grad_fn is None and mid.tolist() == [2, 2, 2] and mid.grad.tolist() == [2, 2, 2]
assert holder['loss'] is loss and holder['w'] is w and len(losses) == 3 and losses[0].item() == 6
rebuilt = {r['name'] for r in report.rebuilt_details}
assert rebuilt == {'mid', 'loss', 'losses'}, rebuilt
(u * 3).sum().backward()
assert fired == [9.0, 'post'] and u.grad.tolist() == [2 + 30] * 3, (fired, u.grad)
handle.remove(); post.remove()
u.grad = None
(u * 3).sum().backward()
assert u.grad.tolist() == [3] * 3 and len(fired) == 2 and not frozen.requires_grad
view[0] = 9
assert w[1].item() == 9""",
    },
    "storages_themselves": {
        "setup": """
import torch
t = torch.arange(10.)
storage = t.untyped_storage()
import warnings
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    typed = t.storage()
    legacy = torch.FloatStorage([1, 2, 3])
alone = torch.UntypedStorage(16)
alone.fill_(3)
none = torch.UntypedStorage(0)
half = torch.arange(10, dtype=torch.bfloat16)[2:4]
tail = torch.arange(8.)[6:]""",
        "check": """
import torch, warnings
warnings.simplefilter('ignore')
storage.fill_(0)
assert t.sum() == 0 and typed[3] == 0 and typed.dtype is torch.float32 and legacy.tolist() == [1, 2, 3] and isinstance(legacy, torch.FloatStorage)
assert alone.tolist() == [3] * 16 and none.nbytes() == 0 and half.untyped_storage().nbytes() == 20 and half.storage_offset() == 2
alone.resize_(64)
tail.resize_(20)
assert tail.shape == (20,) and tail[0] == 6""",
    },
    "memory_shared_with_numpy_and_files": {
        "setup": """
import torch, numpy as np
a = np.arange(12.).reshape(3, 4)
t = torch.from_numpy(a)
part = t[1]
t2 = torch.ones(5)
n2 = t2.numpy()
n3 = n2[1:3]
as_tensor = torch.as_tensor(a[2])
d = torch.from_dlpack(a)
np.arange(6, dtype='f4').tofile('file.bin')
mapped = torch.from_file('file.bin', shared=True, size=6)
private = torch.from_file('file.bin', shared=False, size=6)
shared = torch.ones(4).share_memory_()
big = np.zeros((600, 600)); bt = torch.from_numpy(big); bv = bt[::2, 1]""",
        "check": """
import torch, numpy as np
a[1, 2] = 70
assert t[1, 2] == 70 and part[2] == 70 and d[1, 2] == 70
t[2, 3] = 80
assert a[2, 3] == 80 and as_tensor[3] == 80
n3[0] = 5
assert t2[1] == 5 and n2[1] == 5
t2[2] = 6
assert n3[1] == 6
assert mapped.tolist() == [0, 1, 2, 3, 4, 5] and private.tolist() == mapped.tolist() and shared.is_shared() and shared.sum() == 4
private[0] = 9
assert np.fromfile('file.bin', 'f4')[0] == 0 and mapped[0] == 0
mapped[1] = 8
assert np.fromfile('file.bin', 'f4')[1] == 8
big[2, 1] = 3
assert bv[1] == 3""",
    },
    "parameters_and_subclasses": {
        "setup": """
import torch
class Tagged(torch.Tensor):
    @staticmethod
    def __new__(cls, x, tag=None):
        made = torch.Tensor._make_subclass(cls, x)
        made.tag = tag
        return made
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs)
        return out
    def shout(self): return f'{self.tag}!'
class MyParam(torch.nn.Parameter):
    def extra(self): return self.note
class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32, strides=inner.stride())
    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale
    def __tensor_flatten__(self): return ['inner'], {'scale': self.scale}
    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride): return Wrapper(inner['inner'], meta['scale'])
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        plain = [a.inner.float() * a.scale if isinstance(a, Wrapper) else a for a in args]
        return func(*plain, **(kwargs or {}))
    def __repr__(self): return 'Wrapper'
# %%
tagged = Tagged(torch.arange(3.), 'hey')
plain = tagged.as_subclass(torch.Tensor)
mine = MyParam(torch.ones(2))
mine.note = 'n'
buf = torch.nn.Buffer(torch.ones(1))
inner = torch.arange(4, dtype=torch.int8)
wrapped = Wrapper(inner, 0.5)
model = torch.nn.Module()
model.p = mine
model.q = torch.nn.Parameter(torch.arange(2.))
model.alias = model.q
twice = [model.q, model.q.data]
from torch.masked import masked_tensor""",
        "check": """
import torch
assert type(tagged) is Tagged and tagged.shout() == 'hey!' and type(tagged + 1) is Tagged
plain[0] = 5
assert tagged[0].item() == 5
assert type(mine) is MyParam and mine.extra() == 'n' and isinstance(mine, torch.nn.Parameter) and mine.requires_grad
assert type(wrapped) is Wrapper and wrapped.inner is inner and wrapped.scale == 0.5 and torch.add(wrapped, 1).tolist() == [1, 1.5, 2, 2.5]
assert model.alias is model.q and len(list(model.parameters())) == 2 and model.p is mine
twice[1][0] = 4
assert model.q[0].item() == 4 and isinstance(buf, torch.nn.Buffer)""",
    },
    "lazy_norms_pruning_and_parametrizations": {
        "setup": """
import torch, warnings
from torch import nn
from torch.nn.utils import parametrize, prune, parametrizations
torch.manual_seed(0)
lazy = nn.LazyLinear(3)
half_lazy = nn.Sequential(nn.LazyConv1d(4, 2), nn.LazyBatchNorm1d())
wn = parametrizations.weight_norm(nn.Linear(3, 3))
sn = parametrizations.spectral_norm(nn.Linear(3, 3))
orth = parametrizations.orthogonal(nn.Linear(3, 3))
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    old_wn = torch.nn.utils.weight_norm(nn.Linear(3, 3))
    old_sn = torch.nn.utils.spectral_norm(nn.Linear(3, 3))
class Symmetric(nn.Module):
    def forward(self, x): return x.triu() + x.triu(1).mT
own = nn.Linear(3, 3)
parametrize.register_parametrization(own, 'weight', Symmetric())
pruned = nn.Linear(4, 4)
prune.l1_unstructured(pruned, 'weight', amount=0.5)
prune.random_structured(pruned, 'weight', amount=1, dim=0)
ml = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
pl = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(1))])
md = nn.ModuleDict({'a': nn.ReLU(), 'b': ml[0]})
pd = nn.ParameterDict({'x': nn.Parameter(torch.ones(1))})
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('kept', torch.ones(1))
        self.register_buffer('temp', torch.zeros(1), persistent=False)
        self.register_parameter('none', None)
    def forward(self, x): return x + self.kept
net = Net()
rnn = nn.LSTM(3, 4, num_layers=2)
bn = nn.BatchNorm1d(3); bn(torch.randn(4, 3))
mha = nn.MultiheadAttention(4, 2)
enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True), 2).eval()
x = torch.randn(2, 3)
import warnings
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    dp = nn.DataParallel(nn.Linear(3, 3))
    outs = [m.eval()(x) for m in (wn, sn, orth, old_wn, old_sn, own, dp)]
p_out = pruned(torch.ones(1, 4))
conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
embedding = nn.Embedding.from_pretrained(torch.eye(3))""",
        "check": """
import torch, warnings
warnings.simplefilter('ignore')
assert all(torch.equal(m(x), o) for m, o in zip((wn, sn, orth, old_wn, old_sn, own, dp), outs))
assert lazy(torch.ones(2, 7)).shape == (2, 3) and type(lazy) is torch.nn.Linear and half_lazy(torch.ones(2, 3, 5)).shape == (2, 4, 4)
torch.nn.utils.parametrize.remove_parametrizations(own, 'weight')
assert torch.equal(own.weight, own.weight.mT)
assert torch.equal(pruned(torch.ones(1, 4)), p_out) and len(pruned._forward_pre_hooks) == 1
torch.nn.utils.prune.remove(pruned, 'weight')
assert len(pruned._forward_pre_hooks) == 0
torch.nn.utils.remove_weight_norm(old_wn)
assert md['b'] is ml[0] and len(pl) == 2 and pd['x'].item() == 1 and list(net.state_dict()) == ['kept'] and net.temp.item() == 0 and net.none is None
assert rnn(torch.randn(5, 1, 3))[0].shape == (5, 1, 4) and bn.num_batches_tracked == 1 and enc(torch.ones(1, 2, 4)).shape == (1, 2, 4)
assert mha(torch.ones(1, 1, 4), torch.ones(1, 1, 4), torch.ones(1, 1, 4))[0].shape == (1, 1, 4)
assert conv.weight.is_contiguous(memory_format=torch.channels_last) and not embedding.weight.requires_grad
(wn.weight.sum() + sn(x).sum()).backward()
assert wn.parametrizations.weight.original0.grad is not None
rnn.flatten_parameters()""",
    },
    "hooks_of_every_kind": {
        "setup": """
import torch
from torch import nn
calls = []
m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
def note(name):
    def hook(*args): calls.append(name)
    return hook
handles = {
    'pre': m.register_forward_pre_hook(note('pre')),
    'kw': m[0].register_forward_hook(lambda mod, args, kwargs, out: calls.append('kw'), with_kwargs=True),
    'always': m[0].register_forward_hook(note('always'), always_call=True),
    'bwd': m[1].register_full_backward_hook(note('bwd')),
    'bwdpre': m[1].register_full_backward_pre_hook(note('bwdpre')),
    'sd': m._register_state_dict_hook(note('sd')),
    'sdpre': m.register_state_dict_pre_hook(note('sdpre')),
    'ld': m.register_load_state_dict_post_hook(note('ld')),
    'ldpre': m.register_load_state_dict_pre_hook(note('ldpre')),
}
opt = torch.optim.SGD(m.parameters(), 0.1)
handles['step'] = opt.register_step_post_hook(note('step'))
handles['prepended'] = m[0].register_forward_hook(note('first'), prepend=True)
class Probe:
    def __init__(self): self.seen = 0
    def __call__(self, mod, i, o): self.seen += 1
    def method(self, mod, i, o): self.seen += 10
probe = Probe()
h1 = m[1].register_forward_hook(probe)
h2 = m[1].register_forward_hook(probe.method)""",
        "check": """
import torch
m(torch.ones(1, 2)).sum().backward()
opt.step()
m.load_state_dict(m.state_dict())
assert sorted(calls) == sorted(['pre', 'first', 'kw', 'always', 'bwdpre', 'bwd', 'step', 'sdpre', 'sd', 'ldpre', 'ld']), calls
assert calls.index('first') < calls.index('kw') and probe.seen == 11
for h in handles.values(): h.remove()
h1.remove()
calls.clear()
m(torch.ones(1, 2)).sum().backward(); opt.step(); m.load_state_dict(m.state_dict())
assert calls == [] and probe.seen == 21, calls
new = m.register_forward_hook(lambda *a: calls.append('new'))
m(torch.ones(1, 2))
assert calls == ['new']
new.remove()
h2.remove()
m(torch.ones(1, 2))
assert calls == ['new'] and probe.seen == 31""",
    },
    "optimizers_schedulers_and_averages": {
        "setup": """
import torch, copy
from torch.optim import lr_scheduler as L
torch.manual_seed(0)
x, y = torch.randn(8, 4), torch.randn(8, 1)
warm = 3
def lam():
    scale = 0.9
    def f(epoch): return scale ** epoch if epoch >= warm else 1.0
    return f
class Decay:
    def __init__(self, k): self.k = k
    def __call__(self, epoch): return self.k ** epoch
def sequential(o):
    return L.SequentialLR(o, [L.LinearLR(o, 0.1, total_iters=2), L.ExponentialLR(o, 0.9)], milestones=[2])
makers = {
    'sgd': (lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True), lambda o: L.LambdaLR(o, lam())),
    'adam': (lambda p: torch.optim.Adam(p, 0.01, amsgrad=True), lambda o: L.OneCycleLR(o, 0.1, total_steps=30)),
    'adamw': (lambda p: torch.optim.AdamW(p, 0.01, foreach=True), lambda o: L.CosineAnnealingWarmRestarts(o, 3)),
    'fused': (lambda p: torch.optim.AdamW(p, 0.01, fused=True), sequential),
    'rms': (lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5), lambda o: L.MultiplicativeLR(o, Decay(0.95))),
    'adagrad': (lambda p: torch.optim.Adagrad(p, 0.01), lambda o: L.CyclicLR(o, 0.01, 0.1, cycle_momentum=False)),
    'nadam': (lambda p: torch.optim.NAdam(p, 0.01), lambda o: L.PolynomialLR(o, 10)),
    'rprop': (lambda p: torch.optim.Rprop(p, 0.01), lambda o: L.ChainedScheduler([L.ConstantLR(o), L.ExponentialLR(o, 0.9)])),
    'groups': (lambda p: torch.optim.AdamW([{'params': list(p)[:1], 'lr': 0.1}, {'params': list(p)[1:2]}], 0.01), lambda o: L.MultiStepLR(o, [1, 4])),
}
def step(r):
    r['o'].zero_grad()
    loss = torch.nn.functional.mse_loss(r['m'](x), y)
    if 'scaler' in r:
        r['scaler'].scale(loss).backward(); r['scaler'].step(r['o']); r['scaler'].update(); r['ema'].update_parameters(r['m'])
    else:
        loss.backward(); r['o'].step()
    r['s'].step()
    return loss.item()
def build():
    torch.manual_seed(1)
    runs = {}
    for name, (mo, ms) in makers.items():
        m = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(0.3), torch.nn.Linear(6, 1))
        o = mo(list(m.parameters()))
        runs[name] = dict(m=m, o=o, s=ms(o))
        if name == 'sgd':
            runs[name]['ema'] = torch.optim.swa_utils.AveragedModel(m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
            runs[name]['scaler'] = torch.amp.GradScaler('cpu', init_scale=64., growth_interval=2)
    for _ in range(4):
        for r in runs.values(): step(r)
    plateau_m = torch.nn.Linear(2, 1)
    plateau_o = torch.optim.SGD(plateau_m.parameters(), 0.1)
    plateau = L.ReduceLROnPlateau(plateau_o, patience=1)
    for v in (1., 1., 1.): plateau.step(v)
    lb_m = torch.nn.Linear(4, 1)
    lb = torch.optim.LBFGS(lb_m.parameters(), history_size=5, line_search_fn='strong_wolfe')
    def closure():
        lb.zero_grad(); l = torch.nn.functional.mse_loss(lb_m(x), y); l.backward(); return l
    for _ in range(2): lb.step(closure)
    return runs, plateau, plateau_o, lb_m, lb, closure, torch.get_rng_state()
def go_on(runs, plateau, plateau_o, lb_m, lb, closure, state):
    torch.set_rng_state(state)
    got = [[step(r) for _ in range(3)] for r in runs.values()]
    got += [[p.sum().item() for p in r['m'].parameters()] for r in runs.values()]
    got.append([lb.step(closure).item(), lb_m.weight.sum().item()])
    plateau.step(1.)
    return got + [[plateau_o.param_groups[0]['lr']]]
wanted = go_on(*build())
runs, plateau, plateau_o, lb_m, lb, closure, state = build()
swa_m = torch.optim.swa_utils.AveragedModel(lb_m); swa_m.update_parameters(lb_m)
swa_s = torch.optim.swa_utils.SWALR(plateau_o, 0.05)
sd_before = runs['adam']['m'].state_dict()
o_sd = runs['adam']['o'].state_dict()""",
        "check": """
import torch
for r in runs.values():
    o = r['o']
    assert o.param_groups[0]['params'][0] is next(r['m'].parameters())
    assert getattr(r['s'], 'optimizer', o) is o
    assert all(k is p for k in o.state for g in o.param_groups for p in g['params'] if k is p)
assert sd_before['0.weight'].data_ptr() == runs['adam']['m'][0].weight.data_ptr()
assert o_sd['state'][0]['exp_avg'] is runs['adam']['o'].state[runs['adam']['m'][0].weight]['exp_avg']
got = go_on(runs, plateau, plateau_o, lb_m, lb, closure, state)
assert got == wanted, [(a, b) for a, b in zip(got, wanted) if a != b]
assert runs['sgd']['scaler'].get_scale() > 64 and swa_m.n_averaged == 1 and swa_s.optimizer is plateau_o
assert runs['sgd']['ema'].n_averaged == 7""",
    },
    "functions_ops_and_generators_of_torch": {
        "setup": """
import torch
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
apply = Double.apply
g = torch.Generator().manual_seed(7)
torch.randn(3, generator=g)
default = torch.default_generator
lib_ops = [torch.add, torch.nn.functional.relu, torch.ops.aten.add.Tensor, torch.ops.aten.mul, torch.Tensor.add_]
bound = torch.arange(3.).add
from functools import partial
act = partial(torch.clamp, min=0)
vm = torch.func.vmap(lambda r: r.sum())
gr = torch.func.grad(lambda r: (r ** 2).sum())
dist = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
cat = torch.distributions.Categorical(logits=torch.arange(3.))
trans = torch.distributions.TransformedDistribution(dist, [torch.distributions.ExpTransform()])
no_grad = torch.no_grad()
ac = torch.autocast('cpu', torch.bfloat16)
ev = torch.autograd.profiler.profile
ret = torch.return_types.max
best = torch.arange(4.).max(0)
packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
@torch.no_grad()
def decorated(x): return x * 2
@torch.inference_mode()
def decorated2(x): return x * 2""",
        "check": """
import torch
x = torch.ones(2, requires_grad=True)
apply(x).sum().backward()
assert x.grad.tolist() == [2, 2] and Double.apply(x).tolist() == [2, 2]
k = torch.Generator().manual_seed(7); torch.randn(3, generator=k)
assert torch.equal(torch.randn(3, generator=g), torch.randn(3, generator=k)) and default is torch.default_generator
assert lib_ops == [torch.add, torch.nn.functional.relu, torch.ops.aten.add.Tensor, torch.ops.aten.mul, torch.Tensor.add_]
assert lib_ops[2](torch.ones(1), torch.ones(1)).item() == 2 and bound(1).tolist() == [1, 2, 3] and act(torch.tensor([-1.])).item() == 0
assert vm(torch.ones(2, 3)).tolist() == [3, 3] and gr(torch.ones(2)).tolist() == [2, 2]
assert dist.sample().shape == (2,) and cat.probs.sum().item() > 0.99 and trans.sample().shape == (2,)
with no_grad: assert not (x * 2).requires_grad
with ac: assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
assert best.values.item() == 3 and best.indices.item() == 3 and type(best) is ret and packed.data.shape == (5,)
assert not decorated(x).requires_grad and decorated2(x).is_inference()""",
    },
}

#: Those that only the long form carries.
MORE = {
    name: ROWS.pop(name)
    for name in (
        "dtypes_of_every_kind",
        "nested_tensors",
        "quantised_tensors_and_modules",
        "storages_themselves",
        "memory_shared_with_numpy_and_files",
        "parameters_and_subclasses",
        "functions_ops_and_generators_of_torch",
    )
}
