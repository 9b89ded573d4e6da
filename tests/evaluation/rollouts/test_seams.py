"""Jumps where a chunk passes into the next, and how soon the images of a moment show."""

import numpy as np
import pytest

from act_policy.evaluation.rollouts.run import EpisodeResult
from act_policy.evaluation.rollouts.seams import measure_motion, reaction_steps, seam_jumps
from act_policy.evaluation.rollouts.smoothness import DemonstratedMotion

DEMONSTRATED = [np.arange(50, dtype=np.float32)[:, None]]
"""Every step is 1."""
ALL = np.array([True])


def played(actions: list[float], captured: list[int] | None) -> EpisodeResult:
    own = None if captured is None else np.array(captured)
    return EpisodeResult(0, True, len(actions), np.array(actions, np.float32)[:, None], None, own)


def test_a_jump_counts_at_a_seam_only() -> None:
    motion = DemonstratedMotion.measure(DEMONSTRATED)
    captured = [0, 0, 0, 3, 3, 3]
    assert seam_jumps(played([0, 1, 2, 5, 6, 7], captured), motion, 0, ALL).tolist() == [3.0]
    assert seam_jumps(played([0, 1, 4, 5, 6, 7], captured), motion, 0, ALL).tolist() == [1.0]


def test_a_chunk_that_passes_in_slowly_is_watched_until_it_has() -> None:
    motion = DemonstratedMotion.measure(DEMONSTRATED)
    episode = played([0, 1, 2, 3, 6, 7, 20], [0, 0, 0, 3, 3, 3, 3])
    assert seam_jumps(episode, motion, 0, ALL).tolist() == [1.0]
    assert seam_jumps(episode, motion, 1, ALL).tolist() == [3.0]


def test_a_gripper_that_changes_at_once_is_no_jump() -> None:
    """A jump counts where the executor blends, so that it says how the arm moves."""
    actions = np.array([[0, 0], [1, 0], [2, 9], [3, 9]], np.float32)
    episode = EpisodeResult(0, True, 4, actions, None, np.array([0, 0, 2, 2]))
    motion = DemonstratedMotion.measure([np.repeat(DEMONSTRATED[0], 2, 1)])
    assert seam_jumps(episode, motion, 0, np.array([True, True])).tolist() == [9.0]
    assert seam_jumps(episode, motion, 0, np.array([True, False])).tolist() == [1.0]


def test_reaction_is_the_time_until_newer_images_act() -> None:
    assert reaction_steps(np.array([0, 1, 2])).tolist() == [0, 0, 0]
    # the images of step 1 are first in the action of step 3, made from those of step 2
    assert reaction_steps(np.array([0, 0, 0, 2, 2])).tolist() == [0, 2, 1]


def test_what_cannot_be_measured_is_left_out() -> None:
    motion = measure_motion([played([0, 1], None)], [], 0, ALL)
    assert motion == (None, None, None, None, None)
    motion = measure_motion([played([0, 1, 3, 4, 5], [0, 0, 2, 2, 2])], DEMONSTRATED, 0, ALL)
    assert motion.largest_jump == motion.median_jump == 2.0
    assert motion.reaction == pytest.approx(1 / 3)
    assert motion.slowest_reaction == 1
