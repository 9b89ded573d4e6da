"""The clocks of both sides; the peer's Python has no act_policy, so they need none of it."""

import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any


def time_calls(config: Any, call: Callable[[], Any], whole: int = 1) -> float:
    """Return seconds per call, the median of repeats of a multiple of `whole` calls each."""
    for _ in range(3 * whole):
        call()
    means = []
    for _ in range(config.repeats):
        began, calls = time.perf_counter(), 0
        while calls == 0 or calls % whole or time.perf_counter() - began < config.seconds:
            call()
            calls += 1
        means.append((time.perf_counter() - began) / calls)
    return median(means)


def loader_speed(config: Any, batch_sizes: Iterable[int]) -> float:
    """Return samples per second, the median of the repeats, as a loader gives batches for ever."""
    speeds: list[float] = []
    began, count = time.perf_counter(), 0
    for size in batch_sizes:
        count += size
        if (elapsed := time.perf_counter() - began) >= config.seconds:
            speeds.append(count / elapsed)
            if len(speeds) > config.repeats:
                break
            began, count = time.perf_counter(), 0
    return median(speeds[1:])  # the first one opens files
