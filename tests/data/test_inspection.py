"""What the data report says, and that it stays silent about good demonstrations."""

import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from episodes_for_tests import make_arrays, make_schema

from act_policy.data.aloha_hdf5 import write_episode
from act_policy.data.dataset import open_dataset
from act_policy.data.inspection import find_warnings, report_dimensions

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "inspect_dataset.py"


@pytest.fixture
def motion(tmp_path):
    """Write two episodes in which the joints sweep and the action leads the state by two steps."""

    def write(change=None, outcomes=(True, True)):
        schema = make_schema()
        for episode in range(2):
            time = np.arange(62)[:, None] / 10 + episode
            path = np.sin(time * [1.0, 1.3, 0.7]).astype(np.float32)
            arrays = make_arrays(schema, 60, episode) | {
                "state": path[:-2].copy(),
                "action": path[2:].copy(),
            }
            if change is not None:
                change(episode, arrays["state"], arrays["action"])
            write_episode(
                tmp_path / f"episode_{episode}.hdf5", schema, **arrays, success=outcomes[episode]
            )
        return open_dataset(tmp_path)

    return write


def remarks(dataset, **options):
    rows = report_dimensions(dataset, **options)
    return {(row.field, row.name): row.remark for row in rows if row.remark}


def test_good_demonstrations_raise_no_warning(motion, samples):
    dataset = motion()
    assert find_warnings(dataset) == []
    assert remarks(dataset) == {}
    assert find_warnings(open_dataset(samples / "aloha_hdf5")) == []


def test_the_numbers_are_those_of_all_steps(motion):
    dataset = motion()
    every = np.concatenate([dataset.action(e) for e in range(2)]).astype(np.float64)
    row = next(r for r in report_dimensions(dataset) if (r.field, r.name) == ("action", "j1"))
    assert row.unit == "rad"
    expected = [f(every[:, 1]) for f in (np.mean, np.std, np.min, np.max)]
    np.testing.assert_allclose([row.mean, row.std, row.min, row.max], expected, rtol=1e-12)


def test_constant_and_nearly_constant_dimensions_are_listed(motion):
    def change(_, state, action):
        state[:, 0] = 0.3
        action[:, 1] = 0.3 + 1e-5 * action[:, 1]
        action[:, 2] *= 50

    dataset = motion(change)
    assert remarks(dataset) == {
        ("state", "j0"): "constant",
        ("action", "j1"): "nearly constant: std below the floor 0.01",
    }
    assert remarks(dataset, std_floor=1e-7) == {("state", "j0"): "constant"}
    (warning,) = find_warnings(dataset)
    assert warning.startswith("the same at every step: state j0 (0.3);")


def test_values_that_are_not_finite_are_counted_and_named(motion):
    dataset = motion()
    with h5py.File(dataset.episode_paths[1], "a") as file:
        file["action"][7, 2] = np.nan
        file["action"][9, 2] = np.inf
        file["action"][9, 1] = np.inf
        file["observations/qpos"][:, 0] = np.nan
    dataset = open_dataset(dataset.episode_paths[0].parent)
    assert remarks(dataset)["action", "j2"] == "2 values are not finite"
    assert remarks(dataset)["state", "j0"] == "60 values are not finite"
    assert remarks(dataset)["action", "j1"] == "1 values are not finite"
    warnings = "\n".join(find_warnings(dataset))
    assert "episode_1.hdf5: 3 values of action are not finite, first j2 at step 7" in warnings
    assert "episode_1.hdf5: 60 values of state" in warnings


def test_failed_demonstrations_are_named(motion):
    (warning,) = find_warnings(motion(outcomes=(True, False)))
    assert warning == "1 of 2 demonstrations failed: episode_1.hdf5"


def test_actions_equal_to_the_state_are_called_empty(motion):
    def change(_, state, action):
        action[:, 1] = state[:, 1]

    (warning,) = find_warnings(motion(change))
    assert "action equals the current state in j1:" in warning


def test_a_constant_offset_of_17_degrees_is_found(motion):
    def change(_, state, action):
        action[:] = state + np.diff(state, axis=0, append=state[-1:])
        action[:, 2] += np.deg2rad(17)

    (warning,) = find_warnings(motion(change))
    offset = float(re.search(r"action j2 is off its state by (\S+) throughout", warning)[1])
    assert offset == pytest.approx(np.deg2rad(17), abs=0.05)


def test_a_long_idle_stretch_is_found_and_a_short_one_is_not(motion):
    def idle(steps):
        def change(episode, state, action):
            if episode == 1:
                for vector in (state, action):
                    vector[20 : 20 + steps] = vector[20]

        return change

    (warning,) = find_warnings(motion(idle(21)))
    assert warning.startswith("episode_1.hdf5: nothing moves for 2.0 s from step 20 on (20 of 60")
    assert find_warnings(motion(idle(9))) == []


def inspect(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
    )


def test_the_script_prints_what_a_folder_holds(make_folder):
    folder = make_folder([4, 5, 9])
    result = inspect(f"path={folder}")
    assert result.returncode == 0, result.stderr
    for text in ("episodes", "18, 1.8 s", "shortest 4, median 5, longest 9", "10 steps per second"):
        assert text in result.stdout
    for text in ("100 to 102, 3 in all", "3 of 3 succeeded", "top", "j2", "rad", "no warnings"):
        assert text in result.stdout


def test_the_script_exits_with_2_and_one_message_where_input_is_wrong(make_folder):
    folder = make_folder([4, 5])
    (folder / "episode_000001.hdf5").write_bytes(b"no HDF5")
    for arguments, message in (
        ((f"path={folder}",), "episode_000001.hdf5: is not a readable HDF5 file"),
        ((f"path={folder}/nothing",), "no such folder"),
        ((), "path"),
    ):
        result = inspect(*arguments)
        assert result.returncode == 2
        assert message in result.stderr
        assert "Traceback" not in result.stderr
        assert result.stdout == ""
