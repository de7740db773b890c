"""Small notebooks, data: numpy, pandas, arrow, matplotlib."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "numpy_kinds": {
        "setup": """
import numpy as np
nk_c = np.arange(12.).reshape(3, 4); nk_f = np.asfortranarray(nk_c); nk_o = np.array([1, 'a', None, [2]], dtype=object); nk_s = np.array([(1, 2.5, 'x')], dtype=[('i', 'i4'), ('f', 'f8'), ('s', 'U5')])
nk_d = np.array(['2026-01-01', 'NaT'], dtype='datetime64[D]'); nk_m = np.ma.masked_array([1, 2, 3], [0, 1, 0]); nk_r = np.arange(3); nk_r.setflags(write=False)
nk_e = np.empty((0, 3)); nk_z = np.array(5); nk_b = np.array([b'ab', b'c']); nk_h = np.arange(4, dtype='>i2'); nk_half = np.float16([1.5]); nk_rec = nk_s.view(np.recarray); nk_sc = np.float32(1.1)
nk_mat = np.eye(300)""",
        "check": """
assert nk_f.flags.f_contiguous and (nk_f == nk_c).all() and nk_o[3] == [2] and nk_o[2] is None and nk_s['s'][0] == 'x' and np.isnat(nk_d[1]) and nk_m.mask.tolist() == [False, True, False]
assert not nk_r.flags.writeable and nk_e.shape == (0, 3) and nk_z.shape == () and nk_b[0] == b'ab' and nk_h.dtype.str == '>i2' and nk_h[3] == 3 and nk_half.dtype == np.float16
assert type(nk_rec) is np.recarray and nk_rec.f[0] == 2.5 and type(nk_sc) is np.float32 and nk_mat.trace() == 300""",
    },
    "numpy_views": {
        "setup": """
import numpy as np
nv_base = np.arange(20.); nv_view = nv_base[5:15]; nv_step = nv_base[::3]; nv_rev = nv_base[::-1]; nv_mat = nv_base.reshape(4, 5); nv_t = nv_mat.T; nv_only = np.arange(100)[10:20]
nv_obj = np.array([[1], [2], [3]], dtype=object); nv_objv = nv_obj[1:]; nv_bc = np.broadcast_to(np.arange(3), (4, 3)); nv_fields = np.zeros(3, [('a', 'i4'), ('b', 'f8')]); nv_b = nv_fields['b']""",
        "check": """
nv_base[5] = -1; assert nv_view[0] == -1 and nv_mat[1, 0] == -1 and nv_t[0, 1] == -1 and nv_rev[14] == -1
nv_step[1] = 99; assert nv_base[3] == 99; nv_b[1] = 7; assert nv_fields['b'][1] == 7 and nv_bc.strides == (0, 8) and nv_only[0] == 10
nv_obj[1, 0] = 'new'; assert nv_objv[0, 0] == 'new'""",
    },
    "memory_shared_otherwise": {
        "setup": """
import numpy as np, torch
ms_buf = bytearray(range(64)); ms_arr = np.frombuffer(ms_buf, dtype='u1'); ms_mv = memoryview(ms_buf)[8:16]
ms_np = np.ones(50, dtype='f4'); ms_t = torch.from_numpy(ms_np); ms_t2 = torch.zeros(10); ms_np2 = ms_t2.numpy()
ms_map = np.memmap('ms.dat', dtype='i4', mode='w+', shape=(10,)); ms_map[:] = np.arange(10); ms_map.flush()""",
        "check": """
ms_buf[8] = 200; assert ms_arr[8] == 200 and ms_mv[0] == 200
ms_np[3] = 42; assert ms_t[3] == 42; ms_t2[1] = 5; assert ms_np2[1] == 5
assert ms_map[4] == 4; ms_map[4] = 44; ms_map.flush(); assert np.fromfile('ms.dat', 'i4')[4] == 44""",
    },
    "pandas_frames": {
        "setup": """
import pandas as pd, numpy as np
pf_df = pd.DataFrame({'i': [1, 2, 3], 'f': [1.5, np.nan, 2.5], 's': ['a', None, 'c'], 'c': pd.Categorical(['lo', 'hi', 'lo'], ['lo', 'hi'], ordered=True), 't': pd.date_range('2026-03-28', periods=3, tz='Europe/Berlin'), 'n': pd.array([1, None, 3], dtype='Int64')})
pf_alias = pf_df; pf_col = pf_df['i']; pf_df.attrs['unit'] = 'kg'; pf_multi = pf_df.set_index(['s', 'i']); pf_g = pf_df.groupby('c', observed=True); pf_per = pd.period_range('2026-01', periods=3, freq='M'); pf_sp = pd.arrays.SparseArray([0, 0, 1])
pf_wide = pd.DataFrame(np.arange(40.).reshape(8, 5), columns=list('abcde')); pf_roll = pf_wide['a'].rolling(2)""",
        "check": """
assert pf_alias is pf_df and pf_df.dtypes.astype(str).to_dict()['t'].startswith('datetime64') and 'Berlin' in str(pf_df.t.dtype) and pf_df.c.cat.ordered and pf_df.n.isna().tolist() == [False, True, False]
assert pf_df.attrs == {'unit': 'kg'} and pf_multi.loc[('a', 1), 'f'] == 1.5 and pf_g.f.sum()['lo'] == 4.0 and str(pf_per[1]) == '2026-02' and pf_sp.sum() == 1 and pf_roll.sum().iloc[1] == 5
pf_df['new'] = 1; assert 'new' in pf_alias and pf_col.tolist() == [1, 2, 3]; pf_wide.loc[0, 'a'] = -5; assert pf_wide['a'].iloc[0] == -5""",
    },
    "arrow_tables": {
        "needs": "pyarrow",
        "setup": """
import pyarrow as pa
ar_t = pa.table({'x': list(range(1000)), 's': [str(i) for i in range(1000)]}); ar_s = ar_t.slice(10, 5); ar_a = pa.array([1, None, 3]); ar_d = pa.array(['a', 'b', 'a']).dictionary_encode(); ar_b = ar_t.to_batches()[0]""",
        "check": "assert ar_t.num_rows == 1000 and ar_s['x'].to_pylist() == [10, 11, 12, 13, 14] and ar_a.null_count == 1 and ar_d.to_pylist() == ['a', 'b', 'a'] and ar_b.num_rows == 1000 and ar_t.slice(10, 5).equals(ar_s)",
    },
    "sparse_and_polars": {
        "needs": "scipy",
        "setup": "import scipy.sparse as sp, numpy as np\nss_m = sp.random(50, 50, 0.1, 'csr', random_state=1); ss_sum = ss_m.sum(); ss_data = ss_m.data",
        "check": "assert ss_m.sum() == ss_sum and ss_m.format == 'csr'; ss_data[0] = 1000; assert ss_m.data[0] == 1000",
    },
    "figures": {
        "setup": """
import matplotlib; matplotlib.use('agg')
import matplotlib.pyplot as plt
fg_fig, (fg_a, fg_b) = plt.subplots(1, 2); (fg_line,) = fg_a.plot([1, 2, 3], [1, 4, 9], label='sq'); fg_a.set_title('T'); fg_im = fg_b.imshow([[1, 2], [3, 4]]); fg_cb = fg_fig.colorbar(fg_im)
fg_two = plt.figure(7); plt.plot([1, 2]); plt.figure(fg_fig.number)""",
        "check": """
import io
assert set(plt.get_fignums()) >= {fg_fig.number, 7} and plt.gcf() is fg_fig and fg_fig.axes[0] is fg_a and fg_a.lines[0] is fg_line
fg_line.set_ydata([3, 2, 1]); fg_a.legend(); out = io.BytesIO(); fg_fig.savefig(out); assert len(out.getvalue()) > 1000 and plt.figure(7) is fg_two and fg_a.get_title() == 'T'
plt.close('all')""",
    },
    "big_arrays": {
        "setup": "import numpy as np\nba = np.random.default_rng(1).random((4000, 500)); ba_sum = ba.sum(0); ba_parts = np.split(ba, 4); ba_dot = float(ba[0] @ ba[1])",
        "check": "assert (ba.sum(0) == ba_sum).all() and float(ba[0] @ ba[1]) == ba_dot; ba_parts[1][0, 0] = -3; assert ba[1000, 0] == -3 and ba.flags.writeable",
    },
    "pictures_and_sklearn": {
        "needs": "sklearn",
        "setup": """
import numpy as np
from sklearn.pipeline import make_pipeline; from sklearn.preprocessing import StandardScaler; from sklearn.linear_model import LogisticRegression
sk_x = np.random.default_rng(0).normal(size=(100, 3)); sk_y = (sk_x[:, 0] > 0).astype(int); sk_p = make_pipeline(StandardScaler(), LogisticRegression()).fit(sk_x, sk_y); sk_want = sk_p.predict_proba(sk_x)""",
        "check": "assert (sk_p.predict_proba(sk_x) == sk_want).all(); sk_p.fit(sk_x, sk_y)",
    },
}
