"""What the state shows of the actions is found in every format where it was planted."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from act_policy.cli import convert
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.evidence import ActionReport, Evidence, InspectionConfig
from act_policy.data.inspection.finding import Finding, Kind, Verdict
from act_policy.data.inspection.number_findings import find
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from act_policy.training.check_demonstrations import check_demonstrations
from tests.data.motion_for_tests import FORMATS, aloha_motion
from tests.paths import ROOT

LENGTHS = (60, 60, 60, 60)


@pytest.fixture(params=FORMATS)
def motion(request, tmp_path) -> Callable[..., DemonstrationDataset]:
    """Write changed demonstrations, in each format in turn."""
    return partial(FORMATS[request.param], tmp_path, lengths=LENGTHS)


def found(dataset: DemonstrationDataset) -> list[Finding]:
    return find(Evidence(dataset, InspectionConfig()))


def reports(dataset: DemonstrationDataset) -> list[ActionReport]:
    return Evidence(dataset, InspectionConfig()).action_reports


def differ(_, state, action):
    """The actions become what the state changes by."""
    action[:] = np.diff(state, axis=0, append=state[-1:])


def test_actions_that_are_differences_are_named_or_stop_training(motion) -> None:
    dataset = motion(differ)
    (finding,) = found(dataset)
    assert {report.kind for report in reports(dataset)[:2]} <= {
        "displacement",
        "position? moves as displacement",
    }
    assert finding.detail["shown"] == "displacement"
    if dataset.schema.action_units[0]:  # a file that says rad
        assert (finding.verdict, finding.kind) == (Verdict.ERROR, Kind.CONTRADICTED)
        assert finding.detail["declared"] == "position"
        with pytest.raises(UserError, match="by name and unit a position, by the numbers a displa"):
            check_demonstrations(dataset, InspectionConfig())
    else:
        assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.MOVEMENTS)
        assert finding.detail["dimensions"] == ["shoulder", "elbow"]  # a gripper may be told so
        check_demonstrations(dataset, InspectionConfig())


def test_converting_says_that_actions_are_differences(tmp_path, capsys) -> None:
    for name, write in FORMATS.items():
        folder = write(tmp_path / name, differ).folder
        target = "lerobot_v3" if name == "aloha" else "aloha_hdf5"
        told = [f"source={folder}", f"out={tmp_path / 'out' / name}", f"format={target}"]
        with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
            convert.main(compose("convert_dataset", [*told, "images=png"]))
        said = capsys.readouterr().err
        expected = "by the numbers a displacement" if name == "aloha" else "changes by the action"
        assert expected in said


def test_who_says_what_the_actions_are_is_believed_if_the_data_agree(motion) -> None:
    schema = motion(differ).schema.to_dict()
    folder = motion(differ).folder
    schema["cameras"] = None
    schema["state_units"] = ["rad"] * 3
    for unit, kinds in (("deg/step", []), ("rad/step", []), ("rad/s", [Kind.CONTRADICTED])):
        schema["action_units"] = [unit] * 3
        scale = {"deg/step": 180 / np.pi, "rad/step": 1.0, "rad/s": 1.0}[unit]
        dataset = open_demonstrations(folder, reader=ReaderConfig(schema=schema))
        evidence = Evidence(dataset, InspectionConfig())
        evidence.actions = [scale * action for action in evidence.actions]
        assert [finding.kind for finding in find(evidence)] == kinds


def test_states_that_follow_late_are_named_with_the_lag(motion) -> None:
    def change(_, state, action):
        state[2:] = state[:-2].copy()  # two steps more than the two of an arm

    dataset = motion(change)
    (finding,) = [f for f in found(dataset) if f.kind is Kind.LONG_LAG]
    assert finding.verdict is Verdict.WARNING
    assert finding.detail["lags"] == dict.fromkeys(dataset.schema.action_names, (4, 0.4))
    assert not [f for f in found(motion(None)) if f.kind is Kind.LONG_LAG]


def test_a_joint_that_runs_against_its_action_is_found(motion) -> None:
    def change(_, state, action):
        action[:, 1] *= -1

    dataset = motion(change)
    (finding,) = found(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.INVERTED)
    assert finding.detail["dimensions"] == [dataset.schema.action_names[1]]


def test_exchanged_joints_are_found(motion) -> None:
    def change(_, state, action):
        action[:] = action[:, [1, 0, 2]]

    dataset = motion(change)
    (finding,) = found(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.EXCHANGED)
    one, other = dataset.schema.action_names[:2]
    assert finding.detail["followed_by"] == {one: other, other: one}


def test_degrees_against_radians_are_found(motion) -> None:
    def change(_, state, action):
        action[:, 0] = np.rad2deg(action[:, 0])

    dataset = motion(change)
    (finding,) = found(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.SCALE)
    assert finding.subject == dataset.schema.action_names[0]
    assert finding.detail == {"scale": pytest.approx(57.3, rel=0.01), "degrees": True}


def test_a_gripper_that_opens_and_closes_has_no_sign_and_no_scale(tmp_path) -> None:
    def change(episode, state, action):
        command = np.where(np.arange(60) // 20 % 2 == episode % 2, 1.0, -1.0)
        action[:, 2] = command
        state[:, 2] = 0.02 - 0.02 * np.concatenate([command[:2], command[:-2]])

    assert found(aloha_motion(tmp_path, change, lengths=LENGTHS)) == []


def test_each_action_is_described(motion) -> None:
    dataset = motion()
    declared = dataset.schema.action_units[0] == "rad"
    for report, name in zip(reports(dataset), dataset.schema.action_names, strict=True):
        assert report.action == report.state == name
        assert report.unit == ("rad" if declared else "unknown")
        assert report.kind in (
            "position",
            "switch" if name == "gripper" else "position or velocity",
        )
        assert (round(report.scale or 0, 3), report.lag, report.explained) == (1, 2, "100%")


TASKS = ("open the drawer", "close the drawer", "open the drawer", "open the drawer")


def test_several_instructions_are_reported_and_one_can_be_selected(motion) -> None:
    dataset = motion(tasks=TASKS)
    (finding,) = found(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.NOTE, Kind.INSTRUCTIONS)
    assert finding.detail["episodes_of"] == {"open the drawer": 3, "close the drawer": 1}
    chosen = open_demonstrations(dataset.folder, {"instruction": "open the drawer"})
    assert [episode.index for episode in chosen.episodes] == [0, 2, 3]
    assert found(chosen) == []
    both = {"instruction": "open the drawer", "exclude": [2]}
    assert [e.index for e in open_demonstrations(dataset.folder, both).episodes] == [0, 3]
    with pytest.raises(UserError, match=r"'shut it'; there are 'open the drawer'; 'close the dra"):
        open_demonstrations(dataset.folder, {"instruction": "shut it"})
    with pytest.raises(UserError, match=r"select.instruction=3: expected a text"):
        open_demonstrations(dataset.folder, {"instruction": 3})


def test_one_instruction_is_nothing_unusual(motion) -> None:
    assert found(motion(tasks=["open the drawer"] * 4)) == []
