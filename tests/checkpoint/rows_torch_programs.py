"""Torch and Hugging Face: programs, data in mid-epoch, models in mid-generation."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "data_loaders_in_mid_epoch": {
        "setup": """
import torch
from torch.utils.data import DataLoader, TensorDataset, Dataset, IterableDataset, Sampler, random_split, WeightedRandomSampler, SubsetRandomSampler, BatchSampler, RandomSampler, Subset
class Squares(Dataset):
    def __len__(self): return 23
    def __getitem__(self, i): return i * i + torch.rand(()).item()
class Backwards(Sampler):
    def __init__(self, n): self.n = n
    def __iter__(self): return iter(range(self.n - 1, -1, -1))
    def __len__(self): return self.n
class Lines:
    def __init__(self): self.at = 0
    def __iter__(self): return self
    def __next__(self):
        self.at += 1
        if self.at > 12: raise StopIteration
        return self.at
class Stream(IterableDataset):
    def __iter__(self): return Lines()
ds = Squares()
def loaders():
    g = torch.Generator().manual_seed(3)
    return {
        'plain': DataLoader(ds, 4), 'shuffled': DataLoader(ds, 4, shuffle=True), 'seeded': DataLoader(ds, 5, shuffle=True, generator=g),
        'dropped': DataLoader(ds, 4, shuffle=True, drop_last=True), 'own': DataLoader(ds, 3, sampler=Backwards(23)),
        'weighted': DataLoader(ds, 4, sampler=WeightedRandomSampler(torch.ones(23), 30)),
        'subset': DataLoader(ds, 4, sampler=SubsetRandomSampler(range(3, 20))),
        'more': DataLoader(ds, 4, sampler=RandomSampler(ds, num_samples=50)),
        'replaced': DataLoader(ds, 4, sampler=RandomSampler(ds, replacement=True, num_samples=70)),
        'single': DataLoader(ds, None), 'stream': DataLoader(Stream(), 2), 'half': DataLoader(random_split(ds, [13, 10])[0], 3, shuffle=True),
        'batches': DataLoader(ds, batch_sampler=BatchSampler(RandomSampler(ds), 4, True), collate_fn=lambda b: sum(b)),
    }
def start():
    torch.manual_seed(7)
    its = {k: iter(v) for k, v in loaders().items()}
    for k, it in its.items():
        if k != 'shuffled': next(it), next(it)
    return its
def rest(its):
    torch.manual_seed(8)
    return {k: [torch.as_tensor(b).tolist() for b in it] for k, it in its.items()}
wanted = rest(start())
its = start()
dl = loaders()['seeded']
workers = iter(DataLoader(TensorDataset(torch.arange(23)), 4, num_workers=1, shuffle=True))
first = [next(workers)[0].tolist() for _ in range(2)]
def forever():
    yield 1
    yield 2
class Bad(Sampler):
    def __init__(self): pass
    def __iter__(self):
        for i in [3, 2, 1]:
            yield i
    def __len__(self): return 3
bad = iter(DataLoader(ds, 1, sampler=Bad()))
next(bad)""",
        "check": """
import torch
assert its['subset']._sampler_iter is not None
got = rest(its)
assert got == wanted, [(k, got[k], wanted[k]) for k in got if got[k] != wanted[k]]
left = [b[0].tolist() for b in workers]
assert sorted(sum(first + left, [])) == list(range(23)), (first, left)
assert len(list(dl)) == 5""",
        "lost": ["bad"],
    },
    "compiled_and_scripted": {
        "setup": """
import torch, warnings
warnings.simplefilter('ignore')
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(3, 3)
    def forward(self, x): return torch.relu(self.l(x))
net = Net()
compiled = torch.compile(net, backend='eager')
x = torch.ones(2, 3)
out = compiled(x)
@torch.compile(backend='eager', fullgraph=True)
def fast(x): return x * 2 + 1
fast(x)
lazy_fast = torch.compile(lambda v: v - 1, backend='eager')
scripted = torch.jit.script(net)
traced = torch.jit.trace(net.eval(), x)
@torch.jit.script
def scr(a, b: int):
    if b > 1: a = a + b
    return a
from torch import fx
graph = fx.symbolic_trace(Net())
gout = graph(x)
program = torch.export.export(Net(), (x,))
pout = program.module()(x)
frozen = torch.jit.freeze(torch.jit.script(Net().eval()))
fout = frozen(x)
in_place = Net(); in_place.compile(backend='eager'); iout = in_place(x)
opt = torch.optim.SGD(compiled.parameters(), 0.1)""",
        "check": """
import torch
assert torch.equal(compiled(x), out) and compiled._orig_mod is net and type(compiled).__name__ == 'OptimizedModule'
assert fast(x)[0, 0] == 3 and lazy_fast(x)[0, 0] == 0 and torch.equal(scripted(x), out) and torch.equal(traced(x), out)
assert scr(torch.ones(1), 5).item() == 6 and torch.equal(graph(x), gout) and 'relu' in graph.code
assert torch.equal(program.module()(x), pout) and torch.equal(frozen(x), fout) and torch.equal(in_place(x), iout)
rebuilt = {r['name'] for r in report.rebuilt_details}
assert {'compiled', 'fast', 'scripted', 'traced', 'scr', 'program'} <= rebuilt, rebuilt
assert opt.param_groups[0]['params'][0] is net.l.weight""",
    },
    "hugging_face": {
        "setup": """
import torch, transformers, warnings
warnings.simplefilter('ignore')
from transformers import (Qwen2Config, Qwen2ForCausalLM, DynamicCache, StaticCache, GenerationConfig, PreTrainedTokenizerFast, TextStreamer,
    LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList, BitsAndBytesConfig)
torch.manual_seed(1)
cfg = Qwen2Config(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, pad_token_id=0)
model = Qwen2ForCausalLM(cfg).eval()
ids = torch.tensor([[1, 2, 3]])
from tokenizers import Tokenizer, models, pre_tokenizers
tok = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1, 'b': 2, 'c': 3}, unk_token='[UNK]'))
tok.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tok, unk_token='[UNK]', pad_token='[UNK]')
tokenizer.add_tokens(['<new>'])
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
enc = tokenizer(['a b <new>'], return_tensors='pt')
class Ban(LogitsProcessor):
    def __init__(self, t): self.t = t
    def __call__(self, input_ids, scores):
        scores[:, self.t] = -1e9
        return scores
class Until(StoppingCriteria):
    def __call__(self, input_ids, scores, **kw): return torch.full((len(input_ids),), input_ids.shape[1] >= 6)
lp = LogitsProcessorList([Ban(5)]); sc = StoppingCriteriaList([Until()])
gen = GenerationConfig(max_new_tokens=4, do_sample=False, pad_token_id=0)
model.generation_config.repetition_penalty = 1.1
out = model.generate(ids, generation_config=gen, logits_processor=lp)
stopped = model.generate(ids, max_new_tokens=10, stopping_criteria=sc, do_sample=False)
dyn = DynamicCache(config=cfg)
static = StaticCache(config=cfg, max_cache_len=16)
def next_token(cache, tokens, at):
    with torch.no_grad():
        return model(tokens, past_key_values=cache, use_cache=True, cache_position=torch.arange(at, at + tokens.shape[1])).logits[:, -1:].argmax(-1)
t1 = next_token(dyn, ids, 0); s1 = next_token(static, ids, 0)
ref = DynamicCache(config=cfg); next_token(ref, ids, 0); wanted2 = next_token(ref, t1, 3)
pipe = transformers.pipeline('text-generation', model=model, tokenizer=tokenizer)
text = pipe('a b', max_new_tokens=3, do_sample=False)[0]['generated_text']
streamer = TextStreamer(tokenizer)
bnb = BitsAndBytesConfig(load_in_4bit=True)""",
        "check": """
import torch
assert torch.equal(model.generate(ids, generation_config=gen, logits_processor=lp), out)
assert torch.equal(model.generate(ids, max_new_tokens=10, stopping_criteria=sc, do_sample=False), stopped)
assert model.lm_head.weight is model.model.embed_tokens.weight and model.generation_config.repetition_penalty == 1.1
assert dyn.get_seq_length() == 3 and next_token(dyn, t1, 3).item() == wanted2.item()
assert next_token(static, s1, 3).item() == wanted2.item()
assert tokenizer(['a b <new>'], return_tensors='pt')['input_ids'].tolist() == enc['input_ids'].tolist() == [[1, 2, 4]]
assert tokenizer.apply_chat_template([{'content': 'a'}], tokenize=False) == 'a ' and pipe.model is model
assert pipe('a b', max_new_tokens=3, do_sample=False)[0]['generated_text'] == text and bnb.load_in_4bit
streamer.put(torch.tensor([1, 2])); streamer.end()""",
    },
    "trainer_and_accelerate": {
        "setup": """
import torch, transformers, warnings, os
warnings.simplefilter('ignore')
os.environ['WANDB_DISABLED'] = 'true'
from transformers import Trainer, TrainingArguments
class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 1)
    def forward(self, x, labels=None):
        y = self.l(x)
        return {'loss': (y - labels).pow(2).mean(), 'logits': y}
torch.manual_seed(0)
data = [{'x': torch.randn(2), 'labels': torch.randn(1)} for _ in range(8)]
args = TrainingArguments('out', per_device_train_batch_size=2, max_steps=3, report_to=[], save_strategy='no', use_cpu=True, disable_tqdm=True, logging_steps=1)
model = Tiny()
trainer = Trainer(model, args, train_dataset=data)
trainer.train()
w = model.l.weight.detach().clone()
from accelerate import dispatch_model, cpu_offload, Accelerator
big = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
x = torch.randn(1, 4); want = big(x).detach()
off = cpu_offload(big, execution_device=torch.device('cpu'))
disk = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)); dwant = disk(x).detach()
disk = dispatch_model(disk, {'0': 'cpu', '1': 'disk'}, main_device='cpu', offload_dir='offload')
acc = Accelerator(cpu=True)
am, ao = acc.prepare(torch.nn.Linear(2, 2), torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1))""",
        "check": """
import torch
assert trainer.model is model and torch.equal(model.l.weight, w) and trainer.state.global_step == 3 and trainer.args is args
assert trainer.optimizer is not None and len(trainer.state.log_history) >= 3
assert torch.equal(off(x), want) and torch.equal(disk(x), dwant)
trainer.train()
ao.step()
assert not torch.equal(model.l.weight, w)""",
    },
    "distributed_profiler_and_summaries": {
        "setup": """
import torch, os
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU]) as prof:
    torch.ones(2) + 1
table = prof.key_averages().table(row_limit=2)
prof_auto = torch.autograd.profiler.profile()
import torch.distributed as dist
dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
group = dist.group.WORLD
fine = [1, 2]
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
inner = ddp.module
event = torch.futures.Future(); event.set_result(5)
stepper = torch.nn.Linear(2, 2)
kept_hook = []
stepper.register_forward_hook(lambda *a: kept_hook.append(1))
global_seen = []
handle = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: global_seen.append(type(m).__name__))
lib = torch.library.Library('mine', 'DEF')
@torch.library.custom_op('ours::twice', mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor: return x * 2""",
        "check": """
import torch
assert fine == [1, 2] and inner(torch.ones(1, 2)).shape == (1, 2) and 'aten' in table
stepper.register_forward_hook(lambda *a: kept_hook.append(2))
stepper(torch.ones(1, 2))
assert 'Linear' in global_seen and kept_hook == [1, 2]
handle.remove()
n = len(global_seen)
stepper(torch.ones(1, 2))
assert len(global_seen) == n
assert torch.equal(twice(torch.ones(2)), torch.full((2,), 2.)) and event.value() == 5 and ddp.module is inner and ddp(torch.ones(1, 2)).shape == (1, 2)""",
        "lost": ["ddp.process_group", "group", "lib", "prof.profiler.kineto_results"],
    },
}

#: Those that only the long form carries.
MORE = {
    name: ROWS.pop(name)
    for name in (
        "compiled_and_scripted",
        "hugging_face",
        "trainer_and_accelerate",
        "distributed_profiler_and_summaries",
    )
}
