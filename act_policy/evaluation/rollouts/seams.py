"""Where one chunk passes into the next: how far the actions jump, and how soon they react."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from act_policy.evaluation.rollouts.run import EpisodeResult
from act_policy.evaluation.rollouts.smoothness import DemonstratedMotion


class Motion(NamedTuple):
    """How the arm moved in some episodes; a jump of 1 is as large as a large demonstrated step.

    jerk: third difference of the actions, as a multiple of the demonstrations'.
    largest_jump, median_jump: over the seams, the largest change of an action from one step to the
        next while a new chunk passes in, in multiples of `DemonstratedMotion.largest_step`, in the
        dimensions that pass gradually.
    reaction, slowest_reaction: steps from a moment to the first action that was made from images of
        it or later ones, mean and largest.

    Each is None where there is nothing to measure it by.
    """

    jerk: float | None
    largest_jump: float | None
    median_jump: float | None
    reaction: float | None
    slowest_reaction: int | None


def measure_motion(
    results: Sequence[EpisodeResult],
    demonstrations: Sequence[np.ndarray],
    blend_steps: int,
    gradual: Bool[np.ndarray, " a"],
) -> Motion:
    """Measure episodes in which a policy acted.

    Args:
        results: with `captured`.
        demonstrations: actions (T, a) of those it was trained on; may be empty.
        blend_steps: over which each chunk passes in.
        gradual: the dimensions that pass gradually; grippers and switches change at once.
    """
    reactions = [reaction_steps(one.captured) for one in results if one.captured is not None]
    reaction = np.concatenate(reactions) if reactions else np.empty(0)
    jerk, jumps = None, np.empty(0)
    if demonstrations:
        demonstrated = DemonstratedMotion.measure(demonstrations)
        if np.isfinite(demonstrated.jerk).any():  # else they are smooth throughout
            jerk = demonstrated.compare([one.actions for one in results], 1).jerk
        jumps = np.concatenate(
            [seam_jumps(one, demonstrated, blend_steps, gradual) for one in results]
        )
    return Motion(
        jerk,
        float(jumps.max()) if len(jumps) else None,
        float(np.median(jumps)) if len(jumps) else None,
        float(reaction.mean()) if len(reaction) else None,
        int(reaction.max()) if len(reaction) else None,
    )


def seam_jumps(
    result: EpisodeResult,
    motion: DemonstratedMotion,
    blend_steps: int,
    gradual: Bool[np.ndarray, " a"],
) -> np.ndarray:
    """Return each seam's largest change of a gradual action, float64 (seams,), in large steps."""
    if result.captured is None:
        return np.empty(0)
    changes = np.abs(np.diff(result.actions.astype(np.float64), axis=0)) / motion.largest_step
    largest = changes[:, gradual].max(axis=1, initial=0.0)  # largest[t] leads to the action t + 1
    seams = np.flatnonzero(np.diff(result.captured))
    return np.array([largest[seam : seam + blend_steps + 1].max() for seam in seams], np.float64)


def reaction_steps(captured: Int[np.ndarray, " T"]) -> Int[np.ndarray, " _"]:
    """Return for each step how many later the first action was made from its images or later ones.

    Steps whose images no action saw, at the end of the episode, are left out.
    """
    steps = np.arange(len(captured))
    first = np.searchsorted(np.maximum.accumulate(captured), steps)
    return np.asarray((first - steps)[first < len(captured)])


def describe_motion(motion: Motion, rate: float) -> str:
    """Say it in a line, times in milliseconds too."""
    parts = []
    if motion.jerk is not None:
        parts.append(f"jerk {motion.jerk:.2f} times the demonstrations'")
    if motion.largest_jump is not None:
        parts.append(
            f"jumps between chunks at most {motion.largest_jump:.2f} large demonstrated steps, "
            f"half of them below {motion.median_jump:.2f}"
        )
    if motion.reaction is not None and motion.slowest_reaction is not None:
        mean, slowest = (1000 * each / rate for each in (motion.reaction, motion.slowest_reaction))
        parts.append(f"reacts after {mean:.0f} ms, at the latest after {slowest:.0f} ms")
    return "; ".join(parts)
