"""Meta-World as LeRobot 0.6.1 evaluates it, and here: camera, steps, and a policy's outcomes.

record.py asked LeRobot's MetaworldEnv.
"""

import json

import numpy as np
import pytest

from act_policy.images.resize import crop_and_resize
from act_policy.intervals import wilson_interval
from act_policy.sim import MAX_EPISODE_STEPS
from act_policy.sim.metaworld import MetaWorldEnv
from act_policy.sim.rendering import Pose
from tests.parity.metaworld.record import DRAWN, EPISODES, IMAGES, PLAYED, PROTOCOL, SIDE

RECORDED = json.loads(PROTOCOL.read_text())


def test_an_episode_has_as_many_steps() -> None:
    assert RECORDED["lerobot"] == "0.6.1"
    assert RECORDED["max_steps"] == MAX_EPISODE_STEPS


@pytest.mark.slow
@pytest.mark.parametrize("task", DRAWN)
def test_the_protocols_camera_is_corner4(task: str) -> None:
    """Where everything stands as it stood there, the same image is drawn, and scaled."""
    theirs = dict(np.load(IMAGES))
    environment = MetaWorldEnv(task, cameras={"corner4": (480, 480)}, quality="exact")
    environment.reset(seed=0)
    ours = Pose.of(environment._data)
    stands = {name: theirs[f"{task}/{name}"] for name in Pose._fields if f"{task}/{name}" in theirs}
    image = environment._renderer.render("corner4", ours._replace(**stands))
    environment.close()
    scaled = crop_and_resize(image, None, SIDE, SIDE)
    assert np.abs(scaled.astype(int) - theirs[f"{task}/image"]).max() <= 1


@pytest.mark.skipif(not RECORDED.get("played"), reason="record.py has played no policy yet")
def test_a_policy_succeeds_there_as_often_as_here() -> None:
    """Seeds do not draw the same initial states there, so only the rates can be compared."""
    episodes = EPISODES * len(PLAYED)
    intervals = []
    for side in ("here", "there"):
        outcomes = [success for task in PLAYED for success, _ in RECORDED["played"][side][task]]
        assert len(outcomes) == episodes
        intervals.append(wilson_interval(sum(outcomes), episodes))
    (low_here, high_here), (low_there, high_there) = intervals
    assert low_here <= high_there
    assert low_there <= high_here
