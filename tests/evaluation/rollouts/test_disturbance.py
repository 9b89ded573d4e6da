"""Each disturbance changes what it says and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.data.schemas import aloha_schema
from act_policy.evaluation.rollouts.delays import Delay
from act_policy.evaluation.rollouts.disturbance import UNDISTURBED, Disturbance
from act_policy.evaluation.rollouts.run import (
    Rollout,
    build_environment,
    evaluate_policy,
    run_episode,
)
from act_policy.sim.appearance import Appearance
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera
from tests.evaluation.evaluation_for_tests import SCHEMA, SeeingPolicy, build

STATE = FieldStatistics(np.zeros(14), np.linspace(0.0, 1.3, 14), np.zeros(14), np.zeros(14))


class KnowingPolicy(SeeingPolicy):
    statistics = Statistics(STATE, STATE, 100)


class Watched:
    """Acts the same whatever it sees, and keeps what it saw."""

    def __init__(self) -> None:
        self.states: list[np.ndarray] = []
        self.images: list[dict[str, np.ndarray]] = []

    def __call__(self, observation: Observation[np.ndarray]) -> np.ndarray:
        self.states.append(np.array(observation.state))
        self.images.append({name: np.array(image) for name, image in observation.images.items()})
        return np.full(14, 0.1 * len(self.states), np.float32)


@pytest.fixture(scope="module")
def environment() -> Iterator[Any]:
    cameras = [Camera("top", 48, 64), Camera("angle", 48, 64)]
    schema = replace(aloha_schema(cameras), environment="act_policy/AlohaTransferCube-v0")
    made = build_environment(schema, max_steps=12)
    yield made
    made.close()


def watch(environment: Any, disturbance: Disturbance, seed: int = 3000) -> Watched:
    watched = Watched()
    act = disturbance.disturb(watched, KnowingPolicy(), seed)
    run_episode(environment, act, seed, options=disturbance.reset_options(environment))
    return watched


def test_noise_is_on_the_measured_state_alone(environment: Any) -> None:
    usual = watch(environment, UNDISTURBED)
    noisy, again = (watch(environment, Disturbance(state_noise=0.1)) for _ in range(2))
    for one, other in zip(usual.images, noisy.images, strict=True):  # so physics is the same
        for camera in one:
            np.testing.assert_array_equal(one[camera], other[camera])
    np.testing.assert_array_equal(noisy.states, again.states)
    noise = np.array(noisy.states) - np.array(usual.states)
    assert not noise[:, 0].any()  # this state never changed in the demonstrations
    relative = noise[:, 1:] / STATE.std[1:]
    assert relative.std() == pytest.approx(0.1, rel=0.15)
    assert len(np.unique(relative.round(6))) == relative.size
    other = watch(environment, Disturbance(state_noise=0.1), seed=3001)
    assert (np.array(other.states[0]) - noisy.states[0]).any()
    assert noisy.states[0].dtype == np.float32


def test_dropped_frames_show_the_last_image_once_more(environment: Any) -> None:
    usual = watch(environment, UNDISTURBED)
    dropping = watch(environment, Disturbance(dropped_frames=0.5))
    np.testing.assert_array_equal(usual.states, dropping.states)
    shown = dict.fromkeys(usual.images[0], 0)
    pattern = {camera: [] for camera in shown}  # type: dict[str, list[int]]
    for step, images in enumerate(dropping.images):
        for camera, image in images.items():
            if (image == usual.images[step][camera]).all():
                shown[camera] = step
            np.testing.assert_array_equal(image, usual.images[shown[camera]][camera])
            pattern[camera].append(shown[camera])
    for steps in pattern.values():
        assert steps[0] == 0
        assert 3 < len(set(steps)) < 12
    assert pattern["top"] != pattern["angle"]  # each camera for itself
    frozen = watch(environment, Disturbance(dropped_frames=1))
    for images in frozen.images:
        np.testing.assert_array_equal(images["top"], usual.images[0]["top"])


def test_images_that_the_policy_does_not_read_are_not_drawn(environment: Any) -> None:
    before = environment.unwrapped.frame_count
    disturbance = Disturbance(dropped_frames=0.5)
    act = disturbance.disturb(lambda _: np.zeros(14, np.float32), KnowingPolicy(), 3000)
    run_episode(environment, act, 3000)
    assert environment.unwrapped.frame_count == before


def test_looks_are_changed_by_the_reset(environment: Any) -> None:
    usual = watch(environment, UNDISTURBED)
    dark = watch(environment, Disturbance(Appearance(light=(0.5, 0.5, 0.5))))
    np.testing.assert_array_equal(usual.states, dark.states)
    assert all((d["top"] <= u["top"]).all() for d, u in zip(dark.images, usual.images, strict=True))
    assert dark.images[0]["top"].mean() < usual.images[0]["top"].mean()


def test_a_delay_replaces_the_evaluations() -> None:
    usual = Delay(1, stop_and_wait=True)
    assert Disturbance(delay=3).lateness(usual) == Delay(3, stop_and_wait=True)
    assert UNDISTURBED.lateness(usual) == usual


def test_a_late_episode_is_that_of_an_evaluation_with_this_delay() -> None:
    late = [Rollout(10, disturbance=Disturbance(delay=2)), Rollout(10)]
    one, usual = evaluate_policy(SeeingPolicy, build, late, workers=1)
    [same] = evaluate_policy(SeeingPolicy, build, [Rollout(10)], workers=1, delay=Delay(2))
    np.testing.assert_array_equal(one.actions, same.actions)
    assert one.captured is not None
    assert usual.captured is not None
    assert list(one.captured[:8]) != list(usual.captured[:8])


def test_plain_values_lie_side_by_side() -> None:
    values = {"light": [0.5, 1, 1], "dropped_frames": 1, "camera": "top"}
    made = Disturbance.from_config(values)
    assert made == Disturbance(Appearance(light=(0.5, 1.0, 1.0), camera="top"), dropped_frames=1)
    assert Disturbance.from_config({}) == UNDISTURBED
    with pytest.raises(UserError, match=r"unknown disturbance lights; known are camera, .*light"):
        Disturbance.from_config({"lights": [0, 0, 0]})
    for wrong in (
        {"delay": -1},
        {"state_noise": -0.1},
        {"dropped_frames": 1.5},
        {"state_noise": True},
    ):
        with pytest.raises(UserError, match=f"{next(iter(wrong))}=.*expected a "):
            Disturbance.from_config(wrong)


def test_what_cannot_be_disturbed_is_refused() -> None:
    with pytest.raises(UserError, match="demonstrations, which this policy does not know"):
        Disturbance(state_noise=0.1).disturb(Watched(), SeeingPolicy(), 1)
    looks = Disturbance(Appearance(distractors=1))
    with pytest.raises(UserError, match="appearance of this environment cannot be changed"):
        looks.reset_options(build(SCHEMA))
