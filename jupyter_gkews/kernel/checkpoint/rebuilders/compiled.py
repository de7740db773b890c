"""What torch has compiled: torch.compile compiles again, TorchScript goes through its own format.

Compiled code itself is never kept: it belongs to one machine and one version.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced, stands_in
from .loading import not_to_compare

if TYPE_CHECKING:
    from ..graph import GraphWriter

_AGAIN = "what torch.compile made is compiled again when it is first called"
_SCRIPT = "TorchScript came back through torch.jit.save, with memory of its own"


def handlers() -> dict[type, Handler]:
    """None for a class alone."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Compiled modules, scripted and exported programs, as far as torch has imported them."""
    found: dict[type, Handler] = {}
    torch: Any = sys.modules["torch"]
    for module, name, handler in (
        ("torch._dynamo.eval_frame", "OptimizedModule", reduce_compiled),
        ("torch.jit._script", "RecursiveScriptModule", reduce_script),
        ("torch.export.exported_program", "ExportedProgram", reduce_exported),
    ):
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            found[cls] = handler
    for name in ("ScriptModule", "ScriptFunction"):
        cls = getattr(getattr(torch, "jit", None), name, None)
        if isinstance(cls, type):
            found.setdefault(cls, reduce_script)
    return found


def settings(context: Any) -> dict[str, Any]:
    """The arguments that torch.compile was given, as far as its context tells them."""
    found: dict[str, Any] = {}
    callback = getattr(context, "callback", None)
    backend = getattr(context, "_torchdynamo_orig_backend", None) or callback
    for _ in range(4):  # the backend lies under wrappers
        inner = getattr(backend, "_torchdynamo_orig_backend", None)
        inner = inner or getattr(backend, "_torchdynamo_orig_callable", None)
        if inner is None:
            break
        backend = inner
    name = getattr(backend, "compiler_name", None)
    if isinstance(name, str):  # a wrapper of a registered one: inductor, eager ...
        found["backend"] = name
        options = getattr(backend, "config", None)
        if name == "inductor" and options:
            found["options"] = dict(options)
    elif backend is not None:
        known = getattr(backend, "__name__", "")
        registry: Any = sys.modules.get("torch._dynamo.backends.registry")
        listed = known in getattr(registry, "_COMPILER_FNS", ())
        found["backend"] = known if listed else backend
    dynamic = getattr(context, "_dynamic", None)
    if isinstance(dynamic, bool):
        found["dynamic"] = dynamic
    if getattr(context, "fullgraph", False):
        found["fullgraph"] = True
    return found


def reduce_compiled(writer: GraphWriter, compiled: Any) -> Reduced:
    """The module that was compiled, and how."""
    writer.note_rebuilt(_AGAIN, compiled)
    stands_in(writer, compiled)
    inner = compiled._orig_mod
    return compile_again, (inner, settings(compiled.dynamo_ctx))


def compiled_function(function: Any) -> tuple[Any, Any] | None:
    """(what was compiled, its context) of a function that torch.compile returned."""
    inner = function.__dict__.get("_torchdynamo_orig_callable")
    config = function.__dict__.get("get_compiler_config")
    if inner is None or config is None or "_torchdynamo_disable" in function.__dict__:
        return None
    if function.__globals__.get("__name__") != "torch._dynamo.eval_frame":
        return None  # a wrapper of the user's, to which functools.wraps has copied the attributes
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if type(content).__name__ == "OptimizeContext":
            return inner, content
    return inner, getattr(config, "__self__", None)


def reduce_compiled_function(writer: GraphWriter, function: Any) -> Any:
    """A function that torch.compile returned: compiled again; NotImplemented for others."""
    found = compiled_function(function)
    if found is None:
        return NotImplemented
    writer.note_rebuilt(_AGAIN, function)
    stands_in(writer, function)
    return compile_again, (found[0], settings(found[1]))


def reduce_script(writer: GraphWriter, script: Any) -> Reduced:
    """A scripted or traced module or function, as torch.jit.save writes it."""
    torch = sys.modules["torch"]
    buffer = io.BytesIO()
    is_function = isinstance(script, torch.jit.ScriptFunction)
    try:
        torch.jit.save(script, buffer)
    except RuntimeError as error:
        text = str(error).strip().split("\n")[0]
        raise CannotKeepError("TorchScript", f"torch.jit.save refuses it: {text}") from None
    writer.note_rebuilt(_SCRIPT, script)
    stands_in(writer, script)
    try:
        training = None if is_function else bool(script.training)
    except AttributeError:  # frozen
        training = None
    return load_script, (buffer.getvalue(), is_function, training)


def reduce_exported(writer: GraphWriter, program: Any) -> Reduced:
    """A program of torch.export, as torch.export.save writes it."""
    torch = sys.modules["torch"]
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    writer.note_rebuilt("it came back through torch.export.save, with memory of its own", program)
    stands_in(writer, program)
    return load_exported, (buffer.getvalue(),)


# ---- called by the graph ----


def compile_again(inner: Any, how: dict[str, Any]) -> Any:
    """torch.compile of it; nothing is compiled before it is called."""
    torch = sys.modules["torch"]
    return not_to_compare(torch.compile(inner, **how))


def load_script(data: bytes, is_function: bool, training: bool | None) -> Any:
    """A script from the bytes of torch.jit.save."""
    torch = sys.modules["torch"]
    made = torch.jit.load(io.BytesIO(data), map_location="cpu" if not _has_gpu() else None)
    if is_function:
        return not_to_compare(made.forward if hasattr(made, "forward") else made)
    if training is not None and made.training != training:
        made.train(training)
    return not_to_compare(made)


def _has_gpu() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.cuda.is_available())


def load_exported(data: bytes) -> Any:
    """A program from the bytes of torch.export.save."""
    torch = sys.modules["torch"]
    return not_to_compare(torch.export.load(io.BytesIO(data)))
