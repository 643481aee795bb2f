"""Times and memory on a device; on the CPU only to rehearse."""

import statistics
import time

import torch
from _measure import peak_rss_mib

WARM_UPS, REPEATS = 3, 20


def median_ms(call, device):
    """Median milliseconds of a call."""
    for _ in range(WARM_UPS):
        call()
    if device == 'cpu':
        return statistics.median(_wall_ms(call) for _ in range(WARM_UPS))
    events = [
        [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        for _ in range(REPEATS)
    ]
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def _wall_ms(call):
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def peak_mib(call, device):
    """Peak of memory in MiB during a call, above what was there before."""
    if device == 'cpu':
        return peak_rss_mib(call)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def poison(like):
    """Leaves NaN in freed memory that the allocator hands out next."""
    for share in (1, 2, 4, 16):
        size = max(like.numel() // share, 1)
        nan = like.new_full((8 * size,), torch.nan)
        parts = [like.new_full((size,), torch.nan) for _ in range(8)]
        del nan, parts
