"""Incomplete recordings and copies are read up to their last whole episode, with a warning.

Faults elsewhere are named, and skipped on request.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from act_policy.data.aloha.dataset import AlohaHDF5Dataset
from act_policy.data.dataset import DatasetWarning
from act_policy.data.lerobot.dataset import LeRobotDataset
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from tests.data.episodes_for_tests import smooth_frames, write_foreign_episode
from tests.data.lerobot.test_dataset import EPISODES, every_number
from tests.data.lerobot_for_tests import (
    TOP,
    WRIST,
    change_info,
    change_table,
    encode,
    shown,
    write_lerobot,
)

LENGTHS = (7, 12, 5, 9, 3)
LAST_EPISODES = "meta/episodes/chunk-000/file-001.parquet"
EPISODES_V21 = "meta/episodes.jsonl"
LAST_DATA = "data/chunk-001/file-000.parquet"
LAST_VIDEO = f"videos/{TOP}/chunk-001/file-000.mp4"


def cut(path, keep=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def info_counts(folder, episodes):
    frames = sum((*LENGTHS, 4)[:episodes])
    change_info(folder, lambda i: i.update(total_episodes=episodes, total_frames=frames))


def last_v21(folder, what):
    return {
        "data": folder / "data/chunk-002/episode_000004.parquet",
        "video": folder / f"videos/chunk-002/{WRIST}/episode_000004.mp4",
    }[what]


def unencode(folder):
    last_v21(folder, "video").unlink()
    (folder / "images" / WRIST / "episode_000004").mkdir(parents=True)  # LeRobot's PNG files


CUT_SHORT = {
    "the last data file was not closed": ("v3.0", 4, lambda f: cut(f / LAST_DATA)),
    "the last video was not closed": ("v3.0", 4, lambda f: cut(f / LAST_VIDEO, 0.02)),
    "the last video has fewer frames": (
        "v3.0",
        4,
        lambda f: encode(f / LAST_VIDEO, [shown("top", 33)]),
    ),
    "the episodes' last file was not closed": ("v3.0", 3, lambda f: cut(f / LAST_EPISODES)),
    "the episodes' last file is missing": ("v3.0", 3, lambda f: (f / LAST_EPISODES).unlink()),
    "info.json is an episode behind": ("v3.0", 5, lambda f: info_counts(f, 4)),
    "info.json is an episode ahead": ("v3.0", 5, lambda f: info_counts(f, 6)),
    "v2.1: the last data file was not closed": ("v2.1", 4, lambda f: cut(last_v21(f, "data"))),
    "v2.1: the last video was not encoded yet": ("v2.1", 4, lambda f: unencode(f)),
    "v2.1: the last line was not finished": ("v2.1", 4, lambda f: cut(f / EPISODES_V21, 0.95)),
    "v2.1: info.json is ahead": ("v2.1", 5, lambda f: info_counts(f, 6)),
}


@pytest.mark.parametrize("what", CUT_SHORT)
def test_a_recording_cut_short_is_read_up_to_its_last_whole_episode(tmp_path, what):
    version, whole, spoil = CUT_SHORT[what]
    folder = write_lerobot(tmp_path, LENGTHS, version)
    spoil(folder)
    with pytest.warns(DatasetWarning, match="cut short|recording ended before"):
        dataset = open_dataset(folder)
    assert dataset.lengths.tolist() == list(LENGTHS[:whole])
    for camera in ("top", "wrist"):
        numbers = [shown(camera, index) for index in range(sum(LENGTHS[:whole]))]
        assert every_number(dataset, camera) == numbers


INCOMPLETE = {
    "the last data file": ("v3.0", lambda f: (f / LAST_DATA).unlink()),
    "the last video": ("v3.0", lambda f: (f / LAST_VIDEO).unlink()),
    "v2.0: the last data file": ("v2.0", lambda f: last_v21(f, "data").unlink()),
    "v2.1: the last data file": ("v2.1", lambda f: last_v21(f, "data").unlink()),
    "v2.1: the last video": ("v2.1", lambda f: last_v21(f, "video").unlink()),
    "v2.1: two files are cut": (
        "v2.1",
        lambda f: [
            cut(last_v21(f, "data")),
            cut(f / "data/chunk-001/episode_000003.parquet"),
        ],
    ),
    "v2.1: lines of the episodes": ("v2.1", lambda f: info_counts(f, 8)),
}


@pytest.mark.parametrize("what", INCOMPLETE)
def test_an_incomplete_copy_is_refused_and_read_on_request(tmp_path, what):
    version, spoil = INCOMPLETE[what]
    folder = write_lerobot(tmp_path, LENGTHS, version)
    spoil(folder)
    with pytest.raises(UserError, match=r"The copy is incomplete: copy the folder again"):
        open_dataset(folder)
    with pytest.warns(DatasetWarning, match="are left out"):
        dataset = open_dataset(folder, ReaderConfig(unreadable="skip"))
    whole = {"v2.1: two files are cut": 3, "v2.1: lines of the episodes": 5}.get(what, 4)
    assert dataset.lengths.tolist() == list(LENGTHS[:whole])


def test_several_hdf5_files_that_were_cut_are_an_incomplete_copy(tmp_path):
    for episode in range(4):
        path = tmp_path / f"episode_{episode}.hdf5"
        write_foreign_episode(path, 3, {"top": smooth_frames(3)})
        if episode > 1:
            cut(path)
    with pytest.raises(UserError, match="The copy is incomplete"):
        open_dataset(tmp_path)


def test_rows_and_frames_ahead_of_the_metadata_are_left_out(tmp_path):
    folder = write_lerobot(tmp_path, LENGTHS)
    path = folder / LAST_EPISODES
    pq.write_table(pq.read_table(path).slice(0, 1), path)  # only episode 3 of 3 and 4
    notes = LeRobotDataset(folder).notes
    assert len(notes) == 1
    assert re.search(r"total_episodes is 5, but the episodes' metadata end after 4", notes[0])
    # and if both are in one file
    folder = write_lerobot(tmp_path / "one", LENGTHS, per_file=5)
    for file, keep in ((EPISODES, 3), (LAST_EPISODES, 0)):
        pq.write_table(pq.read_table(folder / file).slice(0, keep), folder / file)
    dataset = LeRobotDataset(folder)
    assert dataset.lengths.tolist() == [7, 12, 5]
    assert any("rows of episodes 3 to 4, which the metadata do not" in n for n in dataset.notes)
    assert every_number(dataset, "wrist") == [shown("wrist", index) for index in range(24)]


def test_a_recording_without_a_whole_episode_is_an_error(tmp_path):
    folder = write_lerobot(tmp_path / "a", (3, 4))
    cut(folder / "data/chunk-000/file-000.parquet")
    with pytest.raises(UserError, match="is not a readable parquet file"):
        open_dataset(folder)
    folder = write_lerobot(tmp_path / "b", (3, 4))
    (folder / EPISODES).unlink()
    with pytest.raises(UserError, match="none of its episodes was whole yet"):
        open_dataset(folder)
    folder = write_lerobot(tmp_path / "c", (3, 4))
    (folder / "meta" / "info.json").unlink()
    with pytest.raises(UserError, match=r"has no meta/info.json; .* only in part"):
        open_dataset(folder)


def drop_episode(folder):
    path = folder / EPISODES
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(0, 1), table.slice(2)]), path)


FAULTS = {
    "a missing file": (
        lambda f: (f / "data/chunk-000/file-000.parquet").unlink(),
        [2, 3, 4],
        r"file-000.parquet: no such file",
    ),
    "a missing video": (
        lambda f: (f / f"videos/{WRIST}/chunk-000/file-001.mp4").unlink(),
        [0, 1, 4],
        r"file-001.mp4: no such video file \(episodes 2 to 3, camera wrist\)",
    ),
    "missing rows": (
        lambda f: change_table(
            f / "data/chunk-000/file-001.parquet",
            lambda c: c["frame_index"].__setitem__(7, 3),
        ),
        [0, 1, 2, 4],
        "episode 3: frame_index at step 2 is 3, expected 2",
    ),
    "an episode without metadata": (drop_episode, [0, 2, 3, 4], "episode 1 is missing"),
    "overlapping times": (
        lambda f: change_table(
            f / EPISODES,
            lambda c: [
                c[f"videos/{TOP}/{end}_timestamp"].__setitem__(
                    1, c[f"videos/{TOP}/{end}_timestamp"][1] - 0.3
                )
                for end in ("from", "to")
            ],
        ),
        [2, 3, 4],
        "episodes 0 and 1 overlap",
    ),
    "overlapping indices": (
        lambda f: change_table(f / EPISODES, lambda c: c["dataset_from_index"].__setitem__(1, 5)),
        [0, 2, 3, 4],
        "episode 1 is at steps 5 to 19",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_elsewhere_are_named_and_skipped_on_request(tmp_path, what):
    spoil, kept, message = FAULTS[what]
    folder = write_lerobot(tmp_path, LENGTHS)
    spoil(folder)
    if what == "an episode without metadata":
        change_info(folder, lambda i: i.update(total_frames=24))
    with pytest.raises(UserError, match=f"{message}.*unreadable=skip"):
        open_dataset(folder)
    with pytest.warns(DatasetWarning, match=rf"of 5 episodes are left out \(.*{message}|{message}"):
        dataset = open_dataset(folder, ReaderConfig(unreadable="skip"))
    assert [e.name for e in dataset.episodes] == [f"episode_{episode:06d}" for episode in kept]
    starts = np.concatenate([[0], np.cumsum(LENGTHS)])
    expected = [i for e in kept for i in range(starts[e], starts[e + 1])]
    assert every_number(dataset, "top") == [shown("top", index) for index in expected]
    with pytest.raises(UserError, match="unreadable=maybe: expected stop or skip"):
        open_dataset(folder, ReaderConfig(unreadable="maybe"))


def test_a_deleted_v21_episode_does_not_affect_the_others(tmp_path):
    folder = write_lerobot(tmp_path, LENGTHS, "v2.1")
    lines = (folder / EPISODES_V21).read_bytes().splitlines(keepends=True)
    (folder / EPISODES_V21).write_bytes(b"".join(lines[:1] + lines[2:]))
    change_info(folder, lambda i: i.update(total_episodes=4, total_frames=24))
    with pytest.raises(UserError, match=r"episode 1 is missing.*unreadable=skip"):
        open_dataset(folder)
    with pytest.warns(DatasetWarning) as warned:
        dataset = open_dataset(folder, ReaderConfig(unreadable="skip"))
    assert [str(w.message) for w in warned] == [next(iter(dataset.notes))]
    assert dataset.lengths.tolist() == [7, 5, 9, 3]
    assert [episode.index for episode in dataset.episodes] == [0, 2, 3, 4]
    (folder / EPISODES_V21).write_bytes(lines[0] + b'{"tasks": ["\xe4\xbd\n' + lines[1])
    with pytest.raises(UserError, match="line 2 is not an episode's index"):
        open_dataset(folder)


def test_unreadable_hdf5_files_are_named_or_skipped(tmp_path):
    for episode in range(4):
        path = tmp_path / f"episode_{episode}.hdf5"
        write_foreign_episode(path, 3 + episode, {"top": smooth_frames(3 + episode)})
    cut(tmp_path / "episode_3.hdf5")
    with pytest.warns(DatasetWarning, match=r"last episode was whole; .* episode_2.hdf5, the last"):
        dataset = open_dataset(tmp_path)
    assert dataset.lengths.tolist() == [3, 4, 5]
    (tmp_path / "episode_3.hdf5").write_bytes(bytes(100))  # never flushed
    assert AlohaHDF5Dataset(tmp_path).lengths.tolist() == [3, 4, 5]
    (tmp_path / "episode_3.hdf5").write_bytes(b"no HDF5 at all")
    with pytest.raises(UserError, match=r"episode_3.hdf5: is not a readable HDF5 file"):
        open_dataset(tmp_path)
    (tmp_path / "episode_3.hdf5").write_bytes(b"")
    cut(tmp_path / "episode_1.hdf5")
    with pytest.raises(UserError, match=r"episode_1.hdf5: is not a readable .*unreadable=skip"):
        open_dataset(tmp_path)
    dataset = AlohaHDF5Dataset(tmp_path, ReaderConfig(unreadable="skip"))
    assert dataset.lengths.tolist() == [3, 5]
    np.testing.assert_array_equal(dataset.frame(1, 4, "top"), smooth_frames(5)[4])
    assert re.search(r"1 of 4 episodes are left out .*: episode_1.hdf5: ", dataset.notes[1])
