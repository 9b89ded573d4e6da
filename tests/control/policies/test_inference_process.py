"""The policy's own process: it answers, fails, stalls and dies without holding anybody up."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.config import RobotConfig
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.torch_free import open_torch_free
from act_policy.control.robots.contract import Contract
from act_policy.control.safety.supervisor import Mode
from act_policy.execution import Execution
from tests.control.loop_for_tests import (
    CHUNK_LENGTH,
    RANGES,
    SCHEMA,
    Arm,
    Bench,
    Clock,
    hold_still,
    statistics_of,
)


class MoodyPolicy:
    """What it does is told by the shoulder: 0.9 fails, 0.8 stalls for two seconds."""

    schema, chunk_length, execution = SCHEMA, CHUNK_LENGTH, Execution(2, reason="tuned")
    statistics, demonstration_seeds = statistics_of(([0, 0], [1, 1]), ([0] * 3, [1] * 3)), (7,)

    def __init__(self) -> None:
        self.connections = 0

    def connect(self) -> None:
        self.connections += 1

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        if observation.state[0] > 0.85:
            raise OSError("the cable is out")
        if observation.state[0] > 0.75:
            time.sleep(2.0)
        chunk = hold_still(observation)
        chunk[0, 2] = self.connections
        chunk[1, 2] = observation.images["front"].mean()
        chunk[2, 2] = observation.images["wrist"].mean()
        return chunk


def refuse() -> MoodyPolicy:
    raise UserError("p.onnx: no such file")


@pytest.fixture(scope="module")
def process() -> Iterator[InferenceProcess]:
    inference = InferenceProcess(MoodyPolicy)
    yield inference
    inference.close()


def observe(shoulder: float) -> Observation[np.ndarray]:
    arm = Arm(Clock())
    arm.joints["shoulder"] = shoulder
    return Contract(SCHEMA, RANGES, RobotConfig()).observation(arm.get_observation())


def ask(inference: InferenceProcess, shoulder: float) -> np.ndarray | str:
    inference.submit(observe(shoulder), captured=1.5)
    assert inference.busy
    answer = inference.wait(60.0)
    assert answer is not None
    assert answer.captured == 1.5
    assert not inference.busy
    return answer.error if answer.chunk is None else answer.chunk


def test_an_answer_crosses_unchanged(process: InferenceProcess) -> None:
    assert process.schema == SCHEMA
    assert process.chunk_length == CHUNK_LENGTH
    assert process.statistics.to_dict() == MoodyPolicy.statistics.to_dict()
    assert process.demonstration_seeds == (7,)
    assert process.execution == MoodyPolicy.execution
    chunk = ask(process, 0.25)
    assert isinstance(chunk, np.ndarray)
    images = observe(0.25).images
    np.testing.assert_allclose(chunk[:, 0], 0.25)
    np.testing.assert_allclose(chunk[1:3, 2], [images[n].mean() for n in ("front", "wrist")])
    assert process.poll() is None


def test_an_error_is_an_answer_and_the_next_question_reconnects(
    process: InferenceProcess,
) -> None:
    assert ask(process, 0.9) == "OSError: the cable is out"
    chunk = ask(process, 0.1)
    assert isinstance(chunk, np.ndarray)
    assert chunk[0, 2] == 1
    assert ask(process, 0.1)[0, 2] == 1  # type: ignore[index, comparison-overlap]


def test_a_stalled_policy_holds_up_nobody(process: InferenceProcess) -> None:
    begun = time.monotonic()
    process.submit(observe(0.8), captured=0.0)
    assert process.poll() is None
    assert time.monotonic() - begun < 1.0
    assert process.wait(60.0) is not None


def test_a_policy_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"p\.onnx: no such file"):
        InferenceProcess(refuse)
    with pytest.raises(UserError, match=r"policy p\.ckpt: expected FILE\.onnx or ws://"):
        open_torch_free("p.ckpt", threads=1)
    with pytest.raises(UserError, match="no such file"):
        InferenceProcess(partial(open_torch_free, str(tmp_path / "none.onnx"), 1))


def test_killed_in_the_middle_of_an_episode_the_arm_holds_with_the_reason() -> None:
    inference = InferenceProcess(MoodyPolicy)
    try:
        bench = Bench()
        bench.loop._executor._inference = inference  # type: ignore[attr-defined]
        bench.operator.key("\n")
        for _ in range(200):
            bench.run(1)
            time.sleep(0.01)
            if bench.supervisor.mode is Mode.RUNNING:
                break
        assert bench.supervisor.mode is Mode.RUNNING, bench.events.events
        inference._process.kill()
        for _ in range(200):
            sent = bench.run(1)
            time.sleep(0.01)
            if bench.supervisor.mode is Mode.HOLDING:
                break
        assert bench.supervisor.reason == "the policy's process ended by signal 9"
        assert sent[-1]["base"] == 0
        assert bench.run(3)[-1] == pytest.approx({"shoulder": 0.2, "gripper": 0.5, "base": 0.0})
        bench.start(3)  # nobody is there to resume with
        assert bench.supervisor.mode is Mode.HOLDING
        with pytest.raises(PolicyError):
            inference.poll()
    finally:
        inference.close()
        inference.close()


class LeavingPolicy(MoodyPolicy):
    """Notes that it was closed."""

    def __init__(self, note: Path) -> None:
        super().__init__()
        self.note = note

    def close(self) -> None:
        self.note.write_text("closed")


def test_a_policy_is_closed_with_its_process(tmp_path: Path) -> None:
    InferenceProcess(partial(LeavingPolicy, tmp_path / "note")).close()
    assert (tmp_path / "note").read_text() == "closed"
