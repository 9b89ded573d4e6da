"""HDF5 files that would be misread in silence: each is refused, or named with the reason."""

import h5py
import numpy as np
import pytest

from act_policy.data.dataset import DatasetWarning
from act_policy.data.inspection.evidence import Evidence, InspectionConfig
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.inspection.number_findings import find
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from tests.data.motion_for_tests import WRITERS
from tests.data.oddities_for_tests import LENGTHS, rgb, write_aloha


@pytest.mark.parametrize("place", ["action", "observations/qpos", "observations/images/top"])
def test_values_in_another_file_that_is_gone_are_asked_for(tmp_path, place):
    """HDF5 itself reads zeros there."""
    folder = write_aloha(tmp_path / "a", {"top": rgb})
    with (
        h5py.File(folder / "episode_1.hdf5", "a") as file,
        h5py.File(folder / "values.bin", "w") as other,
    ):
        other[place] = values = file[place][()]
        del file[place]
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        layout[...] = h5py.VirtualSource("values.bin", place, values.shape)
        file.create_virtual_dataset(place, layout)
    whole = open_dataset(folder)
    assert all(part.any() for part in (whole.action(1), whole.state(1), whole.frame(1, 0, "top")))
    whole.close()
    (folder / "values.bin").unlink()
    with pytest.raises(UserError, match=f"/{place} is in the file values.bin, which is not there"):
        open_dataset(folder)


def test_joints_in_degrees_have_no_unit(tmp_path):
    folder = write_aloha(tmp_path / "a", {"top": rgb})
    with h5py.File(folder / "episode_2.hdf5", "a") as file:
        file["observations/qpos"][1, 3] = -90
    with pytest.warns(DatasetWarning, match="joints reach 90, too much for ALOHA's radians"):
        schema = open_dataset(folder).schema
    for units in (schema.state_units, schema.action_units):
        assert set(units) == {"", "0..1"}
    described = schema.to_dict() | {"state_units": ["deg"] * 14, "action_units": ["deg"] * 14}
    assert open_dataset(folder, ReaderConfig(schema=described)).notes == []


def test_a_file_of_several_episodes_is_to_be_split(tmp_path):
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        for demo in range(3):
            file[f"data/demo_{demo}/actions"] = np.zeros((4, 7))
            file[f"data/demo_{demo}/obs/joint_pos"] = np.zeros((4, 7))
    text = "holds several episodes, data/demo_0; data/demo_1; data/demo_2; expected one per file"
    with pytest.raises(UserError, match=text):
        open_dataset(tmp_path)


def test_a_video_in_one_piece_is_left_out_with_the_reason(tmp_path):
    folder = write_aloha(tmp_path / "a", {"top": rgb})
    for episode in range(len(LENGTHS)):
        with h5py.File(folder / f"episode_{episode}.hdf5", "a") as file:
            file["observations/images/wrist"] = np.zeros(5000, np.uint8)
    with pytest.warns(DatasetWarning, match="camera wrist is left out: .*not one image per step"):
        dataset = open_dataset(folder)
    assert dataset.schema.camera_names == ("top",)
    assert "observations/images/wrist" in dataset.left_out


@pytest.mark.parametrize("form", WRITERS)
def test_steps_that_were_never_written_are_found(tmp_path, form):
    def change(episode, state, action):
        if episode == 1:
            state[-2:] = action[-2:] = 0

    dataset = WRITERS[form](tmp_path, change)
    found = find(Evidence(dataset, InspectionConfig()))
    (finding,) = [f for f in found if f.kind is Kind.UNWRITTEN]
    length = int(dataset.lengths[1])
    assert finding.verdict is Verdict.WARNING
    assert finding.episodes == {1: {"step": length - 2, "length": length}}
