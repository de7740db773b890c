"""Settings of NumPy, pandas, scikit-learn and others, and of parts of the standard library.

`take` of each gives what differs from a new process, `put` sets it again there. Nothing here
imports a library that the kernel has not imported.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import warnings
from typing import Any, Callable

State = dict[str, Any]
#: (its name in words, take, put)
Rule = tuple[str, Callable[[Any], State], Callable[[Any, State], None]]

# ---- numpy ----

_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_NUMPY_PRINT = {
    "edgeitems": 3,
    "threshold": 1000,
    "floatmode": "maxprec",
    "precision": 8,
    "suppress": False,
    "linewidth": 75,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "formatter": None,
    "legacy": False,
    "override_repr": None,
}


def _take_numpy(numpy: Any) -> State:
    state: State = {}
    errors = dict(numpy.geterr())
    if errors != _NUMPY_ERRORS:
        state["seterr"] = errors
    options = numpy.get_printoptions()
    changed = {
        name: value
        for name, value in options.items()
        if name in _NUMPY_PRINT and value != _NUMPY_PRINT[name]
    }
    for name, value in changed.items():
        state[f"printoptions {name}"] = value
    if numpy.geterrcall() is not None:
        state["seterrcall"] = numpy.geterrcall()
    if numpy.getbufsize() != 8192:
        state["bufsize"] = numpy.getbufsize()
    return state


def _put_numpy(numpy: Any, state: State) -> None:
    if "seterr" in state:
        numpy.seterr(**state["seterr"])
    options = {
        name.split(" ", 1)[1]: value for name, value in state.items() if name.startswith("print")
    }
    if options:
        numpy.set_printoptions(**options)
    if "seterrcall" in state:
        numpy.seterrcall(state["seterrcall"])
    if "bufsize" in state:
        numpy.setbufsize(state["bufsize"])


# ---- pandas ----


def _take_pandas(pandas: Any) -> State:
    config = importlib.import_module("pandas._config.config")  # part of pandas: is there already
    registered, state = config._registered_options, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated options
        for name, option in registered.items():
            value = pandas.get_option(name)
            if value is not option.defval and value != option.defval:
                state[name] = value
    # pandas sets this one itself, by the terminal that it finds
    state.pop("display.notebook_repr_html", None)
    return state


def _put_pandas(pandas: Any, state: State) -> None:
    one_by_one(state, pandas.set_option)


def one_by_one(state: State, put: Callable[[str, Any], Any]) -> None:
    """All that can be put; then ValueError with the names of those that cannot."""
    failed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in state.items():
            try:
                put(name, value)
            except Exception:
                failed.append(name)
    if failed:
        raise ValueError(f"not accepted here: {', '.join(failed)}")


# ---- decimal, logging ----


def _take_decimal(decimal: Any) -> State:
    context, fresh = decimal.getcontext(), decimal.Context()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    state: State = {
        name: getattr(context, name)
        for name in names
        if getattr(context, name) != getattr(fresh, name)
    }
    traps = sorted(signal.__name__ for signal, on in context.traps.items() if on)
    if traps != sorted(signal.__name__ for signal, on in fresh.traps.items() if on):
        state["traps"] = traps
    return state


def _put_decimal(decimal: Any, state: State) -> None:
    context = decimal.getcontext()
    for name, value in state.items():
        if name == "traps":
            for signal in context.traps:
                context.traps[signal] = signal.__name__ in value
        else:
            setattr(context, name, value)


def _take_logging(_: Any) -> State:
    root = logging.getLogger()
    state: State = {} if root.level == logging.WARNING else {"root level": root.level}
    if root.manager.disable:
        state["disabled up to"] = root.manager.disable
    names = {k: v for k, v in _level_names().items() if _LEVELS.get(k) != v}
    if names:
        state["level names"] = names
    return state


_LEVELS = {50: "CRITICAL", 40: "ERROR", 30: "WARNING", 20: "INFO", 10: "DEBUG", 0: "NOTSET"}


def _level_names() -> dict[int, str]:
    known: Any = logging
    return dict(getattr(known, "_levelToName", {}))


def _put_logging(_: Any, state: State) -> None:
    if "root level" in state:
        logging.getLogger().setLevel(state["root level"])
    if "disabled up to" in state:
        logging.disable(state["disabled up to"])
    for level, name in state.get("level names", {}).items():
        logging.addLevelName(level, name)


def _take_mimetypes(mimetypes: Any) -> State:
    if not mimetypes.inited:
        return {}
    fresh = mimetypes.MimeTypes([each for each in mimetypes.knownfiles if os.path.isfile(each)])
    database = mimetypes._db
    added = [
        (kind, ending, bool(strict))
        for strict in (False, True)
        for ending, kind in database.types_map[strict].items()
        if fresh.types_map[strict].get(ending) != kind
    ]
    return {"types": added} if added else {}


def _put_mimetypes(mimetypes: Any, state: State) -> None:
    for kind, ending, strict in state["types"]:
        mimetypes.add_type(kind, ending, strict)


# ---- others ----


def _take_csv(csv: Any) -> State:
    state: State = {}
    if csv.field_size_limit() != 131072:
        state["field_size_limit"] = csv.field_size_limit()
    names = ["delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting"]
    names += ["skipinitialspace", "strict"]
    for name in csv.list_dialects():
        if name not in ("excel", "excel-tab", "unix"):
            dialect = csv.get_dialect(name)
            state[f"dialect {name}"] = {each: getattr(dialect, each) for each in names}
    return state


def _put_csv(csv: Any, state: State) -> None:
    for key, value in state.items():
        if key == "field_size_limit":
            csv.field_size_limit(value)
        else:
            csv.register_dialect(key.partition(" ")[2], **value)


def _take_multiprocessing(multiprocessing: Any) -> State:
    method = multiprocessing.get_start_method(allow_none=True)
    default = multiprocessing.get_all_start_methods()[0]
    return {"start_method": method} if method not in (None, default) else {}


def _put_multiprocessing(multiprocessing: Any, state: State) -> None:
    multiprocessing.set_start_method(state["start_method"], force=True)


def _take_tracemalloc(tracemalloc: Any) -> State:
    if not tracemalloc.is_tracing():
        return {}
    return {"frames": tracemalloc.get_traceback_limit()}


def _put_tracemalloc(tracemalloc: Any, state: State) -> None:
    tracemalloc.start(state["frames"])


def _take_sklearn(sklearn: Any) -> State:
    module = sys.modules.get("sklearn._config")
    defaults = dict(getattr(module, "_global_config", {}))
    fresh = {
        "assume_finite": False,
        "working_memory": 1024,
        "print_changed_only": True,
        "display": "diagram",
        "transform_output": "default",
        "enable_metadata_routing": False,
        "skip_parameter_validation": False,
        "array_api_dispatch": False,
        "pairwise_dist_chunk_size": 256,
        "enable_cython_pairwise_dist": True,
    }
    now = sklearn.get_config()
    return {k: v for k, v in now.items() if k in defaults and v != fresh.get(k, v)}


def _put_sklearn(sklearn: Any, state: State) -> None:
    sklearn.set_config(**state)


def _take_transformers(transformers: Any) -> State:
    log = sys.modules.get("transformers.utils.logging")
    state: State = {}
    if log is not None:
        verbosity = log.get_verbosity()
        if verbosity != logging.WARNING:
            state["verbosity"] = verbosity
        if not log.is_progress_bar_enabled():
            state["progress bars"] = False
    return state


def _put_transformers(transformers: Any, state: State) -> None:
    log = importlib.import_module("transformers.utils.logging")
    if "verbosity" in state:
        log.set_verbosity(state["verbosity"])
    if "progress bars" in state:
        log.disable_progress_bar()


def _take_datasets(datasets: Any) -> State:
    state: State = {}
    if datasets.logging.get_verbosity() != logging.WARNING:
        state["verbosity"] = datasets.logging.get_verbosity()
    if not datasets.is_caching_enabled():
        state["caching"] = False
    return state


def _put_datasets(datasets: Any, state: State) -> None:
    if "verbosity" in state:
        datasets.logging.set_verbosity(state["verbosity"])
    if "caching" in state:
        datasets.disable_caching()


def _take_polars(polars: Any) -> State:
    saved = polars.Config.save()
    parts = json.loads(saved)
    return {"Config": saved} if any(v for part in parts.values() for v in part.values()) else {}


def _put_polars(polars: Any, state: State) -> None:
    polars.Config.load(state["Config"])


def _take_xarray(xarray: Any) -> State:
    module = sys.modules.get("xarray.core.options")
    now = dict(getattr(module, "OPTIONS", {}))
    fresh = {
        "arithmetic_join": "inner",
        "display_max_rows": 12,
        "display_max_items": 20,
        "display_style": "html",
        "display_width": 80,
        "file_cache_maxsize": 128,
        "keep_attrs": "default",
        "cmap_divergent": "RdBu_r",
        "cmap_sequential": "viridis",
        "use_bottleneck": True,
        "use_numbagg": True,
    }
    return {key: value for key, value in now.items() if key in fresh and value != fresh[key]}


def _put_xarray(xarray: Any, state: State) -> None:
    xarray.set_options(**state)


def _take_dask(dask: Any) -> State:
    config = sys.modules.get("dask.config")
    if config is None:
        return {}
    fresh: dict[str, Any] = {}
    for part in config.defaults:
        fresh = config.merge(fresh, part)
    flat_now, flat_fresh = _flat(config.config), _flat(fresh)
    return {k: v for k, v in flat_now.items() if k not in flat_fresh or flat_fresh[k] != v}


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found = {}
    for key, value in config.items():
        if isinstance(value, dict) and value:
            found.update(_flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def _put_dask(dask: Any, state: State) -> None:
    dask.config.set(state)  # not in a `with`: it stays


def _take_plotly(plotly: Any) -> State:
    io = sys.modules.get("plotly.io")
    state: State = {}
    if io is not None:
        if io.templates.default != "plotly":
            state["template"] = io.templates.default
        own = {n: t for n, t in io.templates._templates.items() if n not in _PLOTLYS}
        state.update({f"template {name}": each for name, each in own.items()})
        state["renderer"] = io.renderers.default
    return state


_PLOTLYS = frozenset(
    (
        *("ggplot2", "seaborn", "simple_white", "plotly", "plotly_white", "plotly_dark"),
        *("presentation", "xgridoff", "ygridoff", "gridon", "none"),
    )
)


def _put_plotly(plotly: Any, state: State) -> None:
    io = importlib.import_module("plotly.io")
    for key, value in state.items():
        if key.startswith("template "):
            io.templates[key.partition(" ")[2]] = value
    if "template" in state:
        io.templates.default = state["template"]
    if "renderer" in state and io.renderers.default != state["renderer"]:
        io.renderers.default = state["renderer"]


def _take_jax(jax: Any) -> State:
    names = ("jax_enable_x64", "jax_debug_nans", "jax_disable_jit", "jax_default_matmul_precision")
    found = {name: getattr(jax.config, name) for name in names}
    return {name: value for name, value in found.items() if value}


def _put_jax(jax: Any, state: State) -> None:
    for name, value in state.items():
        jax.config.update(name, value)


def _take_tqdm(tqdm: Any) -> State:
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return {"pandas": True} if hasattr(frame, "progress_apply") else {}


def _put_tqdm(tqdm: Any, state: State) -> None:
    tqdm.tqdm.pandas()


#: By module; in this order they are put back.
RULES: dict[str, Rule] = {
    "numpy": ("NumPy settings", _take_numpy, _put_numpy),
    "pandas": ("pandas options", _take_pandas, _put_pandas),
    "decimal": ("decimal context", _take_decimal, _put_decimal),
    "logging": ("root logger", _take_logging, _put_logging),
    "mimetypes": ("types of files", _take_mimetypes, _put_mimetypes),
    "csv": ("csv settings", _take_csv, _put_csv),
    "multiprocessing": ("multiprocessing", _take_multiprocessing, _put_multiprocessing),
    "tracemalloc": ("tracemalloc", _take_tracemalloc, _put_tracemalloc),
    "sklearn": ("scikit-learn settings", _take_sklearn, _put_sklearn),
    "transformers": ("transformers settings", _take_transformers, _put_transformers),
    "datasets": ("datasets settings", _take_datasets, _put_datasets),
    "polars": ("polars settings", _take_polars, _put_polars),
    "xarray": ("xarray options", _take_xarray, _put_xarray),
    "dask": ("dask configuration", _take_dask, _put_dask),
    "plotly": ("plotly settings", _take_plotly, _put_plotly),
    "jax": ("JAX settings", _take_jax, _put_jax),
    "tqdm": ("tqdm's progress_apply of pandas", _take_tqdm, _put_tqdm),
}
