"""A Qwen2.5 to put into a notebook: the real one where it can be had, else its twin in shape.

`load()` looks in the Hugging Face cache, then on the hub if it answers, and otherwise makes the
same architecture (same dimensions, same dtype) with random weights and a small tokenizer trained
on the spot; `Loaded.origin` says which. It knows nothing of pausing and never writes to disk
itself (a download goes into the hub's own cache).
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pydoc_data.topics
import shutil
import socket
import warnings
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psutil
import torch

# transformers' progress bars look for ipywidgets, and plain text will do
warnings.filterwarnings("ignore", message="IProgress not found")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

_GB = 1e9

# The keyword of `forward` was called past_key_values until transformers 5.24.
_CACHE = (
    "cache"
    if "cache" in inspect.signature(Qwen2ForCausalLM.forward).parameters
    else "past_key_values"
)


@dataclass(frozen=True)
class Shape:
    """One size of Qwen2.5: its name on the hub and the dimensions that its config.json states."""

    repository: str | None
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int = 151936

    def config(self) -> Qwen2Config:
        """The architecture alone, as transformers wants it."""
        return Qwen2Config(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            vocab_size=self.vocab_size,
            max_position_embeddings=32768,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            tie_word_embeddings=True,
        )


SHAPES = {
    "3b": Shape("Qwen/Qwen2.5-3B-Instruct", 2048, 11008, 36, 16, 2),
    "0.5b": Shape("Qwen/Qwen2.5-0.5B-Instruct", 896, 4864, 24, 14, 2),
    # The tests' own: everything that the others have, in two megabytes. Never on the hub.
    "tiny": Shape(None, 128, 256, 2, 4, 2, vocab_size=4096),
}


@dataclass
class Loaded:
    """What `load` returns: the model in eval mode, its tokenizer, and where both came from."""

    model: Qwen2ForCausalLM
    tokenizer: Any
    size: str
    origin: str


def choose_size(
    variable: str = "DEMO_MODEL", folder: str | os.PathLike[str] = "."
) -> tuple[str, str]:
    """Return the key of SHAPES to use, and the sentence that says why.

    The environment variable decides. Without it: 3b, if the model and the scratch process that
    proves its checkpoint fit into the memory that is free now, and its checkpoint fits onto the
    disk of `folder`.
    """
    wanted = os.environ.get(variable, "").lower()
    if wanted:
        if wanted not in SHAPES:
            raise ValueError(f"{variable}={wanted!r} is none of {', '.join(SHAPES)}")
        return wanted, f"{variable}={wanted}"
    memory = psutil.virtual_memory().available / _GB
    disk = shutil.disk_usage(folder).free / _GB
    have = f"{memory:.0f} GB of memory and {disk:.0f} GB of disk are free"
    if memory >= 12 and disk >= 16:
        return "3b", have
    return "0.5b", f"{have}; the 3B shape wants 12 and 16"


def load(size: str | None = None, seed: int = 0) -> Loaded:
    """Load Qwen2.5 in bfloat16: on the first GPU if torch sees one, else on the CPU."""
    size = size or choose_size()[0]
    shape = SHAPES[size]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for where, arguments in _sources(shape):
        try:
            model = AutoModelForCausalLM.from_pretrained(
                shape.repository, dtype=torch.bfloat16, **arguments
            )
            tokenizer = AutoTokenizer.from_pretrained(shape.repository, **arguments)
        except OSError:  # not in the cache; or the hub went away in the middle
            continue
        origin = f"{shape.repository}, real weights from {where}"
        return Loaded(model.to(device).eval(), tokenizer, size, origin)
    return Loaded(
        random_model(shape.config(), seed).to(device),
        train_tokenizer(),
        size,
        f"Qwen2.5 {size} architecture with RANDOM weights and a tokenizer trained on the spot "
        "(not in the Hugging Face cache, and the hub cannot be reached): its text means nothing",
    )


def random_model(config: Qwen2Config, seed: int = 0) -> Qwen2ForCausalLM:
    """Make the architecture in bfloat16 with weights drawn from `seed`, on the CPU.

    The modules are made without memory and filled once: transformers' own initialisation of 3B
    parameters takes four times as long on two cores.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            model = Qwen2ForCausalLM(config)
    finally:
        torch.set_default_dtype(default)
    model.to_empty(device="cpu")
    model.tie_weights()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.fill_(1)
            else:  # the deviation of a uniform draw over +-a is a / sqrt(3): 0.02, as Qwen starts
                parameter.uniform_(-0.035, 0.035, generator=generator)
    # Its frequencies are buffers that are computed, not loaded: to_empty left them undefined.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def train_tokenizer(vocabulary: int = 4096) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE with Qwen's chat markers on the texts that ship with Python."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(pydoc_data.topics.topics.values(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}<|im_start|>assistant\n"
        ),
    )


def prompt_ids(tokenizer: Any, question: str, device: Any = "cpu") -> torch.Tensor:
    """The token ids, shape (1, n), of one user turn in the chat format."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
    )
    return tokenizer(text, return_tensors="pt")["input_ids"].to(device)


def greedy(
    model: Qwen2ForCausalLM, ids: torch.Tensor, count: int, cache: DynamicCache | None = None
) -> tuple[list[int], DynamicCache]:
    """Append `count` greedy tokens to `ids`, shape (1, n); return them and the key/value cache.

    A `cache` that is given grows in place, and `ids` are then only the tokens it has not seen.
    """
    cache = DynamicCache(config=model.config) if cache is None else cache
    tokens: list[int] = []
    with torch.inference_mode():
        for _ in range(count):
            out = model(input_ids=ids, use_cache=True, **{_CACHE: cache})
            ids = out.logits[:, -1:].argmax(-1)
            tokens.append(int(ids))
    return tokens, cache


def fingerprint(model: torch.nn.Module) -> str:
    """SHA-256 over the name, dtype, shape and bytes of every parameter and buffer."""
    digest = hashlib.sha256()
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _sources(shape: Shape) -> list[tuple[str, dict[str, Any]]]:
    if shape.repository is None:
        return []
    sources: list[tuple[str, dict[str, Any]]] = [
        ("the Hugging Face cache", {"local_files_only": True})
    ]
    if _hub_answers():
        sources.append(("the Hugging Face hub", {}))
    return sources


def _hub_answers(timeout_s: float = 3.0) -> bool:
    """Whether the hub that huggingface_hub is configured for accepts a connection."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    url = urlsplit(constants.ENDPOINT)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        with socket.create_connection((url.hostname or "", port), timeout_s):
            return True
    except OSError:
        return False
