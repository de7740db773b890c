"""What Jupyter and IPython look for in this package; imports nothing heavy.

The kernel side loads this file in environments where nothing of ours is installed
(Python >= 3.9), so only the standard library may be imported at module level.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .kernel.resume_hooks import Resumed, forget_on_resume, on_resume

__all__ = ["Resumed", "__version__", "forget_on_resume", "on_resume"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """What users import in a kernel, only when they do."""
    if name in ("Resumed", "forget_on_resume", "on_resume"):
        from .kernel import resume_hooks

        return getattr(resume_hooks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Say where the prebuilt frontend lies."""
    return [{"src": "labextension", "dest": "jupyter_gkews"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    """Name the server extension; called by Jupyter Server."""
    import gc

    # A server's start makes enough objects for a few full collections, of about 0.1 s each. The
    # classes that are made here all stay: looking through them would only bring on one more.
    collecting = gc.isenabled()
    gc.disable()
    try:
        from .app import GkewsApp
    finally:
        if collecting:
            gc.enable()

    return [{"module": "jupyter_gkews", "app": GkewsApp}]
