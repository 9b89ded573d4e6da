"""A process beside training slows it by at most a tenth, whatever it costs while it runs."""

import numpy as np
import pytest

from act_policy.training.rollouts.bounded_share import LIMIT, START_SECONDS, BoundedShare

ALONE = 0.2  # seconds of a step


@pytest.mark.parametrize("slower", [1.0, 1.04, 1.5, 4.0])
@pytest.mark.parametrize("minutes", [1, 5, 30])
def test_training_loses_at_most_a_tenth(slower: float, minutes: int) -> None:
    rng, share = np.random.default_rng(0), BoundedShare()
    taken = alone = running = 0.0
    started: float | None = None
    runs = False
    while taken < 60 * minutes:
        noise = float(rng.lognormal(0.0, 0.2))
        seconds = ALONE * noise * (slower if runs else 1.0)
        taken, alone, running = taken + seconds, alone + ALONE * noise, running + seconds * runs
        share.add_step(seconds)
        if started is None:
            if share.may_start():
                started, runs = taken, True
        else:
            # while it loads it cannot rest; an episode or another then ends every minute
            runs = taken - started < START_SECONDS or share.may_run()
            if taken - started > 60:
                started, runs = None, False
        share.let_run(runs)
    assert taken / alone - 1 < LIMIT
    # what it believes is what was: the noise of a step is a fifth of it, and there are 300 or more
    assert share.slowdown == pytest.approx(taken / alone - 1, abs=0.03)
    if minutes == 30:  # it uses what it may
        assert running / taken > (0.5 if slower < 1.1 else 0.5 * LIMIT / (slower - 1))
        assert f"ran beside {running / taken:.0%} of the training" in share.describe()
    if minutes == 1:
        assert running == 0.0
        assert share.describe() == "nothing was evaluated beside the steps"
