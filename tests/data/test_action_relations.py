"""What an action is of the state is found in its numbers, and nothing where they do not tell."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy.action_kinds import contradicts, declared_kind
from act_policy.data.action_relations import (
    ActionRelation,
    find_relations,
    own_states,
    shown_kinds,
)
from act_policy.data.open import open_dataset
from act_policy.types import Schema
from tests.data.episodes_for_tests import make_schema
from tests.examples import FEW

JOINTS = 3
Arrays = list[np.ndarray]
seeds = st.integers(0, 2**32 - 1)
rates = st.sampled_from([10.0, 30.0])
factors = st.sampled_from([1.0, -1.0, 0.2, 57.3, -1 / 57.3])


def paths(seed: int, rate: float, seconds: Sequence[float] = (6, 5, 7, 4, 6)) -> Arrays:
    """float64 (T, joints) per episode: joints that swing independently, about once in 4 s."""
    rng = np.random.default_rng(seed)

    def swing(steps: int) -> np.ndarray:
        time = np.arange(steps)[:, None, None] / rate
        frequency = rng.uniform(0.1, 0.4, (JOINTS, 3))
        waves = np.sin(2 * np.pi * (frequency * time + rng.uniform(0, 1, (JOINTS, 3))))
        return np.asarray((waves * rng.uniform(0.2, 1, (JOINTS, 3))).sum(-1))

    return [swing(round(rate * length) + 10) for length in seconds]


def noisy(arrays: Arrays, seed: int, size: float) -> Arrays:
    rng = np.random.default_rng(seed)
    return [a + size * rng.normal(size=a.shape) for a in arrays]


def motions(path: Arrays, factor: float = 1.0) -> tuple[Arrays, Arrays]:
    """States, and the changes that lead to the next one."""
    return [p[:-1] for p in path], [factor * np.diff(p, axis=0) for p in path]


def targets(path: Arrays, lag: int) -> tuple[Arrays, Arrays]:
    """States, and where they will be some steps later."""
    return [p[: len(p) - lag] for p in path], [p[lag:] for p in path]


def schema_of(state_units: str, action_units: str, rate: float = 10.0) -> Schema:
    names = tuple(f"j{i}" for i in range(JOINTS))
    return Schema((), names, (state_units,) * JOINTS, names, (action_units,) * JOINTS, rate)


@FEW
@given(seeds, rates, st.integers(0, 4), factors, st.floats(-2, 2), st.sampled_from([0.0, 0.01]))
def test_a_target_is_found_with_sign_scale_offset_and_lag(
    seed: int, rate: float, lag: int, factor: float, offset: float, noise: float
) -> None:
    states, ahead = targets(paths(seed, rate), lag)
    actions = [factor * a + offset for a in ahead]
    for joint, found in enumerate(
        find_relations(noisy(states, seed, noise), actions, rate, range(JOINTS))
    ):
        assert (found.model, found.state) == ("level", joint)
        assert found.scale == pytest.approx(factor, rel=0.05)
        assert found.offset == pytest.approx(offset, abs=0.02 * max(1, abs(factor)))
        assert abs(found.lag - lag) <= 1
        assert found.confidence > 0.95


@FEW
@given(seeds, rates, factors, st.sampled_from([0.0, 0.001]))
def test_a_change_is_found_with_sign_and_scale(
    seed: int, rate: float, factor: float, noise: float
) -> None:
    states, actions = motions(paths(seed, rate), factor)
    for joint, found in enumerate(
        find_relations(noisy(states, seed, noise), actions, rate, range(JOINTS))
    ):
        assert (found.model, found.state, found.lag) == ("change", joint, 0)
        assert found.scale == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize("rate", [10.0, 15.0, 30.0, 50.0])
@pytest.mark.parametrize(("state_unit", "unit", "factor"), [("", "", 1.0), ("rad", "deg", 57.3)])
def test_per_step_and_per_second_are_told_apart(
    rate: float, state_unit: str, unit: str, factor: float
) -> None:
    states, actions = motions(paths(0, rate), factor)
    actions = [action * [1.0, rate, 6000.0] for action in actions]
    relations = find_relations(states, actions, rate, range(JOINTS))
    shown = shown_kinds(schema_of(state_unit, unit, rate), relations)
    assert shown == ("displacement", "velocity", "motion")


@FEW
@given(seeds, rates)
def test_exchanged_joints_follow_each_other(seed: int, rate: float) -> None:
    states, ahead = targets(paths(seed, rate), 2)
    actions = [a[:, [1, 0, 2]] for a in ahead]
    found = find_relations(states, actions, rate, range(JOINTS))
    assert [relation.state for relation in found] == [1, 0, 2]


@FEW
@given(seeds, rates)
def test_joints_that_move_alike_are_not_exchanged(seed: int, rate: float) -> None:
    path = [p[:, [0, 0, 2]] + 0.02 * p[:, [1, 2, 1]] for p in paths(seed, rate)]
    found = find_relations(*targets(path, 2), rate, range(JOINTS))
    assert [relation.state for relation in found] == [0, 1, 2]


@FEW
@given(seeds, rates)
def test_actions_of_something_else_show_nothing(seed: int, rate: float) -> None:
    states, others = paths(seed, rate), paths(seed + 1, rate)
    actions = [other[: len(state)] for state, other in zip(states, others, strict=True)]
    states = [state[: len(action)] for state, action in zip(states, actions, strict=True)]
    assert {relation.model for relation in find_relations(states, actions, rate)} == {""}


@pytest.mark.parametrize(
    ("middle", "noise"),
    [(0.37, 0.0), (0.0, 1e-3), (100.0, 1e-5)],
    ids=["constant", "jitter", "rounding"],
)
def test_what_stands_still_shows_nothing(middle: float, noise: float) -> None:
    path = paths(0, 10.0)
    still, another = (noisy([np.full(p.shape, middle) for p in path], s, noise) for s in (1, 2))
    for states, actions in ((still, path), (path, still), (still, another)):
        found = find_relations(states, actions, 10.0, range(JOINTS))
        assert found == [ActionRelation()] * JOINTS


@FEW
@given(seeds)
def test_short_episodes_suffice(seed: int) -> None:
    path = [p[:n] for p, n in zip(paths(seed, 10.0), (15, 19, 17, 13), strict=False)]
    moved = find_relations(*motions(path), 10.0, range(JOINTS))
    assert [(f.model, f.state) for f in moved] == [("change", joint) for joint in range(JOINTS)]


@FEW
@given(seeds, rates)
def test_single_broken_values_do_not_matter(seed: int, rate: float) -> None:
    states, actions = motions(paths(seed, rate))
    rng = np.random.default_rng(seed)
    for arrays in (states, actions):
        arrays[0][rng.integers(len(arrays[0])), rng.integers(JOINTS)] = 1e6
    found = find_relations(states, actions, rate, range(JOINTS))
    assert [relation.model for relation in found] == ["change"] * JOINTS


@FEW
@given(seeds, st.permutations(range(JOINTS)), st.floats(0.01, 100))
def test_neither_order_nor_unit_of_the_state_matters(
    seed: int, order: list[int], unit: float
) -> None:
    states, actions = targets(paths(seed, 10.0), 1)
    other = find_relations([unit * s[:, order] for s in states], actions, 10.0)
    for plain, changed in zip(find_relations(states, actions, 10.0), other, strict=True):
        assert order[changed.state] == plain.state
        assert changed.scale == pytest.approx(plain.scale / unit)
        assert changed.confidence == pytest.approx(plain.confidence)


def test_few_steps_and_no_episodes_show_nothing() -> None:
    states, actions = targets([p[:15] for p in paths(0, 10.0)[:1]], 1)
    assert find_relations(states, actions, 10.0, range(JOINTS)) == [ActionRelation()] * JOINTS
    assert find_relations([], [], 10.0) == []
    states, actions = targets(paths(0, 10.0), 1)
    none = [state[:, :0] for state in states]  # images alone
    assert find_relations(none, actions, 10.0) == [ActionRelation()] * JOINTS


def test_a_base_whose_state_is_its_velocity_is_told_by_the_state_alone() -> None:
    relations = find_relations(*targets(paths(0, 10.0), 1), 10.0, range(JOINTS))
    for unit, shown in (("m/s", "velocity"), ("rad", "position"), ("", "target"), ("N", "target")):
        assert shown_kinds(schema_of(unit, ""), relations) == (shown,) * JOINTS
    named = Schema((), ("x.vel", "y.pos", "z"), ("",) * 3, ("a", "b", "c"), ("",) * 3, 10.0)
    assert shown_kinds(named, relations) == ("velocity", "position", "target")


def test_a_change_of_a_velocity_is_an_acceleration() -> None:
    relations = find_relations(*motions(paths(0, 10.0)), 10.0, range(JOINTS))
    assert shown_kinds(schema_of("m/s", ""), relations) == ("",) * JOINTS


def test_a_gripper_that_opens_at_once_is_a_target() -> None:
    rng = np.random.default_rng(0)
    states, actions = [], []
    for _ in range(8):
        command = np.repeat(rng.integers(0, 2, 6), 20)[:, None].astype(float)
        ramp = np.convolve(np.pad(command[:, 0], (4, 0), mode="edge"), np.ones(5) / 5, "valid")
        states.append(0.04 * ramp[:, None])
        actions.append(command)
    (found,) = find_relations(states, actions, 10.0, [0])
    assert (found.model, found.state) == ("level", 0)


def test_own_states_go_by_name_and_made_up_names_by_number() -> None:
    def own(states: Sequence[str], actions: Sequence[str]) -> list[int]:
        units = [("",) * len(names) for names in (states, actions)]
        return own_states(Schema((), tuple(states), units[0], tuple(actions), units[1], 10.0))

    assert own(("a", "b"), ("b", "a", "c")) == [1, 0, -1]
    assert own(("state_0", "state_1"), ("action_1", "action_0")) == [1, 0]
    assert own(("x.pos", "y.pos"), ("delta_y", "x.vel")) == [1, 0]
    assert own(("x.pos", "x.vel"), ("x.vel", "delta_x")) == [1, -1]


@pytest.mark.parametrize("sample", ["aloha_hdf5", "lerobot_dataset_v2_1", "lerobot_dataset_v3_0"])
def test_samples_of_other_software_show_targets(samples, sample: str) -> None:
    dataset = open_dataset(samples / sample)
    episodes = range(len(dataset.episodes))
    states, actions = map(dataset.state, episodes), map(dataset.action, episodes)
    own = own_states(dataset.schema)
    relations = find_relations(list(states), list(actions), dataset.schema.rate, own)
    assert [relation.state for relation in relations] == own
    shown = shown_kinds(dataset.schema, relations)
    assert set(shown) == {"position" if sample == "aloha_hdf5" else "target"}
    for action, kind in zip(dataset.schema.actions, shown, strict=True):
        assert not contradicts(declared_kind(*action), kind)


def test_a_schema_of_positions_is_contradicted_by_movements() -> None:
    schema = make_schema(size=JOINTS)
    relations = find_relations(*motions(paths(0, 10.0)), 10.0, own_states(schema))
    for action, shown in zip(schema.actions, shown_kinds(schema, relations), strict=True):
        assert contradicts(declared_kind(*action), shown)


@pytest.mark.parametrize(("factor", "shown"), [(1.0, "target"), (57.3, "target"), (8.8, "")])
def test_a_state_of_another_name_is_a_target_only_in_the_same_unit(
    factor: float, shown: str
) -> None:
    """In some demonstrations of a task everything goes along with everything else."""
    states, ahead = targets(paths(0, 50.0), 2)
    relations = find_relations(states, [factor * a for a in ahead], 50.0)
    named = Schema((), ("x", "y", "z"), ("",) * 3, ("move_a", "move_b", "move_c"), ("",) * 3, 50.0)
    assert shown_kinds(named, relations) == (shown,) * JOINTS


def test_a_movement_in_known_units_is_no_speed_in_degrees() -> None:
    """A hand that goes 1.46 times less far than it is told, at 80 steps a second."""
    states, actions = motions(paths(0, 80.0), 146.0)
    relations = find_relations(states, actions, 80.0, range(JOINTS))
    assert shown_kinds(schema_of("m", "cm/step", 80.0), relations) == ("displacement",) * JOINTS
