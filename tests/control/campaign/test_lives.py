"""Random lives: at every tick commands are finite, in range, slow enough, and at rest in a hold."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from act_policy.control.safety.supervisor import Mode
from tests.control.campaign.lives import CONFIGS, HAPPENINGS, Moment, live, random_life

moments = st.builds(
    Moment,
    st.sampled_from(list(HAPPENINGS)),
    st.floats(0, 1),
    st.sampled_from([0, 1, 2, 5, 15]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(config=st.sampled_from(CONFIGS), life=st.lists(moments, max_size=25))
def test_every_tick_of_every_life(config: dict[str, Any], life: list[Moment]) -> None:
    live(config, [Moment("nothing", 0.0, 2), Moment("go", 0.0, 3), *life])


# the driver refuses commands at the very tick of a start
REFUSED = (1_000_033, 1_000_264, 1_000_670, 1_001_061)


@pytest.mark.parametrize("seed", [*range(5), *REFUSED])
def test_lives_of_known_seeds(seed: int) -> None:
    live(*random_life(seed))


@pytest.mark.parametrize("config", CONFIGS)
def test_an_undisturbed_life_runs(config: dict[str, Any]) -> None:
    names = ("nothing", "go", "policy swings", "nothing")
    bench = live(config, [Moment(name, 0.3, 8) for name in names])
    assert Mode.RUNNING in [sent.mode for sent in bench.arm.sent]
    assert bench.supervisor.reason == "the run ended"
