"""What a checkpoint must bring back: numpy, pandas, torch, transformers, matplotlib."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "array_kinds": {
        "setup": """
import numpy as np
c = np.arange(12.).reshape(3, 4)
f = np.asfortranarray(c)
o = np.array([1, 'a', [2]], dtype=object)
st = np.zeros(3, dtype=[('x', 'i4'), ('y', 'f8')])
dt = np.array(['2026-01-01'], dtype='datetime64[D]')
ma = np.ma.array([1, 2, 3], mask=[0, 1, 0])
ro = np.arange(5)
ro.flags.writeable = False
zero = np.zeros((0, 3))
scalar = np.float32(1.5)
mat = np.matrix([[1, 2]])
rec = np.rec.array([(1, 2.0)], names='a,b')
u = np.array(['ab', 'c'])
big = np.ones((300, 1000))""",
        "check": """
import numpy as np
assert (c == np.arange(12.).reshape(3, 4)).all() and c.flags.c_contiguous and c.flags.owndata
assert f.flags.f_contiguous and not f.flags.c_contiguous and (f == c).all() and o[2] == [2]
assert st.dtype.names == ('x', 'y') and dt[0] == np.datetime64('2026-01-01') and ma.sum() == 4
assert not ro.flags.writeable and zero.shape == (0, 3) and type(scalar) is np.float32
assert type(mat) is np.matrix and rec.a[0] == 1 and u[0] == 'ab' and big.sum() == 300000
big[0, 0] = 5
assert big[0, 0] == 5 and big.flags.writeable""",
    },
    "views_and_bases": {
        "setup": """
import numpy as np
b = np.arange(100)
v = b[10:20]
r = b.reshape(10, 10)
t = r.T
neg = b[::-1]
odd = b[1::2]
bc = np.broadcast_to(b[:1], (5,))
same = b
L = np.zeros((2000, 1000))
Lv = L[5]""",
        "check": """
v[0] = -1
assert b[10] == -1 and r[1, 0] == -1 and t[0, 1] == -1 and neg[89] == -1 and same is b
b[11] = -2
assert odd[5] == -2
b[0] = 7
assert (bc == 7).all() and not bc.flags.writeable
Lv[3] = 9
assert L[5, 3] == 9""",
    },
    "numpy_and_torch_share": {
        "setup": """
import numpy as np, torch
n = np.arange(10.)
t = torch.from_numpy(n)
t2 = torch.arange(5.)
n2 = t2.numpy()
part = torch.from_numpy(n[2:5])""",
        "check": """
n[3] = 99
assert t[3] == 99 and part[1] == 99
n2[0] = 5
assert t2[0] == 5""",
    },
    "numpy_random": {
        "setup": """
import numpy as np, random
rng = np.random.default_rng(3)
rng.random()
rs = np.random.RandomState(4)
rs.rand()""",
        "check": """
import numpy as np
r = np.random.default_rng(3); r.random()
assert rng.random() == r.random()
s = np.random.RandomState(4); s.rand()
assert rs.rand() == s.rand()""",
    },
    "pandas_frames": {
        "setup": """
import pandas as pd, numpy as np
df = pd.DataFrame({'a': np.arange(1000), 'b': pd.Categorical(['x', 'y'] * 500),
    'c': pd.date_range('2026', periods=1000, tz='Europe/Berlin'), 's': ['t'] * 1000, 'n': pd.array([1, None] * 500, dtype='Int64')})
same = df
col = df['a']
g = df.groupby('b')['a'].sum()
mi = df.set_index(['b', 'a'])
opt = pd.get_option('display.max_rows')""",
        "check": """
import pandas as pd
assert same is df and df.shape == (1000, 5) and str(df.dtypes['b']) == 'category'
assert str(df.dtypes['c']) == 'datetime64[us, Europe/Berlin]' or 'Europe/Berlin' in str(df.dtypes['c'])
assert col.sum() == 499500 and g['x'] + g['y'] == 499500 and mi.index.names == ['b', 'a']
assert df['n'].isna().sum() == 500 and df.loc[3, 's'] == 't'
df['z'] = 1
assert df['z'].sum() == 1000""",
    },
    "tensor_kinds": {
        "setup": """
import torch
d = torch.arange(6.).reshape(2, 3)
b = d.bfloat16()
f8 = d.to(torch.float8_e4m3fn)
z = torch.tensor(3)
e = torch.empty(0, 4)
c = torch.complex(d, d)
conj = c.conj()
sp = torch.eye(3).to_sparse()
csr = torch.eye(3).to_sparse_csr()
q = torch.quantize_per_tensor(d, 0.1, 10, torch.quint8)
dev = torch.device('cpu')
dtype = torch.bfloat16
meta = torch.empty(3, device='meta')
bo = d > 2
perm = torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1)""",
        "check": """
import torch
assert torch.equal(d, torch.arange(6.).reshape(2, 3)) and b.dtype is torch.bfloat16 and b[1, 2] == 5
assert f8.dtype is torch.float8_e4m3fn and f8.float()[1, 2] == 5 and z == 3 and z.shape == () and e.shape == (0, 4)
assert conj.is_conj() and conj[0, 1] == 1 - 1j and sp.to_dense().sum() == 3 and csr.to_dense().sum() == 3
assert q.dequantize()[0, 1] == 1 and dev == torch.device('cpu') and dtype is torch.bfloat16 and meta.is_meta
assert bo.sum() == 3 and perm.shape == (4, 2, 3) and not perm.is_contiguous() and perm[1, 0, 0] == 1
d.resize_(10, 10)""",
    },
    "tensors_that_share": {
        "setup": """
import torch
base = torch.zeros(10)
v = base[2:5]
m = torch.nn.Linear(3, 3)
sd = m.state_dict()
tied = torch.nn.Sequential(m, torch.nn.Linear(3, 3))
tied[1].weight = m.weight
bigt = torch.zeros(1000, 1000)
bv = bigt.view(-1)[5:10]""",
        "check": """
v[0] = 1
assert base[2] == 1
assert tied[1].weight is m.weight and sd['weight'].data_ptr() == m.weight.data_ptr()
bv[0] = 4
assert bigt[0, 5] == 4 and len(list(tied.parameters())) == 3""",
    },
    "training_goes_on": {
        "setup": """
import torch
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
opt = torch.optim.AdamW(m.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.StepLR(opt, 2)
x = torch.randn(4, 8)
def step():
    opt.zero_grad()
    loss = m(x).square().mean()
    loss.backward()
    opt.step()
    sched.step()
    return loss.item()
for _ in range(3): step()
import copy
state = torch.get_rng_state()
m2, o2 = copy.deepcopy(m), None
o2 = torch.optim.AdamW(m2.parameters(), lr=0.01)
o2.load_state_dict(copy.deepcopy(opt.state_dict()))
o2.zero_grad(); l2 = m2(x).square().mean(); l2.backward(); o2.step()
want = [p.detach().clone() for p in m2.parameters()]
torch.set_rng_state(state)
wanted_loss = l2.item()
del m2, o2, l2""",
        "check": """
import torch
assert opt.param_groups[0]['params'][0] is next(m.parameters()) and sched.optimizer is opt
assert next(m.parameters()).grad is not None
torch.set_rng_state(state)
assert step() == wanted_loss
assert all(torch.equal(a, b) for a, b in zip(m.parameters(), want))""",
    },
    "autograd_graph": {
        "setup": """
import torch
w = torch.ones(3, requires_grad=True)
loss = (w * 2).sum()
w.grad = torch.ones(3)""",
        "check": """
assert w.requires_grad and w.grad.sum() == 3 and loss.item() == 6 and loss.grad_fn is None
assert [r['name'] for r in report.rebuilt_details] == ['loss'] and 'autograd graph' in report.rebuilt_details[0]['reason']""",
    },
    "hooks": {
        "setup": """
import torch
m = torch.nn.Linear(2, 2)
seen = []
h = m.register_forward_hook(lambda mod, i, o: seen.append(1))
m(torch.ones(1, 2))""",
        "check": """
import torch
m(torch.ones(1, 2))
assert seen == [1, 1]
h.remove()
m(torch.ones(1, 2))
assert len(seen) == 2""",
    },
    "torch_generator_and_modules": {
        "setup": """
import torch
g = torch.Generator().manual_seed(5)
torch.rand(2, generator=g)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
        self.register_buffer('b', torch.ones(1))
    def forward(self, x): return self.l(x) + self.b
net = Net().eval()
ds = torch.utils.data.TensorDataset(torch.arange(10))
dl = torch.utils.data.DataLoader(ds, 2)""",
        "check": """
import torch
k = torch.Generator().manual_seed(5); torch.rand(2, generator=k)
assert torch.equal(torch.rand(2, generator=g), torch.rand(2, generator=k))
assert net(torch.zeros(1, 2)).shape == (1, 2) and not net.training and type(net) is Net and len(list(dl)) == 5""",
    },
    "qwen2": {
        "setup": """
import torch, transformers
torch.manual_seed(1)
from transformers import Qwen2Config, Qwen2ForCausalLM
cfg = Qwen2Config(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)
model = Qwen2ForCausalLM(cfg).eval()
ids = torch.tensor([[1, 2, 3]])
out = model.generate(ids, max_new_tokens=5, do_sample=False)
from transformers import DynamicCache
cache = DynamicCache()
with torch.no_grad():
    first = model(ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
def ask(): return model.generate(ids, max_new_tokens=5, do_sample=False)""",
        "check": """
import torch
assert torch.equal(ask(), out) and model.lm_head.weight is model.model.embed_tokens.weight
assert ask.__globals__ is globals() and model.config.hidden_size == 32 and cache.get_seq_length() == 3
with torch.no_grad():
    second = model(first, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
assert second.item() == out[0, 4].item()""",
    },
    "figure": {
        "setup": """
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
line, = ax.plot([1, 2], [3, 4])""",
        "check": """
import matplotlib.pyplot as plt
line.set_ydata([5, 6])
assert list(ax.lines[0].get_ydata()) == [5, 6] and ax.figure is fig and plt.fignum_exists(fig.number)""",
    },
    "memmap": {
        "setup": """
import numpy as np, os
m = np.memmap('mm.bin', 'f4', 'w+', shape=(10, 10))
m[3, 3] = 7
part = m[3]""",
        "check": """
import os
assert m[3, 3] == 7 and os.path.getsize('mm.bin') == 400 and type(m).__name__ == 'memmap'
m[0, 0] = 2
m.flush()""",
    },
}
