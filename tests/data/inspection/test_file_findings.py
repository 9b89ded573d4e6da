"""Every unusable file is named, and the rest is still inspected."""

import json

import h5py
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.inspection.file_findings import open_readable
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from tests.data.episodes_for_tests import make_arrays, make_schema
from tests.data.lerobot_for_tests import change_table, write_lerobot


def write_aloha(folder, name, cameras=None, size=3, seed=0):
    schema = make_schema(cameras, size)
    write_episode(folder / name, schema, **make_arrays(schema, 12, seed))


def test_a_whole_folder_has_no_problem(make_folder):
    dataset, findings = open_readable(make_folder([4, 5]))
    assert len(dataset.episodes) == 2
    assert findings == []


def test_every_broken_aloha_file_is_named_and_the_rest_is_read(tmp_path):
    for episode in range(6):
        write_aloha(tmp_path, f"episode_{episode}.hdf5", seed=episode)
    (tmp_path / "episode_1.hdf5").write_bytes(b"no HDF5")
    whole = (tmp_path / "episode_3.hdf5").read_bytes()
    (tmp_path / "episode_3.hdf5").write_bytes(whole[: len(whole) // 2])
    with h5py.File(tmp_path / "episode_4.hdf5", "a") as file:
        del file["action"]
    dataset, findings = open_readable(tmp_path)
    assert [episode.name for episode in dataset.episodes] == [
        "episode_0.hdf5",
        "episode_2.hdf5",
        "episode_5.hdf5",
    ]
    assert {f.verdict for f in findings} == {Verdict.ERROR}
    assert {f.kind for f in findings} == {Kind.BROKEN_FILE}
    for finding, message in zip(
        findings,
        (
            "episode_1.hdf5: is not a readable HDF5 file",
            "episode_3.hdf5: is not a readable HDF5 file",
            "episode_4.hdf5: has no /action",
        ),
        strict=True,
    ):
        assert message in f"{finding.detail['error']}"


def test_differing_cameras_sizes_and_schemas_are_named(tmp_path):
    for episode in range(3):
        write_aloha(tmp_path, f"episode_{episode}.hdf5", seed=episode)
    write_aloha(tmp_path, "episode_3.hdf5", {"top": (9, 8)})
    write_aloha(tmp_path, "episode_4.hdf5", {"top": (6, 8), "wrist": (6, 8)})
    write_aloha(tmp_path, "episode_5.hdf5", size=4)
    with h5py.File(tmp_path / "episode_2.hdf5", "a") as file:
        schema = json.loads(file.attrs["schema"])
        file.attrs["schema"] = json.dumps(schema | {"rate": 20.0})
    dataset, findings = open_readable(tmp_path)
    assert len(dataset.episodes) == 2
    expected = (
        {"rate": (20.0, 10.0)},
        {"cameras": ("top 9x8", "top 6x8")},
        {"cameras": ("top 6x8, wrist 6x8", "top 6x8")},
        {"state dimensions": (4, 3), "action dimensions": (4, 3)},
    )
    for number, (finding, differences) in enumerate(zip(findings, expected, strict=True), start=2):
        assert finding.kind is Kind.UNLIKE_FILE
        assert finding.subject == str(tmp_path / f"episode_{number}.hdf5")
        assert finding.detail == {"differences": differences, "alike": 2, "count": 6}
    with pytest.raises(UserError):
        open_dataset(tmp_path, ReaderConfig(unreadable="skip"))


def test_a_folder_without_a_readable_file_gives_only_findings(make_folder):
    folder = make_folder([4, 5])
    for path in folder.glob("*.hdf5"):
        path.write_bytes(b"")
    dataset, findings = open_readable(folder)
    assert dataset is None
    assert len(findings) == 2


def test_wrong_settings_are_not_blamed_on_the_files(make_folder, tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        open_readable(tmp_path / "nothing")
    with pytest.raises(UserError, match="jpeg_order"):
        open_readable(make_folder([4]), ReaderConfig(jpeg_order="grb"))
    with pytest.raises(UserError, match="nose"):
        open_readable(make_folder([4]), ReaderConfig(cameras=["nose"]))


def test_only_files_that_training_skips_are_warnings(tmp_path):
    for episode in range(4):
        write_aloha(tmp_path, f"episode_{episode}.hdf5", seed=episode)
    (tmp_path / "episode_1.hdf5").write_bytes(b"no HDF5")
    write_aloha(tmp_path, "episode_2.hdf5", {"top": (9, 8)})
    _, findings = open_readable(tmp_path, ReaderConfig(unreadable="skip"))
    assert [(f.verdict, f.kind) for f in findings] == [
        (Verdict.WARNING, Kind.BROKEN_FILE),
        (Verdict.ERROR, Kind.UNLIKE_FILE),
    ]
    assert findings[1].subject == str(tmp_path / "episode_2.hdf5")


def test_notes_of_the_reader_are_warnings(tmp_path):
    for episode in range(3):
        write_aloha(tmp_path, f"episode_{episode}.hdf5", seed=episode)
    (tmp_path / "episode_2.hdf5").write_bytes(b"")
    dataset, (finding,) = open_readable(tmp_path)
    assert len(dataset.episodes) == 2
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.READER_NOTE)
    assert finding.detail == {"note": dataset.notes[0]}


def test_every_broken_video_is_named_and_the_rest_is_read(tmp_path):
    folder = write_lerobot(tmp_path, (7, 5, 6, 4, 8), version="v2.1")
    videos = sorted(folder.glob("videos/**/observation.images.wrist/*.mp4"))
    videos[1].unlink()
    videos[3].write_bytes(videos[3].read_bytes()[:300])
    dataset, findings = open_readable(folder)
    assert [episode.name for episode in dataset.episodes] == [
        "episode_000000",
        "episode_000002",
        "episode_000004",
    ]
    assert len(findings) == 2
    assert [f.detail["error"].path for f in findings] == [videos[1], videos[3]]
    _, findings = open_readable(folder, ReaderConfig(unreadable="skip"))
    assert {f.verdict for f in findings} == {Verdict.WARNING}


def test_every_video_that_holds_all_episodes_is_named(tmp_path):
    folder = write_lerobot(tmp_path, (7, 5), per_file=2)
    videos = sorted(folder.glob("videos/**/*.mp4"))
    for video in videos:
        video.unlink()
    dataset, findings = open_readable(folder)
    assert dataset is None
    assert [f.detail["error"].path for f in findings] == videos


def test_every_broken_parquet_file_is_named(tmp_path):
    folder = write_lerobot(tmp_path, (7, 5, 6, 4, 8), version="v2.1", kind="image")
    files = sorted(folder.glob("data/**/*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:-20])
    change_table(files[2], lambda c: c["frame_index"].__setitem__(3, 5))
    files[3].unlink()
    dataset, findings = open_readable(folder)
    assert [episode.name for episode in dataset.episodes] == ["episode_000001", "episode_000004"]
    texts = [f"{finding.detail['error']}" for finding in findings]
    assert len(texts) == 3
    assert f"{files[0]}: is not a readable parquet file" in texts[0]
    assert "episode 2: frame_index at step 3 is 5, expected 3; steps are missing" in texts[1]
    assert f"{files[3]}: no such file" in texts[2]


def test_contradictory_metadata_are_named(tmp_path):
    folder = write_lerobot(tmp_path, (7, 5), kind="image")
    path = next((folder / "meta/episodes").rglob("*.parquet"))
    change_table(path, lambda c: c.update(dataset_from_index=[0, 9]))
    dataset, findings = open_readable(folder)
    assert [episode.name for episode in dataset.episodes] == ["episode_000000"]
    (finding,) = findings
    assert finding.kind is Kind.BROKEN_FILE
    assert "episode 1 is at steps 9 to 12 of the dataset" in f"{finding.detail['error']}"
