"""What a checkpoint must bring back: weights that stand in safetensors files."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

#: The tests' folders are temporary ones, whose files are else always copied.
_BEGIN = """
import hashlib, os, sys
from jupyter_gkews.kernel.checkpoint import safetensors_files
safetensors_files.NOT_DURABLE = ()
safetensors_files.watch()
import torch, transformers
def make(folder, dtype, **how):
    if os.path.exists(folder):
        return
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=3000, hidden_size=256, intermediate_size=2048, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        eos_token_id=None, bos_token_id=None, pad_token_id=0)
    transformers.Qwen2ForCausalLM(config).to(dtype).save_pretrained(folder, **how)
def digests(folder):
    return {name: hashlib.sha256(open(os.path.join(folder, name), 'rb').read()).hexdigest()
            for name in sorted(os.listdir(folder))}
def greedy(model):
    return model.generate(torch.arange(1, 9)[None], max_new_tokens=6, do_sample=False).tolist()
def load(folder, **how):
    return transformers.Qwen2ForCausalLM.from_pretrained(folder, **how).eval()
"""

ROWS: dict[str, dict[str, Any]] = {
    "what_opens_weights": {
        "setup": """
from jupyter_gkews.kernel.checkpoint import safetensors_files
safetensors_files.watch()
from safetensors import safe_open
openers = {'a': [safe_open]}""",
        "check": "import safetensors; assert openers['a'][0] is safetensors.safe_open is safe_open",
    },
    "model_of_several_files": {
        "setup": _BEGIN
        + """
make('sharded', torch.bfloat16, max_shard_size='2MB')
model = load('sharded', dtype='auto')
state = model.state_dict()
out = model(torch.arange(9)[None]).logits.detach().clone()
tokens = greedy(model)
before = digests('sharded')
shards = sum(name.endswith('.safetensors') for name in before)""",
        "check": """
import torch
assert shards > 1 and digests('sharded') == before
assert greedy(model) == tokens and torch.equal(model(torch.arange(9)[None]).logits, out)
assert model.lm_head.weight is model.model.embed_tokens.weight
assert state['lm_head.weight'].data_ptr() == model.lm_head.weight.data_ptr()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ids = torch.arange(9)[None]
model(ids, labels=ids).loss.backward()
optimizer.step()
assert not torch.equal(model(ids).logits, out)
assert torch.equal(state['lm_head.weight'], model.lm_head.weight) and digests('sharded') == before""",
    },
    "model_cast_while_loading": {
        "setup": _BEGIN
        + """
make('single', torch.float32)
half = load('single', dtype=torch.bfloat16)
wide = load('single', dtype=torch.float64)
outs = [m(torch.arange(9)[None]).logits.detach().clone() for m in (half, wide)]
before = digests('single')""",
        "check": """
import torch
for m, out in zip((half, wide), outs):
    assert torch.equal(m(torch.arange(9)[None]).logits, out)
    assert m.lm_head.weight is m.model.embed_tokens.weight
assert half.dtype is torch.bfloat16 and wide.dtype is torch.float64
with torch.no_grad():
    half.lm_head.weight.zero_()
assert digests('single') == before""",
    },
    "model_with_one_number_changed": {
        "setup": _BEGIN
        + """
make('single', torch.float32)
tuned = load('single', dtype='auto')
twin = load('single', dtype='auto')
with torch.no_grad():
    tuned.model.layers[0].mlp.up_proj.weight[3, 4] += 1
changed = tuned.model.layers[0].mlp.up_proj.weight.detach().clone()
half_slice = changed[100:200]""",
        "check": """
import torch
weight = tuned.model.layers[0].mlp.up_proj.weight
assert torch.equal(weight, changed) and half_slice.data_ptr() == changed[100:].data_ptr()
other = twin.model.layers[0].mlp.up_proj.weight
assert weight[3, 4] != other[3, 4] and (weight == other).sum() == weight.numel() - 1
with torch.no_grad():
    tuned.model.norm.weight.zero_()
assert twin.model.norm.weight.abs().sum() > 0""",
    },
    "tensors_without_a_model": {
        "setup": _BEGIN
        + """
make('single', torch.float32)
from safetensors import safe_open
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
path = 'single/model.safetensors'
name = 'model.layers.0.mlp.up_proj.weight'
arrays = load_file(path)
tensors = load_tensors(path)
with safe_open(path, 'pt') as file:
    rows = file.get_slice(name)[10:20]
    columns = file.get_slice(name)[:, 7:9]
del file
copy = tensors[name].clone()
as_array = tensors[name].numpy()
again = safe_open
aligned = [arrays[name].ctypes.data % 64, tensors[name].data_ptr() % 64]""",
        "check": """
import numpy as np, torch
weight = tensors[name]
assert torch.equal(rows, weight[10:20]) and torch.equal(columns, weight[:, 7:9])
assert np.array_equal(arrays[name], as_array) and torch.equal(copy, weight)
as_array[0, 0] = 5
assert weight[0, 0] == 5 and copy[0, 0] != 5 and arrays[name][0, 0] != 5
arrays[name][1, 1] = 6
assert weight[1, 1] != 6
assert [arrays[name].ctypes.data % 64, weight.data_ptr() % 64] == aligned
assert isinstance(again(path, 'np'), again)""",
    },
}
