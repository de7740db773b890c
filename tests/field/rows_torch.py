"""Small notebooks, torch and Hugging Face."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "tensor_kinds": {
        "setup": """
import torch
tk_all = {'dense': torch.randn(4, 5), 'bf16': torch.randn(7).bfloat16(), 'fp8': torch.randn(8).to(torch.float8_e4m3fn), 'sparse': torch.eye(3).to_sparse(), 'csr': torch.eye(3).to_sparse_csr(), 'quant': torch.quantize_per_tensor(torch.randn(5), 0.1, 3, torch.quint8), 'complex': torch.randn(3, dtype=torch.complex64), 'zero': torch.tensor(4), 'empty': torch.empty(0, 3), 'bool': torch.tensor([True, False]), 'conj': torch.randn(3, dtype=torch.complex64).conj(), 'nchw': torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last)}
tk_copy = {k: (v.to_dense() if v.layout != torch.strided else v.dequantize() if v.is_quantized else v.float() if v.dtype == torch.float8_e4m3fn else v.clone()).tolist() for k, v in tk_all.items()}
tk_dev, tk_dt, tk_size, tk_lay = torch.device('cpu'), torch.bfloat16, torch.Size([2, 3]), torch.strided""",
        "check": """
tk_now = {k: (v.to_dense() if v.layout != torch.strided else v.dequantize() if v.is_quantized else v.float() if v.dtype == torch.float8_e4m3fn else v.clone()).tolist() for k, v in tk_all.items()}
assert tk_now == tk_copy and tk_all['sparse'].layout == torch.sparse_coo and tk_all['quant'].is_quantized and tk_all['fp8'].dtype == torch.float8_e4m3fn and tk_all['nchw'].is_contiguous(memory_format=torch.channels_last)
assert tk_dt is torch.bfloat16 and tk_dev == torch.device('cpu') and tk_size == (2, 3) and type(tk_size) is torch.Size and tk_lay is torch.strided""",
    },
    "views_and_ties": {
        "setup": """
import torch, torch.nn as nn
vt_base = torch.zeros(10); vt_view = vt_base[2:5]; vt_mat = vt_base.view(2, 5); vt_exp = torch.ones(1).expand(4); vt_sto = vt_base.untyped_storage()
class VtTied(nn.Module):
    def __init__(self): super().__init__(); self.e = nn.Embedding(11, 4); self.out = nn.Linear(4, 11, bias=False); self.out.weight = self.e.weight
    def forward(self, x): return self.out(self.e(x))
vt_m = VtTied(); vt_sd = vt_m.state_dict()""",
        "check": """
vt_base[2] = 5; assert vt_view[0] == 5 and vt_mat[0, 2] == 5 and vt_exp.stride() == (0,) and vt_sto.data_ptr() == vt_base.data_ptr()
assert vt_m.out.weight is vt_m.e.weight and vt_sd['e.weight'].data_ptr() == vt_m.e.weight.data_ptr()
with torch.no_grad(): vt_m.e.weight[0, 0] = 9
assert vt_sd['out.weight'][0, 0] == 9""",
    },
    "training_goes_on": {
        "setup": """
import torch, torch.nn as nn, copy
torch.manual_seed(0)
tr_m = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 2)); tr_o = torch.optim.AdamW(tr_m.parameters(), lr=0.01); tr_s = torch.optim.lr_scheduler.LambdaLR(tr_o, lambda e: 0.9 ** e); tr_g = torch.amp.GradScaler('cpu', enabled=False)
tr_x, tr_y = torch.randn(16, 6), torch.randint(0, 2, (16,))
def tr_step(m, o, s):
    o.zero_grad(); loss = nn.functional.cross_entropy(m(tr_x), tr_y); loss.backward(); o.step(); s.step(); return loss.item()
for _ in range(3): tr_step(tr_m, tr_o, tr_s)
tr_rng = torch.get_rng_state(); tr_copy = copy.deepcopy((tr_m, tr_o.state_dict(), tr_s.state_dict()))
tr_want = [tr_step(tr_m, tr_o, tr_s) for _ in range(3)]
tr_m.load_state_dict(tr_copy[0].state_dict()); tr_o.load_state_dict(tr_copy[1]); tr_s.load_state_dict({k: v for k, v in tr_copy[2].items()}); torch.set_rng_state(tr_rng)
tr_rng2 = torch.get_rng_state()""",
        "check": """
assert tr_o.param_groups[0]['params'][0] is next(tr_m.parameters()) and tr_s.optimizer is tr_o and tr_m[0].weight.grad is not None
torch.set_rng_state(tr_rng2); tr_got = [tr_step(tr_m, tr_o, tr_s) for _ in range(3)]
assert tr_got == tr_want, (tr_got, tr_want)""",
    },
    "a_tensor_with_its_graph": {
        "setup": "import torch\ntg_w = torch.ones(3, requires_grad=True); tg_y = (tg_w * 2).sum(); tg_leaf = torch.ones(2, requires_grad=True); (tg_leaf ** 2).sum().backward()",
        "check": "assert tg_y.item() == 6 and tg_w.requires_grad and tg_w.is_leaf and tg_leaf.grad.tolist() == [2, 2]; (tg_w * 3).sum().backward(); assert tg_w.grad.tolist() == [3, 3, 3]",
    },
    "a_loader_in_mid_epoch": {
        "setup": """
import torch
from torch.utils.data import DataLoader, TensorDataset, Dataset
class LdSet(Dataset):
    def __len__(self): return 10
    def __getitem__(self, i): return torch.tensor([i, i * i])
torch.manual_seed(3); ld_l = DataLoader(LdSet(), batch_size=3, shuffle=True); ld_it = iter(ld_l); ld_first = next(ld_it)
ld_plain = DataLoader(TensorDataset(torch.arange(6)), batch_size=2)""",
        "check": """
ld_rest = [int(i) for b in ld_it for i in b[:, 0]]
assert sorted(ld_rest + ld_first[:, 0].tolist()) == list(range(10)) and [b[0].tolist() for b in ld_plain] == [[0, 1], [2, 3], [4, 5]]
assert sorted(int(i) for b in ld_l for i in b[:, 0]) == list(range(10))""",
    },
    "hooks": {
        "setup": """
import torch, torch.nn as nn
hk_m = nn.Linear(2, 2); hk_seen = []
hk_h = hk_m.register_forward_hook(lambda m, i, o: hk_seen.append('f')); hk_b = hk_m.register_full_backward_hook(lambda m, gi, go: hk_seen.append('b')); hk_p = hk_m.weight.register_hook(lambda g: g * 0)""",
        "check": """
hk_m(torch.ones(1, 2)).sum().backward(); assert hk_seen == ['f', 'b'] and hk_m.weight.grad.abs().sum() == 0
hk_h.remove(); hk_b.remove(); hk_m(torch.ones(1, 2)); assert hk_seen == ['f', 'b']""",
    },
    "compiled_and_scripted": {
        "setup": """
import torch, torch.nn as nn
cm_m = nn.Linear(3, 3); cm_c = torch.compile(cm_m, backend='eager'); cm_x = torch.ones(1, 3); cm_want = cm_c(cm_x).tolist()
cm_s = torch.jit.trace(cm_m, cm_x)""",
        "check": "assert cm_c(cm_x).tolist() == cm_want and cm_c._orig_mod is cm_m and cm_s(cm_x).tolist() == cm_want",
    },
    "qwen_in_mid_generation": {
        "needs": "transformers",
        "setup": """
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, DynamicCache, GenerationConfig
torch.manual_seed(1)
qw_m = Qwen2ForCausalLM(Qwen2Config(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)).eval()
qw_cache = DynamicCache(config=qw_m.config); qw_ids = torch.tensor([[1, 5, 9, 20]])
def qw_next(cache, ids):
    with torch.no_grad(): out = qw_m(input_ids=ids, past_key_values=cache, use_cache=True)
    return out.logits[:, -1:].argmax(-1)
qw_tok = qw_next(qw_cache, qw_ids); qw_gen = GenerationConfig(max_new_tokens=6, do_sample=False)
import copy
qw_want = []; _c, _t = copy.deepcopy(qw_cache), qw_tok
for _ in range(5): _t = qw_next(_c, _t); qw_want.append(_t.item())
qw_full = qw_m.generate(qw_ids, generation_config=qw_gen).tolist(); del _c, _t""",
        "check": """
assert qw_m.lm_head.weight is qw_m.model.embed_tokens.weight and qw_m.generate(qw_ids, generation_config=qw_gen).tolist() == qw_full
_t = qw_tok; got = []
for _ in range(5): _t = qw_next(qw_cache, _t); got.append(_t.item())
assert got == qw_want""",
    },
    "a_tokenizer": {
        "needs": "tokenizers",
        "setup": """
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
tz_t = Tokenizer(models.BPE(unk_token='[UNK]')); tz_t.pre_tokenizer = pre_tokenizers.Whitespace(); tz_t.train_from_iterator(['pause the kernel and resume the kernel'] * 3, trainers.BpeTrainer(vocab_size=60, special_tokens=['[UNK]', '[PAD]']))
tz_f = PreTrainedTokenizerFast(tokenizer_object=tz_t, unk_token='[UNK]', pad_token='[PAD]'); tz_f.add_tokens(['<new>']); tz_f.chat_template = '{{ messages[0].content }}'; tz_want = tz_f('pause the <new> kernel')['input_ids']""",
        "check": "assert tz_f('pause the <new> kernel')['input_ids'] == tz_want and tz_f.pad_token == '[PAD]' and tz_t.encode('kernel').ids and tz_f.apply_chat_template([{'role': 'user', 'content': 'x'}], tokenize=False) == 'x'",
    },
    "autograd_functions_and_subclasses": {
        "setup": """
import torch, torch.nn as nn
class AfDouble(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
class AfParam(nn.Parameter): pass
class AfLayer(nn.Module):
    def __init__(self): super().__init__(); self.p = nn.Parameter(torch.ones(2)); self.register_buffer('b', torch.zeros(1), persistent=False); self.l = nn.ModuleDict({'a': nn.LayerNorm(2)})
    def forward(self, x): self.b += 1; return AfDouble.apply(x * self.p)
af_l = AfLayer(); af_l(torch.ones(2)); af_norm = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)); af_want = af_norm(torch.ones(1, 2)).tolist()""",
        "check": "x = torch.ones(2, requires_grad=True); af_l(x).sum().backward(); assert x.grad.tolist() == [2, 2] and af_l.b.item() == 2 and af_norm(torch.ones(1, 2)).tolist() == af_want",
    },
}
