"""Batches of frames: raw ones read from their files, decoded ones from the cache."""

import errno
import json
import os
import pickle
import subprocess
import sys

import h5py
import numpy as np
import pytest

from act_policy.data.dataset import DatasetWarning, UndecodableFrameError
from act_policy.data.frames.store import FrameStore, cache_folder
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from tests.data.episodes_for_tests import (
    jpeg_rows,
    make_schema,
    smooth_frames,
    write_foreign_episode,
)

ORDER = np.array([5, 0, 0, 8, 3])


def compressed_folder(folder, broken=()):
    """Write episodes of 4, 3 and 2 steps; `broken` lists (episode, step) to spoil."""
    for episode, steps in enumerate((4, 3, 2)):
        rows = jpeg_rows(smooth_frames(steps))
        for bad, step in broken:
            if bad == episode:
                rows[step, 100:] = 0
        write_foreign_episode(folder / f"episode_{episode}.hdf5", steps, {"top": rows})
    return folder


def contents(cache):
    """List the files in a cache's folder, except the builders' lock."""
    return sorted(path.name for path in cache.iterdir() if path.name != ".lock")


def every_frame(dataset, camera):
    return np.stack(
        [
            dataset.frame(episode, step, camera)
            for episode in range(len(dataset.episodes))
            for step in range(dataset.lengths[episode])
        ]
    )


def test_raw_frames_are_read_from_their_files(make_folder):
    dataset = open_dataset(make_folder([4, 3, 2], make_schema({"top": (6, 8), "wrist": (5, 7)})))
    store = FrameStore(dataset)
    for camera in ("top", "wrist"):
        expected = every_frame(dataset, camera)
        np.testing.assert_array_equal(store.read(camera, ORDER), expected[ORDER])
    assert not cache_folder(dataset).exists()
    assert store.usable.all()


@pytest.mark.parametrize(
    "storage",
    [
        {"chunks": (2, 32, 48, 3)},
        {"chunks": (1, 32, 48, 3), "compression": "gzip"},
        {"chunks": (1, 32, 48, 3), "fletcher32": True},
        {"chunks": (1, 32, 48, 3), "shuffle": True},
        {"chunks": (1, 32, 48, 3)},
        {},
    ],
)
def test_frames_are_right_in_every_storage_of_hdf5(tmp_path, storage):
    frames = smooth_frames(5)
    write_foreign_episode(tmp_path / "e.hdf5", 5, {})
    with h5py.File(tmp_path / "e.hdf5", "a") as file:
        file.create_group("observations/images")
        file["observations/images"].create_dataset("top", data=frames, **storage)
    store = FrameStore(open_dataset(tmp_path))
    np.testing.assert_array_equal(store.read("top", np.arange(5)), frames)


def test_compressed_frames_are_decoded_once(tmp_path, monkeypatch):
    dataset = open_dataset(compressed_folder(tmp_path))
    expected = every_frame(dataset, "top")
    np.testing.assert_array_equal(FrameStore(dataset).read("top", ORDER), expected[ORDER])

    def decoded_again(*_):
        raise AssertionError("decoded again")

    again = open_dataset(tmp_path)
    monkeypatch.setattr(again, "frame", decoded_again)
    np.testing.assert_array_equal(FrameStore(again).read("top", ORDER), expected[ORDER])


def test_an_edited_episode_or_another_option_replaces_the_cache(tmp_path):
    FrameStore(open_dataset(compressed_folder(tmp_path)))
    with pytest.warns(DatasetWarning, match="pixels are blue"):
        blue = open_dataset(tmp_path, ReaderConfig(jpeg_order="rgb"))
    assert FrameStore(blue).read("top", np.array([0]))[0, 2, 2, 2] > 240

    write_foreign_episode(tmp_path / "episode_3.hdf5", 6, {"top": jpeg_rows(smooth_frames(6))})
    grown = open_dataset(tmp_path)
    np.testing.assert_array_equal(
        FrameStore(grown).read("top", np.arange(15)), every_frame(grown, "top")
    )
    assert len(list((tmp_path / ".cache").glob("*.frames"))) == 1
    assert len(contents(tmp_path / ".cache")) == 2


def test_raw_and_compressed_episodes_may_be_mixed(tmp_path):
    compressed_folder(tmp_path)
    write_foreign_episode(tmp_path / "episode_1.hdf5", 3, {"top": smooth_frames(3)})
    dataset = open_dataset(tmp_path)
    np.testing.assert_array_equal(
        FrameStore(dataset).read("top", ORDER), every_frame(dataset, "top")[ORDER]
    )


def test_an_undecodable_frame_stops_and_leaves_no_cache(tmp_path):
    dataset = open_dataset(compressed_folder(tmp_path, broken=[(1, 2)]))
    with pytest.raises(UndecodableFrameError, match=r"episode_1.hdf5: camera top, step 2 .*skip"):
        FrameStore(dataset)
    assert contents(tmp_path / ".cache") == []


def test_skip_marks_the_frame_and_stop_still_refuses_it_later(tmp_path):
    dataset = open_dataset(compressed_folder(tmp_path, broken=[(0, 0), (1, 2)]))
    store = FrameStore(dataset, undecodable="skip")
    assert np.flatnonzero(~store.usable).tolist() == [0, 6]
    assert (~FrameStore(dataset, undecodable="skip").usable).sum() == 2
    with pytest.raises(UndecodableFrameError, match=r"episode_0.hdf5: camera top, step 0"):
        FrameStore(dataset)
    with pytest.raises(UserError, match="stop or skip"):
        FrameStore(dataset, undecodable="ignore")


def test_a_read_only_folder_is_not_written_to(tmp_path, monkeypatch):
    folder = compressed_folder(tmp_path / "demonstrations")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder.chmod(0o555)
    try:
        store = FrameStore(open_dataset(folder))
    finally:
        folder.chmod(0o755)
    assert store.read("top", ORDER).shape == (5, 32, 48, 3)
    assert sorted(path.suffix for path in folder.iterdir()) == [".hdf5"] * 3
    assert len(list((tmp_path / "home" / "act_policy").rglob("*.frames"))) == 1


def test_a_full_disk_while_decoding_gives_one_message(tmp_path, monkeypatch):
    dataset = open_dataset(compressed_folder(tmp_path / "demonstrations"))

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match=r"No space left on device.*cache=FOLDER"):
        FrameStore(dataset, tmp_path / "cache")
    (own,) = (tmp_path / "cache").iterdir()
    assert contents(own) == []


def test_datasets_share_a_cache_folder(tmp_path):
    one = open_dataset(compressed_folder(tmp_path / "one"))
    other = open_dataset(compressed_folder(tmp_path / "other", broken=[(0, 0)]))
    store = FrameStore(one, tmp_path / "cache")
    FrameStore(other, tmp_path / "cache", undecodable="skip")
    np.testing.assert_array_equal(store.read("top", ORDER), every_frame(one, "top")[ORDER])
    assert len(list((tmp_path / "cache").rglob("*.frames"))) == 2


MANY_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import numpy as np
from act_policy.data.frames import store as cache
from act_policy.data.open import open_dataset

store = cache.FrameStore(open_dataset(sys.argv[1]))
for _ in range(2):
    store.read("top", np.arange(300))
print(cache._mapped.cache_info().misses)
"""


@pytest.mark.slow
def test_hundreds_of_files_are_each_mapped_once(make_folder):
    folder = make_folder([1] * 300)
    command = [sys.executable, "-c", MANY_FILES, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "300\n", done.stderr


def test_a_pickled_store_works_and_notices_a_changed_file(make_folder):
    folder = make_folder([4, 3])
    dataset = open_dataset(folder)
    store = pickle.loads(pickle.dumps(FrameStore(dataset)))
    np.testing.assert_array_equal(store.read("top", np.arange(7)), every_frame(dataset, "top"))
    fresh = FrameStore(open_dataset(make_folder([4, 3], name="other")))
    (folder.parent / "other" / "episode_000001.hdf5").unlink()
    with pytest.raises(UserError, match=r"episode_000001.hdf5: was changed or removed"):
        fresh.read("top", np.array([6]))


def test_the_report_beside_the_cache_is_plain_json(tmp_path):
    FrameStore(open_dataset(compressed_folder(tmp_path, [(2, 1)])), undecodable="skip")
    (report,) = (tmp_path / ".cache").glob("*.json")
    assert json.loads(report.read_text()) == {"undecodable": [[2, 1]]}
