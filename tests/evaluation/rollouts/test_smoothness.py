"""Jerk and jumps beside those of the demonstrations."""

import numpy as np
import pytest

from act_policy.evaluation.rollouts.smoothness import DemonstratedMotion


def sway(length: int = 300) -> np.ndarray:
    """Two joints that sway; a third that stands still."""
    t = np.linspace(0, 20, length)
    return np.stack([np.sin(t), 3 * np.cos(t), np.full(length, 0.5)], axis=1).astype(np.float32)


@pytest.fixture
def motion() -> DemonstratedMotion:
    return DemonstratedMotion.measure([sway(), sway(250)])


def test_a_demonstration_is_as_smooth_as_the_demonstrations() -> None:
    motion = DemonstratedMotion.measure([sway()])
    smoothness = motion.compare([sway()], execute_steps=10)
    assert smoothness.jerk == pytest.approx(1.0)
    assert smoothness.jumps is not None
    assert smoothness.jumps <= 0.04


def test_demonstrations_that_stand_still_in_different_places_have_no_steps() -> None:
    still = [np.full((30, 1), place, np.float32) for place in (0.05, -0.05)]
    motion = DemonstratedMotion.measure(still)
    assert np.isnan(motion.jerk).all()
    assert np.isinf(motion.largest_step).all()


def test_a_jump_counts_where_a_chunk_begins(motion: DemonstratedMotion) -> None:
    actions = sway()
    actions[50:, 1] += 1.0  # more than the 0.2 of the largest steps
    assert motion.compare([actions], execute_steps=50).jumps == pytest.approx(1 / 5)
    assert motion.compare([actions], execute_steps=40).jumps == 0.0


def test_the_direction_of_a_jump_does_not_matter(motion: DemonstratedMotion) -> None:
    actions = sway()
    actions[50:, 1] -= 1.0
    assert motion.compare([actions], execute_steps=50).jumps == pytest.approx(1 / 5)


def test_jerk_is_a_multiple_whatever_the_units(motion: DemonstratedMotion) -> None:
    rough = sway() + np.random.default_rng(0).normal(0, 0.01, (300, 3)).astype(np.float32)
    jerk = motion.compare([rough], execute_steps=300).jerk
    assert jerk > 5
    scale = np.array([1000, 0.001, 1], np.float32)
    scaled = DemonstratedMotion.measure([sway() * scale, sway(250) * scale])
    assert scaled.compare([rough * scale], execute_steps=300).jerk == pytest.approx(jerk, rel=1e-3)


def test_a_joint_that_moves_by_rounding_stands_still() -> None:
    """As those of scripted demonstrations do, which inverse kinematics leaves near zero."""
    rounding = np.random.default_rng(0).normal(0, 1e-8, 300).astype(np.float32)
    demonstration, acted = sway(), sway()
    demonstration[:, 2] = rounding
    acted[:, 2] = 1e-3 * np.arange(300) ** 2  # which the network does not know to be still
    smoothness = DemonstratedMotion.measure([demonstration]).compare([acted], execute_steps=10)
    assert smoothness.jerk == pytest.approx(1.0)
    assert smoothness.jumps is not None
    assert smoothness.jumps <= 0.04


def test_no_chunk_follows_another(motion: DemonstratedMotion) -> None:
    assert motion.compare([sway(20)], execute_steps=32).jumps is None


def test_episodes_too_short_for_a_jerk_have_none(motion: DemonstratedMotion) -> None:
    assert motion.compare([sway()[:2]], execute_steps=1).jerk == 0.0
