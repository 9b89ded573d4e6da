"""The drawn demonstrations: blocks are where cameras show them, and are carried into the bin."""

from pathlib import Path

import numpy as np
import pytest

from act_policy.data.inspection.evidence import InspectionConfig
from act_policy.data.inspection.finding import Verdict
from act_policy.data.inspection.inspect import inspect_before_training
from act_policy.data.open import open_dataset
from act_policy.types import Camera
from tests.training.plan.arm_demonstrations import ArmDemonstrations, write_dataset
from tests.training.plan.arm_pictures import BIN, BLOCK, HELD, find_view, locate_arm

CAMERAS = tuple(Camera(name, 96, 128) for name in ("front", "left", "right", "top", "wrist"))


def make(seed: int = 0) -> ArmDemonstrations:
    return ArmDemonstrations(episodes=2, steps=60, rate=10.0, cameras=CAMERAS, seed=seed)


def find_red(image: np.ndarray) -> np.ndarray:
    """Return the middle (x, y) of all that is red."""
    red, green, blue = np.moveaxis(image.astype(int), -1, 0)
    return np.argwhere((red > 100) & (green < 70) & (blue < 70)).mean(axis=0)[::-1]


def check_red_block(
    source: ArmDemonstrations, camera: Camera, step: int, image: np.ndarray
) -> None:
    scene = source.scene(0, step)
    view = find_view(camera, locate_arm(scene.joints))
    expected, depth = view.project(scene.blocks[0, :3])
    assert np.abs(find_red(image) - expected).max() < view.focal * BLOCK / depth


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda camera: camera.name)
def test_the_block_is_seen_where_it_is(camera: Camera) -> None:
    source = make()
    for step in (30,) if camera.name == "wrist" else (0, 59):  # in the hand; before and after
        check_red_block(source, camera, step, source.frame(0, step, camera.name))


def test_the_block_is_grasped_and_ends_in_the_bin() -> None:
    source = make()
    for episode in range(2):
        made = source.demonstration(episode)
        moved = np.flatnonzero(np.abs(np.diff(made.blocks[:, 0], axis=0)).any(axis=1)) + 1
        tips = locate_arm(made.state[moved[0]].astype(np.float64)).points[3]
        assert np.linalg.norm(tips - made.blocks[0, 0, :3]) < BLOCK / 2
        held = made.state[moved[1:-1], 5]
        assert np.abs(held - HELD).max() < 1  # while the hand is told to close further
        assert np.abs(made.blocks[-1, 0, :2] - made.bin).max() < BIN / 2


def test_a_seed_gives_the_same_demonstrations() -> None:
    one, same, other = make(), make(), make(seed=1)
    assert np.array_equal(one.action(1), same.action(1))
    assert np.array_equal(one.frame(1, 7, "wrist"), same.frame(1, 7, "wrist"))
    assert not np.array_equal(one.action(1), other.action(1))


@pytest.mark.slow
def test_what_is_written_can_be_trained_on(tmp_path: Path) -> None:
    source = ArmDemonstrations(2, 20, 10.0, (CAMERAS[0], CAMERAS[4]), 0)
    assert "2 episodes, 40 steps, all checked" in write_dataset(source, tmp_path / "arm", 1)
    written = open_dataset(tmp_path / "arm")
    assert written.schema.action_names[-1] == "gripper.pos"
    findings = inspect_before_training(written, InspectionConfig())
    assert Verdict.ERROR not in {finding.verdict for finding in findings}
    check_red_block(source, CAMERAS[0], 0, written.frame(0, 0, "front"))
