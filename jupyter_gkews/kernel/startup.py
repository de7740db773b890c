# ruff: noqa: D100
# The PYTHONSTARTUP file of every Python kernel that the server starts: loads the kernel side.
# Run by IPython inside the user's namespace, in whatever environment the kernel has (Python 3.9
# or newer), so it leaves no name there (a docstring would become the user's __doc__), does not
# change sys.path, and never keeps a kernel from starting. The server imports it to know its path.


def _gkews_start(startup_file: str) -> None:
    """Bring jupyter_gkews into the kernel from where this file lies, then the user's own file."""
    import importlib.util
    import os
    import sys

    os.environ.pop("PYTHONSTARTUP", None)  # it must not reach the user's own child processes
    run_dir = os.environ.pop("JUPYTER_GKEWS_RUN_DIR", None)
    if os.environ.pop("JUPYTER_GKEWS_HASH_SEED", None) == os.environ.get("PYTHONHASHSEED", ""):
        del os.environ["PYTHONHASHSEED"]  # it was for this process alone
    user_startup = os.environ.pop("JUPYTER_GKEWS_USER_PYTHONSTARTUP", None)
    try:
        if run_dir:
            if "jupyter_gkews" not in sys.modules:
                # Always from here, whether the kernel's environment has a copy or not: what runs
                # in the kernel must speak the same protocol as the server that launched it.
                package = os.path.dirname(os.path.dirname(os.path.abspath(startup_file)))
                spec = importlib.util.spec_from_file_location(
                    "jupyter_gkews",
                    os.path.join(package, "__init__.py"),
                    submodule_search_locations=[package],
                )
                if spec is None or spec.loader is None:
                    raise ImportError(package)
                module = importlib.util.module_from_spec(spec)
                sys.modules["jupyter_gkews"] = module
                spec.loader.exec_module(module)
            from jupyter_gkews.kernel.session import start

            start(run_dir)
    except Exception as error:
        import contextlib

        with contextlib.suppress(OSError):
            path = os.path.join(str(run_dir), "startup_error.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{type(error).__name__}: {error} (Python {sys.version.split()[0]})")
    if user_startup:
        os.environ["PYTHONSTARTUP"] = user_startup
        from IPython import get_ipython

        shell = get_ipython()
        execute = getattr(shell.kernel.parent, "_exec_file", None) if shell else None
        if execute:
            execute(user_startup)  # what IPython would have done with it


if __name__ == "__main__":
    try:
        _gkews_start(__file__)
    finally:
        del _gkews_start
