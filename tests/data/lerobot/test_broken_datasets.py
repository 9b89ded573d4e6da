"""Faults of a LeRobotDataset are refused when it is opened, or named when it is read."""

import re
from pathlib import Path

import av
import numpy as np
import pytest

from act_policy.data.dataset import UndecodableFrameError
from act_policy.data.frames.store import FrameStore
from act_policy.data.open import open_dataset
from act_policy.data.statistics import check_finite
from act_policy.errors import UserError
from tests.data.lerobot_for_tests import (
    TOP,
    change_info,
    change_table,
    drift,
    encode,
    number_of,
    png,
    write_lerobot,
)

DATA = {"v2.1": "data/chunk-000/episode_000001.parquet", "v3.0": "data/chunk-000/file-000.parquet"}
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = {
    "v2.1": f"videos/chunk-000/{TOP}/episode_000001.mp4",
    "v3.0": f"videos/{TOP}/chunk-000/file-000.mp4",
}
VERSIONS = pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("v1.6", r"v1.6; .*Convert it to v2.0"),
        ("v3.1", r"v3.1; .*Update act_policy"),
        ("4", r"codebase_version 4"),
    ],
)
def test_other_versions_are_refused_with_advice(tmp_path, version, message):
    folder = write_lerobot(tmp_path, lengths=(2,), kind="image")
    change_info(folder, lambda info: info.update(codebase_version=version))
    with pytest.raises(UserError, match=message):
        open_dataset(folder)


@pytest.mark.parametrize(
    "field",
    ["codebase_version", "fps", "features", "total_episodes", "total_frames", "data_path"],
)
@VERSIONS
def test_a_missing_field_of_info_is_named(tmp_path, version, field):
    folder = write_lerobot(tmp_path, lengths=(2,), version=version, kind="image")
    change_info(folder, lambda info: info.pop(field))
    with pytest.raises(UserError, match=rf"info.json: field {field} is missing"):
        open_dataset(folder)


def set_info(**fields):
    return lambda folder: change_info(folder, lambda info: info.update(fields))


def set_feature(key, **fields):
    return lambda folder: change_info(folder, lambda info: info["features"][key].update(fields))


def in_table(path, name, row, value):
    return lambda folder: change_table(
        folder / path, lambda columns: columns[name].__setitem__(row, value)
    )


def remove(path):
    return lambda folder: (folder / path).unlink()


def write(path, content):
    return lambda folder: (folder / path).write_bytes(content)


def keep_rows(path, rows):
    return lambda folder: change_table(
        folder / path,
        lambda columns: columns.update({k: [v[r] for r in rows] for k, v in columns.items()}),
    )


@pytest.mark.parametrize(
    ("version", "spoil", "message"),
    [
        ("v3.0", write("meta/info.json", b"{"), r"info.json: cannot be read"),
        ("v3.0", write("meta/info.json", b"[]"), r"info.json: expected an object"),
        ("v3.0", set_info(fps=0), "fps is 0"),
        ("v3.0", set_info(data_path="data/{file}.parquet"), r"data_path 'data/\{file\}.parquet' c"),
        ("v3.0", set_info(video_path=None), "field video_path is missing"),
        ("v2.1", set_info(total_frames=35), "total_frames is 35, but .* count 36"),
        ("v2.1", set_info(chunks_size="2"), "chunks_size is '2'"),
        ("v3.0", set_feature(TOP, shape=[90, 64, 3]), r"the video is 48x64, .* says 90x64"),
        ("v3.0", set_feature(TOP, dtype="image"), rf"has no column {TOP}; found observation.state"),
        ("v3.0", set_feature("action", shape=[4]), r"action has 3 values in row 0; .* says 4"),
        ("v3.0", set_feature("action", shape=[2, 3]), r"action is float32 \[2, 3\]"),
        (
            "v3.0",
            lambda folder: change_info(folder, lambda i: i["features"].pop("action")),
            r"has no feature action; found observation.state float32 \[3\], ",
        ),
        ("v3.0", remove(EPISODES), "episode 0 is missing; expected 0, 1, 2"),
        ("v2.1", remove("meta/episodes.jsonl"), "episodes.jsonl: cannot be read"),
        ("v2.1", write("meta/episodes.jsonl", b'{"length": 3}\n'), "line 1 is not an episode"),
        ("v3.0", in_table(EPISODES, "episode_index", 2, 1), "episode 1 occurs twice"),
        ("v3.0", in_table(EPISODES, "length", 1, 0), "episode 1 has length 0"),
        ("v3.0", in_table(EPISODES, "dataset_from_index", 1, 6), "episode 1 is at steps 6 to 19"),
        ("v3.0", in_table(EPISODES, "dataset_to_index", 1, 20), "episode 1 is at steps 7 to 20"),
        ("v3.0", in_table(EPISODES, "data/file_index", 1, None), "episode 1 has no value of data"),
        (
            "v3.0",
            in_table(EPISODES, f"videos/{TOP}/to_timestamp", 1, 2.0),
            rf"episode 1, {TOP}: 0.7 s to 2 s .* 12 steps",
        ),
        (
            "v3.0",
            lambda folder: change_table(folder / EPISODES, drift(-0.3)),
            "episodes 0 and 1 overlap in .*file-000.mp4",
        ),
        ("v2.1", remove(DATA["v2.1"]), r"episode_000001.parquet: no such file"),
        ("v3.0", remove(DATA["v3.0"]), r"file-000.parquet: no such file"),
        ("v2.1", write(DATA["v2.1"], b"PAR1"), "episode_000001.parquet: is not a readable parquet"),
        ("v2.1", keep_rows(DATA["v2.1"], range(11)), "episode 1 has 11 rows, the metadata say 12"),
        ("v2.1", keep_rows(DATA["v2.1"], [*range(6), *range(5, 11)]), "frame_index at step 6 is 5"),
        ("v3.0", keep_rows(DATA["v3.0"], range(7)), "episode 1 has 0 rows, the metadata say 12"),
        ("v3.0", in_table(DATA["v3.0"], "episode_index", 18, 0), "episode 0 are not contiguous"),
        ("v3.0", in_table(DATA["v3.0"], "episode_index", 18, 4), "holds rows of episode 4|11 rows"),
        ("v3.0", in_table(DATA["v3.0"], "episode_index", 9, None), "a row has no episode_index"),
        ("v3.0", in_table(DATA["v3.0"], "index", 9, 900), "episode 1: index at step 2 is 900, ex"),
        ("v3.0", in_table(DATA["v3.0"], "frame_index", 9, 1), "frame_index at step 2 is 1, exp"),
        ("v3.0", in_table(DATA["v3.0"], "timestamp", 9, 0.3), "timestamp at step 2 is 0.3000 s"),
        ("v3.0", in_table(DATA["v3.0"], "timestamp", 9, None), "timestamp at step 2 is nan"),
        ("v3.0", in_table(DATA["v3.0"], "action", 9, None), "action has no values in row 9"),
        (
            "v2.1",
            remove(VIDEO["v2.1"]),
            r"episode_000001.mp4: no such video.*episode 1, camera top",
        ),
        ("v3.0", remove(VIDEO["v3.0"]), r"file-000.mp4: no such .*episodes 0 to 1, camera top"),
        ("v3.0", write(VIDEO["v3.0"], b"no video"), r"file-000.mp4: is not a readable video"),
        (
            "v3.0",
            lambda folder: encode(folder / VIDEO["v3.0"], range(18)),
            "file-000.mp4: episodes 0 to 1, camera top: the video has 18 frames, .* count 19",
        ),
        (
            "v2.1",
            lambda folder: encode(folder / VIDEO["v2.1"], range(13)),
            "episode_000001.mp4: episode 1, camera top: the video has 13 frames, .* count 12",
        ),
    ],
)
def test_contradictions_are_refused_when_the_folder_is_opened(tmp_path, version, spoil, message):
    folder = write_lerobot(tmp_path, version=version)
    spoil(folder)
    with pytest.raises(UserError, match=message):
        open_dataset(folder)


def test_values_that_are_not_finite_are_named_by_episode(tmp_path):
    folder = write_lerobot(tmp_path)
    in_table(DATA["v3.0"], "action", 9, [0, np.nan, 0])(folder)
    with pytest.raises(
        UserError, match=r"file-000.parquet: episode_000001: action elbow at step 2 is nan"
    ):
        check_finite(open_dataset(folder))


def test_a_video_at_another_rate_is_refused(tmp_path):
    folder = write_lerobot(tmp_path, version="v2.1")
    encode(folder / VIDEO["v2.1"], range(12), rate=20)
    with pytest.raises(UserError, match=r"frame 11 is shown 0.55.. s after .*, expected 1.1"):
        open_dataset(folder).frame(1, 0, "top")


def spoil_packet(path: Path, place: int) -> int:
    """Overwrite the packet decoded at that position with zeros; return its frame's number."""
    with av.open(str(path)) as container:
        packets = [(p.pts, p.pos, p.size) for p in container.demux(video=0) if p.pts is not None]
    pts, start, size = packets[place]
    content = bytearray(path.read_bytes())
    content[start : start + size] = bytes(size)
    path.write_bytes(content)
    return sorted(p for p, _, _ in packets).index(pts)


@pytest.mark.parametrize("options", [{"bf": "0"}, {"bf": "3"}])
def test_an_undecodable_frame_is_named_and_frames_that_depend_on_it_are_refused(tmp_path, options):
    folder = write_lerobot(tmp_path, keys=(TOP,), lengths=(12, 25), options=options)
    broken = spoil_packet(folder / VIDEO["v3.0"], place=14)
    assert 12 <= broken < 20
    dataset = open_dataset(folder)
    with pytest.raises(
        UndecodableFrameError,
        match=r"file-000.mp4: episode 1, camera top, frame \d+ cannot be .*data.undecodable",
    ) as caught:
        FrameStore(dataset)
    first = 12 + int(re.search(r"frame (\d+) cannot", str(caught.value))[1])
    assert first <= broken

    store = FrameStore(dataset, undecodable="skip")
    bad = np.flatnonzero(~store.usable)
    assert broken in bad
    assert set(bad) <= set(range(11, 20))  # never past the next key frame
    if options["bf"] == "0":
        assert bad.tolist() == list(range(14, 20))
    good = np.flatnonzero(store.usable)
    assert [number_of(frame) for frame in store.read("top", good)] == good.tolist()
    fresh = open_dataset(folder)  # another order of reading gives the same result
    for index in reversed(range(37)):
        place = (0, index) if index < 12 else (1, index - 12)
        if index in bad:
            with pytest.raises(UndecodableFrameError):
                fresh.frame(*place, "top")
        else:
            assert number_of(fresh.frame(*place, "top")) == index


def test_a_video_cut_short_loses_only_the_missing_frames(tmp_path):
    folder = write_lerobot(tmp_path, keys=(TOP,), lengths=(12, 9, 16), per_file=3, group=5)
    path = folder / VIDEO["v3.0"]
    with av.open(str(path)) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.pts is not None]
    whole = path.read_bytes()
    path.write_bytes(whole[: packets[17][0] + packets[17][1] // 2])
    dataset = open_dataset(folder)
    with pytest.raises(UndecodableFrameError, match=r"episode [12], camera top, frame \d"):
        FrameStore(dataset)
    store = FrameStore(dataset, undecodable="skip")
    good = np.flatnonzero(store.usable)
    assert set(range(15)) <= set(good) <= set(range(17))
    assert [number_of(frame) for frame in store.read("top", good)] == good.tolist()
    path.write_bytes(whole[:300])
    with pytest.raises(UserError, match=r"file-000.mp4: holds no video.*cut short"):
        open_dataset(folder)


def test_a_broken_image_in_an_image_column_is_named(tmp_path):
    folder = write_lerobot(tmp_path, lengths=(4, 5), kind="image", keys=(TOP,))
    half = {"bytes": png(6)["bytes"][:60], "path": None}
    in_table(DATA["v3.0"], TOP, 6, half)(folder)
    in_table(DATA["v3.0"], TOP, 8, {"bytes": None, "path": None})(folder)
    dataset = open_dataset(folder)
    with pytest.raises(UndecodableFrameError, match="episode 1, camera top, frame 2 cannot"):
        FrameStore(dataset)
    with pytest.raises(UndecodableFrameError, match=r"frame 4 .*holds no bytes"):
        dataset.frame(1, 4, "top")
    store = FrameStore(dataset, undecodable="skip")
    assert np.flatnonzero(~store.usable).tolist() == [6, 8]
