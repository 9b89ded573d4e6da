"""A policy server that stalls or dies in mid-episode: the arm holds, with the reason."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from act_policy import Observation
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.torch_free import open_torch_free
from act_policy.control.safety.supervisor import Mode
from act_policy.execution import Execution
from tests.control import server_for_tests
from tests.control.loop_for_tests import CHUNK_LENGTH, SCHEMA, Bench, statistics_of


class Rolling:
    """Holds the joints and rolls the base; answers only while it may."""

    schema, chunk_length = SCHEMA, CHUNK_LENGTH
    statistics = statistics_of(([-1, 0], [1, 1]), ([-1, 0, np.nan], [1, 1, np.nan]))
    demonstration_seeds = (3,)
    execution = Execution(2)

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        self.may_answer.wait(20)
        state = np.atleast_2d(observation.state)
        rows = np.concatenate([state, np.full((len(state), 1), 0.3, np.float32)], axis=1)
        chunks: np.ndarray = np.repeat(rows[:, None], CHUNK_LENGTH, axis=1)
        return chunks[0] if np.ndim(observation.state) == 1 else chunks


@contextmanager
def running(policy: Rolling) -> Iterator[tuple[Bench, Any]]:
    """A bench whose policy is behind a server, in motion; leaving the block ends the server."""
    with server_for_tests.serving(policy) as server:
        inference = InferenceProcess(partial(open_torch_free, server.url, 1))
        bench = Bench()
        bench.loop._executor._inference = inference  # type: ignore[attr-defined]
        bench.operator.key("\n")
        tick_until(bench, lambda: bench.supervisor.mode is Mode.RUNNING)
        yield bench, inference


def tick_until(bench: Bench, condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        bench.run(1)
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(bench.events.events)


def test_a_network_stall_holds_and_the_operator_can_go_on() -> None:
    policy = Rolling()
    with running(policy) as (bench, inference):
        ranges = DemonstratedRanges.from_statistics(SCHEMA, inference.statistics)
        np.testing.assert_array_equal(ranges.action_high, [1, 1, np.nan])
        assert inference.demonstration_seeds == (3,)
        assert inference.execution == Execution(2)
        policy.may_answer.clear()
        tick_until(bench, lambda: bench.supervisor.mode is Mode.HOLDING)
        assert bench.supervisor.reason.startswith("the policy has not answered for 1.")
        assert bench.run(2)[-1]["base"] == 0
        time.sleep(2.5)  # longer than the client waits
        policy.may_answer.set()
        bench.operator.key("\n")
        tick_until(bench, lambda: bench.supervisor.mode is Mode.RUNNING)
        assert bench.arm.sent[-1]["base"] == pytest.approx(0.3)
        inference.close()


def test_a_server_that_dies_holds_and_says_so() -> None:
    with running(Rolling()) as (bench, inference):
        pass
    tick_until(bench, lambda: bench.supervisor.mode is Mode.HOLDING)
    assert bench.supervisor.reason.startswith("the policy failed: policy server ws://127.0.0.1:")
    assert bench.run(2)[-1]["base"] == 0
    bench.start(1)
    tick_until(bench, lambda: bench.supervisor.mode is Mode.HOLDING)  # nobody answers
    inference.close()
