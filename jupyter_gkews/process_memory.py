"""Measures what a kernel's processes hold: memory and VRAM, in bytes. Never touches a process."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class HeldMemory:
    """Bytes of main memory (proportional share, so that shared pages count once) and of VRAM."""

    ram: int
    vram: int


def process_tree(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes `pids` with all their descendants, each once; those gone are left out."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                found.setdefault(each.pid, each)
        except psutil.Error:
            continue
    return list(found.values())


def measure(pids: Iterable[int]) -> HeldMemory:
    """What the trees of `pids` hold now. VRAM is 0 where it cannot be asked (no pynvml)."""
    tree = process_tree(pids)
    return HeldMemory(
        ram=sum(_ram(process) for process in tree), vram=_vram({process.pid for process in tree})
    )


def resident(pid: int) -> int | None:
    """What one process has in main memory, shared pages in full, as it is told at once; None if it
    is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def _ram(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.rss))
    except psutil.NoSuchProcess:
        return 0
    except (psutil.Error, OSError):
        try:
            return int(process.memory_info().rss)
        except psutil.Error:
            return 0


def _vram(pids: set[int]) -> int:
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, or no driver: there is nothing to ask
        return 0
    total = 0
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(device):
                if process.pid in pids and process.usedGpuMemory:
                    total += int(process.usedGpuMemory)
    except Exception:  # a driver that does not tell (some virtual GPUs): say 0 rather than guess
        return 0
    finally:
        nvml.nvmlShutdown()
    return total
