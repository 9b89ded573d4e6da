"""The chunk executor: queue, reset, refusals, and that it leaves images alone."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from act_policy import Observation, Schema, UserError
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.execution import Execution
from act_policy.types import Camera

SCHEMA = Schema(
    cameras=(Camera("front", 2, 3),),
    state_names=("x",),
    state_units=("m",),
    action_names=("left", "right"),
    action_units=("m", "m"),
    rate=10.0,
)


class CountingPolicy:
    """Row i of the n-th chunk is (100 n + i, state); chunk_length 5."""

    schema = SCHEMA
    chunk_length = 5
    statistics, demonstration_seeds, execution = None, (), Execution()

    def __init__(self) -> None:
        self.calls = 0
        self.chunk = np.zeros((5, 2), np.float32)

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        SCHEMA.check(observation)
        self.chunk[:, 0] = 100 * self.calls + np.arange(5)
        self.chunk[:, 1] = observation.state[0]
        self.calls += 1
        return self.chunk


def observe(state: float) -> Observation[np.ndarray]:
    return Observation({"front": np.zeros((2, 3, 3), np.uint8)}, np.array([state], np.float32))


def test_the_whole_chunk_by_default() -> None:
    executor = ChunkExecutor(CountingPolicy())
    firsts = [executor.select_action(observe(0))[0] for _ in range(7)]
    assert firsts == [0, 1, 2, 3, 4, 100, 101]


def test_execute_steps_cuts_each_chunk() -> None:
    executor = ChunkExecutor(CountingPolicy(), execute_steps=2)
    assert [executor.select_action(observe(0))[0] for _ in range(5)] == [0, 1, 100, 101, 200]


@pytest.mark.parametrize(
    ("asked", "steps", "ensembles"),
    [
        ({}, 1, True),
        ({"execute_steps": 3}, 3, False),
        ({"ensemble_coefficient": 0.5}, 1, True),
    ],
)
def test_the_policys_own_execution_counts_unless_another_is_asked_for(
    asked: dict[str, Any], steps: int, ensembles: bool
) -> None:
    policy = CountingPolicy()
    policy.execution = Execution(ensemble_coefficient=0.0, reason="tuned")
    executor = ChunkExecutor(policy, **asked)
    assert executor.execute_steps == steps
    assert executor.execution.reason == ("" if asked else "tuned")
    executor.select_action(observe(0))
    mean = asked.get("ensemble_coefficient", 0.0)
    expected = (1 + 100 * np.exp(-mean)) / (1 + np.exp(-mean)) if ensembles else 1
    assert executor.select_action(observe(0))[0] == pytest.approx(expected)


def test_an_execution_that_does_not_fit_the_chunk_is_refused() -> None:
    policy = CountingPolicy()
    policy.execution = Execution(execute_steps=6)
    with pytest.raises(UserError, match="execute_steps: found 6, expected 1 to 5"):
        ChunkExecutor(policy)


def test_after_a_reset_the_action_comes_from_the_new_observation() -> None:
    executor = ChunkExecutor(CountingPolicy())
    for _ in range(3):
        executor.select_action(observe(1.0))
    executor.reset()
    np.testing.assert_array_equal(executor.select_action(observe(7.0)), [100.0, 7.0])


def test_ensembling_asks_at_every_step_and_a_reset_forgets() -> None:
    executor = ChunkExecutor(CountingPolicy(), ensemble_coefficient=0.0)
    assert executor.select_action(observe(0))[0] == 0
    assert executor.select_action(observe(0))[0] == pytest.approx((1 + 100) / 2)
    executor.reset()
    assert executor.select_action(observe(0))[0] == 200


def test_a_mapping_with_the_observations_keys() -> None:
    image, state = observe(3.0).images["front"], observe(3.0).state
    executor = ChunkExecutor(CountingPolicy())
    action = executor.select_action({"observation.images.front": image, "observation.state": state})
    np.testing.assert_array_equal(action, [0.0, 3.0])


def test_the_action_is_a_copy() -> None:
    policy = CountingPolicy()
    executor = ChunkExecutor(policy)
    executor.select_action(observe(0))[:] = -1
    policy.chunk[:] = -1
    np.testing.assert_array_equal(executor.select_action(observe(0)), [1.0, 0.0])


class CountedImages(Mapping[str, np.ndarray]):
    """Images that are rendered when they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, name: str) -> np.ndarray:
        self.reads += 1
        return np.zeros((2, 3, 3), np.uint8)

    def __iter__(self) -> Iterator[str]:
        return iter(["front"])

    def __len__(self) -> int:
        return 1


def test_images_are_read_only_for_a_new_chunk() -> None:
    executor = ChunkExecutor(CountingPolicy())
    reads = []
    for _ in range(6):
        images = CountedImages()
        executor.select_action(Observation(images, np.zeros(1, np.float32)))
        reads.append(images.reads)
    assert reads[1:5] == [0, 0, 0, 0]
    assert reads[0] > 0
    assert reads[5] > 0


@pytest.mark.parametrize("steps", [0, -1, 6])
def test_execute_steps_out_of_range_names_both(steps: int) -> None:
    with pytest.raises(UserError, match=f"found {steps}, expected 1 to 5"):
        ChunkExecutor(CountingPolicy(), execute_steps=steps)


def test_ensembling_with_execute_steps_is_refused() -> None:
    with pytest.raises(UserError, match="execute_steps: found 3"):
        ChunkExecutor(CountingPolicy(), execute_steps=3, ensemble_coefficient=0.01)
    assert ChunkExecutor(CountingPolicy(), 1, 0.01).execute_steps == 1


@pytest.mark.parametrize("coefficient", [None, 0.01])
def test_an_action_that_is_not_finite_is_refused_by_name(coefficient: float | None) -> None:
    class Broken(CountingPolicy):
        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            chunk = super().predict_chunk(observation)
            chunk[3, 1] = np.nan
            return chunk

    with pytest.raises(UserError, match="not a finite number in right"):
        ChunkExecutor(Broken(), ensemble_coefficient=coefficient).select_action(observe(0))


@pytest.mark.parametrize("coefficient", [None, 0.0])
def test_after_an_error_no_earlier_prediction_counts(coefficient: float | None) -> None:
    """The robot held a step meanwhile, so every earlier chunk is a step behind."""

    class Stumbling(CountingPolicy):
        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            if observation.state[0] < 0:
                raise UserError("the camera hung")
            return super().predict_chunk(observation)

    executor = ChunkExecutor(Stumbling(), None if coefficient is not None else 1, coefficient)
    for _ in range(3):
        executor.select_action(observe(1.0))
    with pytest.raises(UserError, match="the camera hung"):
        executor.select_action(observe(-1.0))
    assert executor.select_action(observe(1.0))[0] == 300


def test_a_chunk_of_another_shape_is_refused() -> None:
    class Longer(CountingPolicy):
        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            return np.zeros((6, 2))

    with pytest.raises(UserError, match=r"\(6, 2\), expected a chunk of floats \(5, 2\)"):
        ChunkExecutor(Longer()).select_action(observe(0))


def test_control_needs_numpy_only() -> None:
    code = (
        "import sys, act_policy.control.chunks.executor, act_policy.control.policies.onnx_policy;"
        "heavy = {'torch', 'onnxruntime', 'gymnasium', 'h5py', 'mujoco'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
