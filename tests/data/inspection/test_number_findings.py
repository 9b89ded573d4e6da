"""Each fault of states, actions and lengths is found where it was planted, and only there."""

from collections.abc import Callable
from functools import partial

import h5py
import numpy as np
import pytest

from act_policy.data.aloha.dataset import AlohaHDF5Dataset
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.evidence import Evidence, InspectionConfig
from act_policy.data.inspection.finding import Finding, Kind, Verdict
from act_policy.data.inspection.number_findings import find
from act_policy.data.inspection.stillness import longest_still_stretch
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from tests.data.lerobot_for_tests import change_table
from tests.data.motion_for_tests import WRITERS, aloha_motion, lerobot_motion

ROWS = "data/chunk-000/file-000.parquet"


@pytest.fixture(params=WRITERS)
def motion(request, tmp_path) -> Callable[..., DemonstrationDataset]:
    """Write changed demonstrations, in each format in turn."""
    return partial(WRITERS[request.param], tmp_path)


@pytest.fixture
def aloha(tmp_path) -> Callable[..., DemonstrationDataset]:
    """Write demonstrations for tests in which the format does not matter."""
    return partial(aloha_motion, tmp_path)


def found(dataset, **config) -> list[Finding]:
    return find(Evidence(dataset, InspectionConfig(**config)))


def only(dataset, **config) -> Finding:
    (finding,) = found(dataset, **config)
    return finding


def test_nothing_is_found_in_good_demonstrations(motion):
    assert found(motion(), chunk_length=30) == []


@pytest.mark.parametrize(
    "sample",
    ["aloha_hdf5", "aloha_hdf5_compressed", "lerobot_dataset_v2_1", "lerobot_dataset_v3_0"],
)
def test_samples_of_other_software_have_no_more_than_notes(samples, sample):
    assert {f.verdict for f in found(open_dataset(samples / sample))} <= {Verdict.NOTE}


def test_values_that_are_not_finite_are_errors(tmp_path):
    dataset = aloha_motion(tmp_path)
    with h5py.File(dataset.episodes[1].file, "a") as file:
        file["action"][7, 2] = np.nan
        file["action"][9, 1] = np.inf
        file["observations/qpos"][:, 0] = np.nan
    state, action = found(open_dataset(tmp_path))[:2]
    assert (state.verdict, action.verdict) == (Verdict.ERROR, Verdict.ERROR)
    assert (state.subject, action.subject) == ("state", "action")
    assert state.episodes == {1: {"count": 60, "dimension": "j0", "step": 0}}
    assert action.episodes == {1: {"count": 2, "dimension": "j2", "step": 7}}


def test_values_that_are_not_finite_are_errors_in_lerobot_too(tmp_path):
    lerobot_motion(tmp_path)
    change_table(tmp_path / ROWS, lambda c: c["action"][67].__setitem__(1, np.nan))
    finding = only(open_dataset(tmp_path))
    assert finding.verdict is Verdict.ERROR
    assert finding.episodes == {1: {"count": 1, "dimension": "elbow", "step": 7}}


def test_a_constant_state_of_a_joint_that_is_moved_is_a_warning(motion):
    dataset = motion(lambda _, state, action: state[:, 0].fill(0.3))
    finding = only(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.CONSTANT)
    assert finding.detail["values"] == {
        f"state {dataset.schema.state_names[0]}": pytest.approx(0.3)
    }


def test_a_joint_that_is_never_moved_is_a_note(aloha):
    def change(_, state, action):
        state[:, 0], action[:, 0] = 0.3, 0.25

    assert only(aloha(change)).verdict is Verdict.NOTE


def test_actions_that_never_change_at_all_are_a_warning(aloha):
    findings = found(aloha(lambda _, state, action: action.fill(0.25)))
    assert [f.verdict for f in findings if f.kind is Kind.CONSTANT] == [Verdict.WARNING]


def test_a_nearly_constant_dimension_is_a_note_and_many_are_a_warning(aloha, tmp_path):
    def change(_, state, action, dimensions=1):
        for vector in (state, action):
            vector[:, :dimensions] *= 1e-4

    finding = only(aloha(change))
    assert (finding.verdict, finding.kind) == (Verdict.NOTE, Kind.NEARLY_CONSTANT)
    finding = only(aloha(partial(change, dimensions=2)))
    assert finding.verdict is Verdict.WARNING
    assert found(open_dataset(tmp_path), std_floor=1e-7) == []


def test_a_rate_that_contradicts_the_timestamps_is_reported(tmp_path):
    lerobot_motion(tmp_path)
    change_table(tmp_path / ROWS, lambda c: c.update(timestamp=[2 * t for t in c["timestamp"]]))
    finding = only(open_dataset(tmp_path))
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.RATE)
    assert finding.detail == {"stated": 10}
    assert {e: round(d["measured"], 3) for e, d in finding.episodes.items()} == {0: 5, 1: 5}


def test_a_gap_in_the_timestamps_is_reported(tmp_path):
    lerobot_motion(tmp_path)

    def change(columns):
        for row in range(80, 120):
            columns["timestamp"][row] += 0.3

    change_table(tmp_path / ROWS, change)
    finding = only(open_dataset(tmp_path))
    assert finding.kind is Kind.GAPS
    seconds = pytest.approx(0.4, abs=1e-3)
    assert finding.episodes == {1: {"count": 1, "seconds": seconds, "step": 19}}


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_an_idle_second_is_found_despite_noise(aloha, noise):
    def idle(steps, episode, state, action):
        rng = np.random.default_rng(episode)
        for vector in (state, action):
            if episode == 1:
                vector[20 + steps :] = vector[20 : 60 - steps].copy()
                vector[20 : 20 + steps] = vector[20]
            vector += noise * rng.normal(size=vector.shape)

    finding = only(aloha(partial(idle, 21)))
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.IDLE)
    assert finding.episodes == {1: {"seconds": 2.2, "step": 20, "steps": 22, "length": 60}}
    assert found(aloha(partial(idle, 9))) == []


def test_noise_alone_is_neither_motion_nor_rest():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 1))
    assert longest_still_stretch([noise], 10) == [range(0)]
    ramp = np.concatenate([np.linspace(0, 1, 100), np.ones(100)])[:, None]
    (still,) = longest_still_stretch([np.hstack([ramp, noise])], 10)
    assert abs(still.start - 99) <= 2
    assert still.stop == 200


def test_a_jump_is_found_and_a_gripper_may_jump(aloha):
    def change(episode, state, action):
        for vector in (state, action):
            vector[:, 2] = np.arange(len(vector)) >= 40  # a gripper that opens at once
        if episode == 1:
            state[30, 0] += 1.5

    dataset = aloha(change)
    (finding,) = [f for f in found(dataset) if f.kind is Kind.JUMPS]
    assert finding.verdict is Verdict.WARNING
    assert finding.subject == "state"
    assert finding.episodes == {
        1: {
            "dimension": dataset.schema.state_names[0],
            "size": pytest.approx(1.43, abs=0.005),
            "step": 29,
            "whole_turn": False,
        }
    }


def test_an_angle_that_wraps_is_a_jump_by_a_whole_turn(aloha):
    def change(_, state, action):
        angle = 3.0 + 0.5 * np.sin(np.arange(60) / 5)
        state[:, 1] = (angle + np.pi) % (2 * np.pi) - np.pi

    (finding,) = [f for f in found(aloha(change)) if f.kind is Kind.JUMPS]
    assert all(jump["whole_turn"] for jump in finding.episodes.values())


def test_actions_equal_to_the_state_are_called_empty(aloha):
    def change(_, state, action):
        action[:, 1] = state[:, 1]

    dataset = aloha(change)
    finding = only(dataset)
    assert finding.kind is Kind.ACTION_IS_STATE
    assert finding.detail["dimensions"] == [dataset.schema.state_names[1]]


@pytest.mark.parametrize("unit", ["rad", "degrees"])
def test_an_offset_of_17_degrees_on_one_joint_is_found(motion, unit):
    def change(episode, state, action):
        if unit == "degrees":
            state *= 57.3
            action *= 57.3
        action[:, 2] += np.deg2rad(17) if unit == "rad" else 17

    dataset = motion(change)
    finding = only(dataset)
    assert (finding.verdict, finding.kind) == (
        Verdict.WARNING,
        Kind.OFFSET,
    )
    assert finding.subject == dataset.schema.action_names[2]
    assert finding.detail["unit"] == dataset.schema.action_units[2]
    expected = np.deg2rad(17) if unit == "rad" else 17
    assert finding.detail["offset"] == pytest.approx(expected, rel=0.02)


def test_an_episode_recorded_twice_is_found(motion):
    def change(episode, state, action):
        if episode == 2:
            earlier = np.sin((np.arange(62)[:, None] / 10) * [1.0, 1.3, 0.7]).astype(np.float32)
            state[:], action[:] = earlier[:-2], earlier[2:]

    finding = only(motion(change, lengths=(60, 60, 60)))
    assert (finding.kind, finding.episodes) == (Kind.DUPLICATES, {2: {"same_as": 0}})


def test_an_episode_that_ends_early_is_found(motion):
    finding = only(motion(lengths=(60, 60, 29, 60, 58)))
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.ENDS_EARLY)
    assert finding.episodes == {2: {"length": 29, "median": 60}}


def test_an_episode_shorter_than_a_second_is_a_note_by_itself(aloha):
    finding = only(aloha(lengths=(18, 9, 15)))
    assert (finding.verdict, finding.kind) == (Verdict.NOTE, Kind.SHORT)
    assert finding.episodes == {1: {"seconds": 0.9}}


@pytest.mark.parametrize(
    ("chunk_length", "verdict"), [(30, None), (31, Verdict.NOTE), (41, Verdict.WARNING)]
)
def test_a_chunk_longer_than_half_an_episode_is_reported(tmp_path, chunk_length, verdict):
    dataset = aloha_motion(tmp_path, lengths=(60, 80, 90))
    findings = found(dataset, chunk_length=chunk_length)
    assert [f.verdict for f in findings] == ([verdict] if verdict else [])
    if verdict:
        assert findings[0].kind is Kind.LONG_CHUNK
    lengths = dataset.lengths
    padded = sum(max(chunk_length - n + t, 0) for n in lengths for t in range(n))
    share = padded / (chunk_length * lengths.sum())
    assert all(f.detail["padded"] == pytest.approx(share) for f in findings)


def test_failed_demonstrations_are_named(tmp_path):
    finding = only(aloha_motion(tmp_path, outcomes=(True, False)))
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.FAILED)
    assert list(finding.episodes) == [1]


def test_missing_episode_numbers_are_a_note(tmp_path):
    aloha_motion(tmp_path)
    (tmp_path / "episode_1.hdf5").rename(tmp_path / "episode_4.hdf5")
    finding = only(open_dataset(tmp_path))
    assert finding.verdict is Verdict.NOTE
    assert finding.detail == {"missing": [1, 2, 3], "lowest": 0, "highest": 4}
    (tmp_path / "episode_2.hdf5").write_bytes(b"broken, but there")
    finding = only(AlohaHDF5Dataset(tmp_path, ReaderConfig(unreadable="skip")))
    assert finding.detail["missing"] == [1, 3]
