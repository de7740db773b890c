"""What a checkpoint must bring back: numpy, pandas, torch, transformers, matplotlib."""

ROWS = {
    "array_kinds": {
        "setup": "import numpy as np\nc = np.arange(12.).reshape(3, 4)\nf = np.asfortranarray(c)\no = np.array([1, 'a', [2]], dtype=object)\n"
        "st = np.zeros(3, dtype=[('x', 'i4'), ('y', 'f8')])\ndt = np.array(['2026-01-01'], dtype='datetime64[D]')\n"
        "ma = np.ma.array([1, 2, 3], mask=[0, 1, 0])\nro = np.arange(5)\nro.flags.writeable = False\n"
        "zero = np.zeros((0, 3))\nscalar = np.float32(1.5)\nmat = np.matrix([[1, 2]])\nrec = np.rec.array([(1, 2.0)], names='a,b')\n"
        "u = np.array(['ab', 'c'])\nbig = np.ones((300, 1000))",
        "check": "import numpy as np\nassert (c == np.arange(12.).reshape(3, 4)).all() and c.flags.c_contiguous and c.flags.owndata\n"
        "assert f.flags.f_contiguous and not f.flags.c_contiguous and (f == c).all() and o[2] == [2]\n"
        "assert st.dtype.names == ('x', 'y') and dt[0] == np.datetime64('2026-01-01') and ma.sum() == 4\n"
        "assert not ro.flags.writeable and zero.shape == (0, 3) and type(scalar) is np.float32\n"
        "assert type(mat) is np.matrix and rec.a[0] == 1 and u[0] == 'ab' and big.sum() == 300000\n"
        "big[0, 0] = 5\nassert big[0, 0] == 5 and big.flags.writeable",
    },
    "views_and_bases": {
        "setup": "import numpy as np\nb = np.arange(100)\nv = b[10:20]\nr = b.reshape(10, 10)\nt = r.T\nneg = b[::-1]\nodd = b[1::2]\n"
        "bc = np.broadcast_to(b[:1], (5,))\nsame = b\nL = np.zeros((2000, 1000))\nLv = L[5]",
        "check": "v[0] = -1\nassert b[10] == -1 and r[1, 0] == -1 and t[0, 1] == -1 and neg[89] == -1 and same is b\n"
        "b[11] = -2\nassert odd[5] == -2\nb[0] = 7\nassert (bc == 7).all() and not bc.flags.writeable\n"
        "Lv[3] = 9\nassert L[5, 3] == 9",
    },
    "numpy_and_torch_share": {
        "setup": "import numpy as np, torch\nn = np.arange(10.)\nt = torch.from_numpy(n)\nt2 = torch.arange(5.)\nn2 = t2.numpy()\npart = torch.from_numpy(n[2:5])",
        "check": "n[3] = 99\nassert t[3] == 99 and part[1] == 99\nn2[0] = 5\nassert t2[0] == 5",
    },
    "numpy_random": {
        "setup": "import numpy as np, random\nrng = np.random.default_rng(3)\nrng.random()\nrs = np.random.RandomState(4)\nrs.rand()",
        "check": "import numpy as np\nr = np.random.default_rng(3); r.random()\nassert rng.random() == r.random()\n"
        "s = np.random.RandomState(4); s.rand()\nassert rs.rand() == s.rand()",
    },
    "pandas_frames": {
        "setup": "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': np.arange(1000), 'b': pd.Categorical(['x', 'y'] * 500),\n"
        "    'c': pd.date_range('2026', periods=1000, tz='Europe/Berlin'), 's': ['t'] * 1000, 'n': pd.array([1, None] * 500, dtype='Int64')})\n"
        "same = df\ncol = df['a']\ng = df.groupby('b')['a'].sum()\nmi = df.set_index(['b', 'a'])\nopt = pd.get_option('display.max_rows')",
        "check": "import pandas as pd\nassert same is df and df.shape == (1000, 5) and str(df.dtypes['b']) == 'category'\n"
        "assert str(df.dtypes['c']) == 'datetime64[us, Europe/Berlin]' or 'Europe/Berlin' in str(df.dtypes['c'])\n"
        "assert col.sum() == 499500 and g['x'] + g['y'] == 499500 and mi.index.names == ['b', 'a']\n"
        "assert df['n'].isna().sum() == 500 and df.loc[3, 's'] == 't'\ndf['z'] = 1\nassert df['z'].sum() == 1000",
    },
    "tensor_kinds": {
        "setup": "import torch\nd = torch.arange(6.).reshape(2, 3)\nb = d.bfloat16()\nf8 = d.to(torch.float8_e4m3fn)\nz = torch.tensor(3)\ne = torch.empty(0, 4)\n"
        "c = torch.complex(d, d)\nconj = c.conj()\nsp = torch.eye(3).to_sparse()\ncsr = torch.eye(3).to_sparse_csr()\nq = torch.quantize_per_tensor(d, 0.1, 10, torch.quint8)\n"
        "dev = torch.device('cpu')\ndtype = torch.bfloat16\nmeta = torch.empty(3, device='meta')\nbo = d > 2\nperm = torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1)",
        "check": "import torch\nassert torch.equal(d, torch.arange(6.).reshape(2, 3)) and b.dtype is torch.bfloat16 and b[1, 2] == 5\n"
        "assert f8.dtype is torch.float8_e4m3fn and f8.float()[1, 2] == 5 and z == 3 and z.shape == () and e.shape == (0, 4)\n"
        "assert conj.is_conj() and conj[0, 1] == 1 - 1j and sp.to_dense().sum() == 3 and csr.to_dense().sum() == 3\n"
        "assert q.dequantize()[0, 1] == 1 and dev == torch.device('cpu') and dtype is torch.bfloat16 and meta.is_meta\n"
        "assert bo.sum() == 3 and perm.shape == (4, 2, 3) and not perm.is_contiguous() and perm[1, 0, 0] == 1\n"
        "d.resize_(10, 10)",
    },
    "tensors_that_share": {
        "setup": "import torch\nbase = torch.zeros(10)\nv = base[2:5]\nm = torch.nn.Linear(3, 3)\nsd = m.state_dict()\n"
        "tied = torch.nn.Sequential(m, torch.nn.Linear(3, 3))\ntied[1].weight = m.weight\nbigt = torch.zeros(1000, 1000)\nbv = bigt.view(-1)[5:10]",
        "check": "v[0] = 1\nassert base[2] == 1\nassert tied[1].weight is m.weight and sd['weight'].data_ptr() == m.weight.data_ptr()\n"
        "bv[0] = 4\nassert bigt[0, 5] == 4 and len(list(tied.parameters())) == 3",
    },
    "training_goes_on": {
        "setup": "import torch\ntorch.manual_seed(0)\nm = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))\n"
        "opt = torch.optim.AdamW(m.parameters(), lr=0.01)\nsched = torch.optim.lr_scheduler.StepLR(opt, 2)\nx = torch.randn(4, 8)\n"
        "def step():\n    opt.zero_grad()\n    loss = m(x).square().mean()\n    loss.backward()\n    opt.step()\n    sched.step()\n    return loss.item()\n"
        "for _ in range(3): step()\n"
        "import copy\nstate = torch.get_rng_state()\nm2, o2 = copy.deepcopy(m), None\no2 = torch.optim.AdamW(m2.parameters(), lr=0.01)\no2.load_state_dict(copy.deepcopy(opt.state_dict()))\n"
        "o2.zero_grad(); l2 = m2(x).square().mean(); l2.backward(); o2.step()\nwant = [p.detach().clone() for p in m2.parameters()]\ntorch.set_rng_state(state)\nwanted_loss = l2.item()\ndel m2, o2, l2",
        "check": "import torch\nassert opt.param_groups[0]['params'][0] is next(m.parameters()) and sched.optimizer is opt\n"
        "assert next(m.parameters()).grad is not None\ntorch.set_rng_state(state)\nassert step() == wanted_loss\n"
        "assert all(torch.equal(a, b) for a, b in zip(m.parameters(), want))",
    },
    "autograd_graph": {
        "setup": "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * 2).sum()\nw.grad = torch.ones(3)",
        "check": "assert w.requires_grad and w.grad.sum() == 3 and loss.item() == 6 and loss.grad_fn is None\n"
        "assert [r['name'] for r in report.rebuilt_details] == ['loss'] and 'autograd graph' in report.rebuilt_details[0]['reason']",
    },
    "hooks": {
        "setup": "import torch\nm = torch.nn.Linear(2, 2)\nseen = []\nh = m.register_forward_hook(lambda mod, i, o: seen.append(1))\nm(torch.ones(1, 2))",
        "check": "import torch\nm(torch.ones(1, 2))\nassert seen == [1, 1]\nh.remove()\nm(torch.ones(1, 2))\nassert len(seen) == 2",
    },
    "torch_generator_and_modules": {
        "setup": "import torch\ng = torch.Generator().manual_seed(5)\ntorch.rand(2, generator=g)\nclass Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.l = torch.nn.Linear(2, 2)\n        self.register_buffer('b', torch.ones(1))\n"
        "    def forward(self, x): return self.l(x) + self.b\nnet = Net().eval()\nds = torch.utils.data.TensorDataset(torch.arange(10))\ndl = torch.utils.data.DataLoader(ds, 2)",
        "check": "import torch\nk = torch.Generator().manual_seed(5); torch.rand(2, generator=k)\nassert torch.equal(torch.rand(2, generator=g), torch.rand(2, generator=k))\n"
        "assert net(torch.zeros(1, 2)).shape == (1, 2) and not net.training and type(net) is Net and len(list(dl)) == 5",
    },
    "qwen2": {
        "setup": "import torch, transformers\ntorch.manual_seed(1)\nfrom transformers import Qwen2Config, Qwen2ForCausalLM\n"
        "cfg = Qwen2Config(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)\n"
        "model = Qwen2ForCausalLM(cfg).eval()\nids = torch.tensor([[1, 2, 3]])\nout = model.generate(ids, max_new_tokens=5, do_sample=False)\n"
        "from transformers import DynamicCache\ncache = DynamicCache()\nwith torch.no_grad():\n    first = model(ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)\n"
        "def ask(): return model.generate(ids, max_new_tokens=5, do_sample=False)",
        "check": "import torch\nassert torch.equal(ask(), out) and model.lm_head.weight is model.model.embed_tokens.weight\n"
        "assert ask.__globals__ is globals() and model.config.hidden_size == 32 and cache.get_seq_length() == 3\n"
        "with torch.no_grad():\n    second = model(first, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)\nassert second.item() == out[0, 4].item()",
    },
    "figure": {
        "setup": "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nline, = ax.plot([1, 2], [3, 4])",
        "check": "import matplotlib.pyplot as plt\nline.set_ydata([5, 6])\nassert list(ax.lines[0].get_ydata()) == [5, 6] and ax.figure is fig and plt.fignum_exists(fig.number)",
    },
    "memmap": {
        "setup": "import numpy as np, os\nm = np.memmap('mm.bin', 'f4', 'w+', shape=(10, 10))\nm[3, 3] = 7\npart = m[3]",
        "check": "import os\nassert m[3, 3] == 7 and os.path.getsize('mm.bin') == 400 and type(m).__name__ == 'memmap'\nm[0, 0] = 2\nm.flush()",
    },
}
