"""Other names, no state, files of other systems: read as they are, or refused with the setting."""

import json

import h5py
import numpy as np
import pytest

from act_policy.data.dataset import DatasetWarning
from act_policy.data.inspection.evidence import InspectionConfig
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.inspection.inspect import inspect_folder
from act_policy.data.inspection.sentences import advice
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from act_policy.training.check_demonstrations import check_demonstrations
from act_policy.training.run.run_folder import check_free
from tests.data.lerobot_for_tests import change_info
from tests.data.oddities_for_tests import (
    FORMATS,
    LENGTHS,
    LEROBOT,
    numbers,
    rgb,
    write,
    write_aloha,
    write_lerobot,
)

OPENPI = {"state": "state", "action": "actions", "image": "image", "wrist_image": "wrist_image"}
HDF5 = {"state": "obs/joints", "action": "actions", "front": "obs/rgb/front"}


def write_openpi(folder, form):
    if form == "aloha":
        return write_aloha(folder, {"obs/rgb/front": rgb}, ("obs/joints", "actions"))
    return write_lerobot(folder, form, {"image": rgb, "wrist_image": rgb}, ("state", "actions"))


@pytest.mark.parametrize("form", FORMATS)
def test_other_names_are_refused_with_the_setting_that_reads_them(tmp_path, form):
    folder = write_openpi(tmp_path / "a", form)
    features = HDF5 if form == "aloha" else OPENPI
    text = ", ".join(f"{name}: {key}" for name, key in features.items())
    with pytest.raises(UserError) as error:
        open_dataset(folder)
    assert f"'features={{{text}}}'" in f"{error.value}"
    dataset = open_dataset(folder, ReaderConfig(features=features))
    assert dataset.schema.camera_names == tuple(features)[2:]
    size = dataset.schema.state_size
    np.testing.assert_array_equal(dataset.state(1), numbers(1, LENGTHS[1], size))
    np.testing.assert_array_equal(dataset.action(1), numbers(1, LENGTHS[1], size) + np.float32(0.1))
    np.testing.assert_array_equal(dataset.frame(2, 1, tuple(features)[2]), rgb(2, 1))
    assert inspect_folder(folder, InspectionConfig(), 1, reader=ReaderConfig(features=features))


def test_features_that_are_no_mapping_of_names_are_refused():
    for features in (["state"], {"top": None}, {"state": 3}):
        with pytest.raises(UserError, match="features="):
            ReaderConfig(features=features)
    with pytest.raises(UserError, match="features: a has two names"):
        ReaderConfig(features={"state": "a", "action": "a"})


@pytest.mark.parametrize("form", FORMATS)
def test_without_a_state_there_are_images_alone(tmp_path, form):
    lengths = (30, 34, 28)  # enough steps to look for what the actions are
    if form == "aloha":
        folder = write_aloha(tmp_path / "a", {"top": rgb}, ("action",), lengths)
    else:
        cameras = {"observation.images.top": rgb}
        folder = write_lerobot(tmp_path / "a", form, cameras, ("action",), lengths=lengths)
    with pytest.warns(DatasetWarning, match=r"holds no state; .*features=\{state: null\}"):
        dataset = open_dataset(folder)
    assert dataset.schema.state_names == ()
    assert dataset.state(1).shape == (lengths[1], 0)
    assert inspect_folder(folder, InspectionConfig(chunk_length=4), 3).dimensions
    reader = ReaderConfig(features={"state": None})
    assert open_dataset(folder, reader).notes == []


@pytest.mark.parametrize("form", FORMATS)
def test_a_vector_that_could_be_the_state_is_not_passed_over(tmp_path, form):
    if form == "aloha":
        folder = write_aloha(tmp_path / "a", {"top": rgb}, ("joints", "action"))
    else:
        cameras = {"observation.images.top": rgb}
        folder = write_lerobot(tmp_path / "a", form, cameras, ("joints", "action"))
    with pytest.raises(UserError, match=r"features=\{state: joints, action: action\}.*state: null"):
        open_dataset(folder)
    assert open_dataset(folder, ReaderConfig(features={"state": None})).schema.state_names == ()


FOREIGN = ("._file-000.parquet", "._episode_0.hdf5", ".DS_Store", "Thumbs.db", "desktop.ini")


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_other_systems_are_passed_over(tmp_path, form):
    folder = write(tmp_path / "a", form, {"top": rgb})
    out = tmp_path / "out"
    out.mkdir()
    for place in [folder, out, *(path for path in folder.rglob("*") if path.is_dir())]:
        for name in FOREIGN:
            (place / name).write_bytes(b"\0\5\26\7" + bytes(100))
    dataset = open_dataset(folder)
    assert dataset.lengths.tolist() == list(LENGTHS)
    assert inspect_folder(folder, InspectionConfig(), 1).dataset is not None
    check_free(out)


def test_v2_0_is_v2_1_with_other_statistics(tmp_path):
    folder = write_lerobot(tmp_path / "a", "v2.0", {"observation.images.top": rgb})
    (folder / "meta" / "stats.json").write_text(json.dumps({"action": {"mean": [0.0] * 3}}))
    change_info(folder, lambda i: i.update(total_videos=0, total_chunks=1))
    dataset = open_dataset(folder)
    assert dataset.lengths.tolist() == list(LENGTHS)
    assert [e.instruction for e in dataset.episodes] == ["push"] * 3
    np.testing.assert_array_equal(dataset.frame(2, 3, "top"), rgb(2, 3))


@pytest.mark.parametrize("version", LEROBOT)
def test_scalar_and_single_vectors_stay_vectors(tmp_path, version):
    folder = write_lerobot(tmp_path / "a", version, {"observation.images.top": rgb})
    assert open_dataset(folder).state(0).ndim == 2


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_metadata_may_have_been_edited_by_hand(tmp_path, version):
    folder = write_lerobot(tmp_path / "a", version, {"observation.images.top": rgb})
    info, episodes = folder / "meta" / "info.json", folder / "meta" / "episodes.jsonl"
    info.write_bytes(b"\xef\xbb\xbf" + info.read_bytes())  # a byte-order mark
    text = episodes.read_text().replace('["push"]', '"push"')
    episodes.write_bytes(text.replace("\n", "\r\n").encode())
    dataset = open_dataset(folder)
    assert [episode.instruction for episode in dataset.episodes] == ["push"] * len(LENGTHS)


def test_a_folder_around_the_dataset_is_answered_with_its_place(tmp_path):
    for form in ("v2.1", "aloha"):
        folder = write(tmp_path / form / "mine", form, {"top": rgb})
        (tmp_path / form / "__MACOSX").mkdir()
        with pytest.raises(UserError, match=rf"holds no episode.* Is {folder} meant\?"):
            open_dataset(tmp_path / form)


@pytest.mark.parametrize("ending", [".h5", ".hdf", ".HDF5", ".H5"])
def test_hdf5_files_may_have_other_endings(tmp_path, ending):
    folder = write(tmp_path / "a", "aloha", {"top": rgb})
    for path in folder.glob("*.hdf5"):
        path.rename(path.with_suffix(ending))
    dataset = open_dataset(folder)
    assert [e.name for e in dataset.episodes] == [f"episode_{e}{ending}" for e in range(3)]
    np.testing.assert_array_equal(dataset.frame(2, 1, "top"), rgb(2, 1))
    chosen = open_demonstrations(folder, {"episodes": ["episode_1", f"episode_2{ending}"]})
    assert [episode.index for episode in chosen.episodes] == [1, 2]
    assert inspect_folder(folder, InspectionConfig(), 1).dataset is not None
    with pytest.raises(UserError, match=f"Is {folder} meant"):
        open_dataset(tmp_path)


def test_a_cut_file_of_another_ending_counts_as_the_last_one(tmp_path):
    folder = write(tmp_path / "a", "aloha", {"top": rgb})
    for path in folder.glob("*.hdf5"):
        path.rename(path.with_suffix(".h5"))
    last = folder / "episode_2.h5"
    last.write_bytes(last.read_bytes()[:2000])
    with pytest.warns(DatasetWarning, match="read up to episode_1.h5"):
        assert len(open_dataset(folder).episodes) == 2


def test_hdf5_without_an_ending_of_its_own_is_to_be_renamed(tmp_path):
    folder = write(tmp_path / "a", "aloha", {"top": rgb})
    (folder / "notes.txt").write_text("three times")
    for number, ending in enumerate((".mat", ".data", "")):
        (folder / f"episode_{number}.hdf5").rename(folder / f"episode_{number}{ending}")
    text = "episode_0.mat; episode_1.data; episode_2: .* rename episode_0.mat to episode_0.hdf5"
    with pytest.raises(UserError, match=text):
        open_dataset(folder)


@pytest.mark.parametrize("form", FORMATS)
def test_what_nobody_reads_is_named(tmp_path, form, capsys):
    """Cameras that were not chosen, vectors that some episodes lack, and other contents."""
    folder = write(tmp_path / "a", form, {"top": rgb, "wrist": rgb})
    expected = {"observation.images.wrist"}
    if form == "aloha":
        with h5py.File(folder / "episode_1.hdf5", "a") as file:
            file["observations/effort"] = np.zeros((LENGTHS[1], 14))
            file["base_action"] = np.zeros((LENGTHS[1], 2))
        expected = {"observations/images/wrist", "observations/effort", "base_action"}
    features = {"action": "action"} if form != "aloha" else {"action": "observations/qpos"}
    features |= {"state": "action"} if form == "aloha" else {}
    dataset = open_dataset(folder, ReaderConfig(cameras=["top"], features=features))
    assert set(dataset.left_out) == expected
    check_demonstrations(dataset, InspectionConfig())
    said = capsys.readouterr().out
    assert all(name in said for name in expected)


def test_an_instruction_may_be_stored_as_bytes(tmp_path):
    folder = write(tmp_path / "a", "aloha", {"top": rgb})
    for number, text in enumerate((np.bytes_("push"), "push", np.array(["push"], "S4"))):
        with h5py.File(folder / f"episode_{number}.hdf5", "a") as file:
            file.attrs["instruction"] = text
    assert [e.instruction for e in open_dataset(folder).episodes] == ["push"] * 3


@pytest.mark.parametrize("form", FORMATS)
def test_other_names_are_a_finding_of_their_own(tmp_path, form):
    folder = write_openpi(tmp_path / "a", form)
    inspection = inspect_folder(folder, InspectionConfig(), 1)
    (finding,) = inspection.findings
    assert (finding.verdict, finding.kind) == (Verdict.ERROR, Kind.OTHER_NAMES)
    assert "features={" in inspection.sentence(finding)
    assert "Nothing is wrong with the files" in advice(finding)
