"""Conversion loses nothing, repeats nothing and leaves no incomplete dataset."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.conversion import convert as converting
from act_policy.data.conversion.check import check_episode
from act_policy.data.conversion.convert import Conversion, convert
from act_policy.data.lerobot.features import read_tasks
from act_policy.data.lerobot.metadata import read_columns
from act_policy.data.lerobot.staging import LeRobotWriterConfig, staged_path
from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from tests.data.episodes_for_tests import jpeg_rows, make_arrays, make_schema, smooth_frames
from tests.data.lerobot_for_tests import (
    TOP,
    change_table,
    decode_all,
    number_of,
    numbered_frame,
    shown,
    write_lerobot,
)

PNG = LeRobotWriterConfig(images="png", data_file_mb=0.004, files_per_chunk=2)


def write_hdf5(folder: Path, lengths=(4, 6, 3)) -> Path:
    schema = make_schema({"wrist": (6, 10), "top": (6, 8)})
    for episode, steps in enumerate(lengths):
        arrays = make_arrays(schema, steps, episode)
        rng = np.random.default_rng([episode, 1])
        write_episode(
            folder / f"episode_{episode:06d}.hdf5",
            schema,
            **arrays,
            velocity=rng.normal(size=(steps, 3)),
            seed=100 + episode,
            success=episode != 1,
            vectors={"effort": rng.normal(size=(steps, 3)), "force": rng.normal(size=(steps, 1))},
            instruction=f"task {min(episode, 1)}",
        )
    return folder


def column(dataset, field):
    return [getattr(episode, field) for episode in dataset.episodes]


def assert_same(one, other, images_equal=True):
    assert one.schema == other.schema
    assert one.lengths.tolist() == other.lengths.tolist()
    for field in ("instruction", "seed", "outcome"):
        assert column(one, field) == column(other, field)
    assert set(one.vector_names) == set(other.vector_names)
    for episode, steps in enumerate(one.lengths):
        np.testing.assert_array_equal(one.state(episode), other.state(episode))
        np.testing.assert_array_equal(one.action(episode), other.action(episode))
        for name in one.vector_names:
            np.testing.assert_array_equal(one.vector(episode, name), other.vector(episode, name))
        for camera in one.schema.camera_names if images_equal else ():
            for step in range(steps):
                np.testing.assert_array_equal(
                    one.frame(episode, step, camera), other.frame(episode, step, camera)
                )


def test_hdf5_to_lerobot_and_back_is_unchanged(tmp_path):
    source = open_dataset(write_hdf5(tmp_path / "hdf5"))
    summary = convert(source, tmp_path / "v3", "lerobot_v3", PNG, workers=2)
    assert summary == f"{tmp_path / 'v3'}: 3 episodes, 13 steps, all checked"
    between = open_dataset(tmp_path / "v3")
    assert_same(source, between)
    assert set(between.vector_names) == {"velocity", "effort", "force"}
    assert [path.parent.name for path in column(between, "file")] == ["chunk-000"] * 2 + [
        "chunk-001"
    ]
    assert len(set(column(between, "file"))) == 3
    convert(between, tmp_path / "back", "aloha_hdf5", workers=2)
    back = open_dataset(tmp_path / "back")
    assert_same(source, back)
    assert back.vector_dimensions("velocity") == (("j0", "j1", "j2"), ("rad/s",) * 3)
    assert back.vector_dimensions("force") == (("force_0",), ("",))
    left = sorted(path.name for path in (tmp_path / "back").iterdir())
    assert left == ["conversion.json", *(f"episode_{e:06d}.hdf5" for e in range(3))]


@pytest.mark.slow
def test_v21_videos_are_copied_and_everything_else_is_kept(tmp_path):
    folder = write_lerobot(tmp_path / "v21", version="v2.1", group=4)  # with B-frames
    tasks = ["stack the cubes", "pick the cube"]
    lines = [json.dumps({"task_index": i, "task": task}) for i, task in enumerate(tasks)]
    (folder / "meta" / "tasks.jsonl").write_text("\n".join(lines))
    named = [0] * 5 + [1] * 7
    change_table(
        folder / "data/chunk-000/episode_000001.parquet", lambda c: c.update(task_index=named)
    )
    source = open_dataset(folder)
    small = LeRobotWriterConfig(video_file_mb=0.004, data_file_mb=0.012, files_per_chunk=2)
    convert(source, tmp_path / "v3", "lerobot_v3", small, workers=2)
    written = open_dataset(tmp_path / "v3")
    assert_same(source, written)
    videos = sorted((tmp_path / "v3" / "videos" / TOP).rglob("*.mp4"))
    assert len(videos) > 2
    assert {path.parent.name for path in videos} >= {"chunk-000", "chunk-001"}
    assert 1 < len(set(column(written, "file"))) < 5
    packets = sum(path.stat().st_size for path in (folder / "videos").rglob(f"{TOP}/*.mp4"))
    assert sum(path.stat().st_size for path in videos) < 1.3 * packets
    shows = [number_of(frame) for path in videos for frame in decode_all(path)]
    assert shows == [shown("top", index) for index in range(36)]
    info = json.loads((tmp_path / "v3" / "meta" / "info.json").read_text())
    assert (info["robot_type"], info["fps"], info["total_frames"]) == ("test_arm", 10, 36)
    assert info["features"]["next.done"]["dtype"] == "bool"
    assert info["features"][TOP]["info"]["video.codec"] == "h264"
    assert read_tasks(tmp_path / "v3") == tasks
    rows = written.rows(1).to_pydict()
    assert rows["task_index"] == named
    assert (rows["index"][0], rows["episode_index"][0]) == (7, 1)
    done = read_columns(written.episodes[0].file, ["next.done", "index"]).to_pydict()
    assert done["next.done"][6] is True
    assert done["next.done"][5] is False
    # again from v3.0 to v3.0: several episodes are cut out of one video
    convert(written, tmp_path / "again", "lerobot_v3", LeRobotWriterConfig(), workers=2)
    again = open_dataset(tmp_path / "again")
    assert_same(source, again)
    assert len(set(column(again, "file"))) == 1


def test_images_become_videos_of_the_same_frames(tmp_path):
    source = open_dataset(write_lerobot(tmp_path / "png", kind="image", keys=(TOP,)))
    config = LeRobotWriterConfig(codec="h264", group=5)
    convert(source, tmp_path / "v3", "lerobot_v3", config, workers=1)
    written = open_dataset(tmp_path / "v3")
    assert_same(source, written, images_equal=False)
    index = 0
    for episode, steps in enumerate(written.lengths):
        for step in range(steps):
            frame = written.frame(episode, step, "top")
            assert number_of(frame) == shown("top", index)
            assert np.abs(frame.astype(int) - source.frame(episode, step, "top")).mean() < 8
            index += 1


def test_an_interrupted_conversion_continues_and_repeats_nothing(tmp_path, monkeypatch):
    source, out = open_dataset(write_hdf5(tmp_path / "hdf5")), tmp_path / "v3"

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(converting, "_assemble", interrupted)
        with pytest.raises(KeyboardInterrupt):
            convert(source, out, "lerobot_v3", PNG, workers=1)
    staging = out / converting.STAGING_FOLDER
    staged_path(staging, 1, "json").unlink()  # as if killed in the second episode
    with pytest.raises(UserError, match="was not finished; the same command goes on"):
        open_dataset(out)
    times = {p.name: p.stat().st_mtime_ns for p in staging.glob("*.parquet")}

    def look(*arguments):
        now = {p.name: p.stat().st_mtime_ns for p in staging.glob("*.parquet")}
        changed = [name for name in times if now[name] != times[name]]
        assert changed == ["episode_000001.parquet"]
        return assemble(*arguments)

    assemble = converting._assemble
    monkeypatch.setattr(converting, "_assemble", look)
    convert(source, out, "lerobot_v3", PNG, workers=1)
    assert_same(source, open_dataset(out))
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    monkeypatch.undo()
    convert(source, out, "lerobot_v3", PNG, workers=1)  # checked again, nothing written
    assert before == {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}


def test_a_folder_with_other_contents_is_left_unchanged(tmp_path):
    source = open_dataset(write_hdf5(tmp_path / "hdf5", (2,)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"mine: holds something else \(thesis.tex\)"):
        convert(source, tmp_path / "mine", "lerobot_v3", PNG)
    with pytest.raises(UserError, match="is the source itself"):
        convert(source, tmp_path / "hdf5", "aloha_hdf5")
    with pytest.raises(UserError, match="is a file"):
        convert(source, tmp_path / "mine" / "thesis.tex", "aloha_hdf5")
    with pytest.raises(UserError, match="images=gif: expected video or png"):
        LeRobotWriterConfig(images="gif")
    with pytest.raises(UserError, match="group=0: expected a whole number"):
        LeRobotWriterConfig(group=0)
    with pytest.raises(UserError, match="format=rlds: expected lerobot_v3 or aloha_hdf5"):
        convert(source, tmp_path / "new", "rlds")
    assert not (tmp_path / "new").exists()
    out = tmp_path / "out"
    convert(source, out, "aloha_hdf5", workers=1)
    with pytest.raises(UserError, match="another kind: format was aloha_hdf5, now lerobot_v3"):
        convert(source, out, "lerobot_v3", PNG)
    os.utime(source.episodes[0].file, ns=(0, 0))
    with pytest.raises(UserError, match="another kind: content was"):
        convert(source, out, "aloha_hdf5")
    assert len(open_dataset(out).episodes) == 1


def test_a_conversion_killed_at_its_first_step_continues(tmp_path):
    source = open_dataset(write_hdf5(tmp_path / "hdf5", (2,)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".conversion.json.999.partial").write_bytes(b"{")
    assert "1 episodes, 2 steps" in convert(source, tmp_path / "out", "lerobot_v3", PNG, workers=1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "conversion.json",
        "data",
        "meta",
    ]


def test_lerobot_episodes_without_an_instruction_get_one(tmp_path):
    folder = write_lerobot(tmp_path / "d", (3, 2), keys=(TOP,), kind="image")
    for path in (folder / "meta" / "episodes").rglob("*.parquet"):
        change_table(path, lambda c: c.update(tasks=[[], ["stack"]]))
    source = open_dataset(folder)
    convert(source, tmp_path / "out", "lerobot_v3", PNG, workers=1, instruction="pick")
    assert column(source, "instruction") == ["", "stack"]  # the caller's is unchanged
    written = open_dataset(tmp_path / "out")
    assert column(written, "instruction") == ["pick", "stack"]
    tasks = read_tasks(tmp_path / "out")
    for episode, instruction in enumerate(column(written, "instruction")):
        (index,) = set(written.rows(episode).column("task_index").to_pylist())
        assert tasks[index] == instruction


def test_the_texts_of_a_lerobot_dataset_are_read_once_per_process(tmp_path, monkeypatch):
    source = open_dataset(write_lerobot(tmp_path / "d", keys=(TOP,), kind="image"))
    reads = []
    monkeypatch.setattr(
        "act_policy.data.lerobot.source.read_tasks",
        lambda folder: reads.append(folder) or read_tasks(folder),
    )
    staging = tmp_path / "out" / converting.STAGING_FOLDER
    staging.mkdir(parents=True)
    job = Conversion(source, tmp_path / "out", "lerobot_v3", PNG, "stop", workers=1)
    stage_one = converting._make_stager(job)
    for episode in range(len(source.episodes)):
        stage_one(episode, lambda: None)
    assert len(list(staging.iterdir())) >= len(source.episodes)
    assert reads == [source.folder]


def test_two_processes_do_not_convert_into_one_folder(tmp_path):
    source = open_dataset(write_hdf5(tmp_path / "hdf5", (2,)))
    plan = {"source": str(source.folder), "format": "aloha_hdf5"}
    with (
        converting._claim(tmp_path / "out", plan),
        pytest.raises(UserError, match="another process is converting"),
        converting._claim(tmp_path / "out", plan),
    ):
        raise AssertionError


def test_an_episode_with_a_broken_frame_is_named_or_left_out_on_request(tmp_path):
    folder = write_hdf5(tmp_path / "hdf5")
    with h5py.File(folder / "episode_000001.hdf5", "a") as file:
        rows = jpeg_rows(smooth_frames(6, 6, 8))
        rows[4] = 0
        del file["observations/images/top"]
        file["observations/images/top"] = rows
    source = open_dataset(folder)
    with pytest.raises(UserError, match=r"episode_000001.hdf5: camera top, step 4 cannot be dec"):
        convert(source, tmp_path / "stop", "lerobot_v3", PNG, workers=1)
    summary = convert(source, tmp_path / "skip", "lerobot_v3", PNG, undecodable="skip", workers=1)
    assert "2 episodes, 7 steps, all checked; 1 left out, named in conversion.json" in summary
    written = open_dataset(tmp_path / "skip")
    assert column(written, "seed") == [100, 102]
    np.testing.assert_array_equal(written.action(1), source.action(2))
    plan = json.loads((tmp_path / "skip" / "conversion.json").read_text())
    assert "step 4 cannot be decoded" in plan["left_out"]["1"]


def test_the_check_finds_differences(tmp_path):
    source = open_dataset(write_hdf5(tmp_path / "hdf5", (3, 3)))
    other = open_dataset(write_hdf5(tmp_path / "other", (3, 3)))
    check_episode(source, other, (0, 0))
    with pytest.raises(UserError, match=r"other: episode_000001.hdf5: state differs .* step 0"):
        check_episode(source, other, (1, 0))
    other.action(0)[2, 1] += 1e-6
    with pytest.raises(UserError, match=r"action differs from its source at step 2, dimension 1"):
        check_episode(source, other, (0, 0))
    other.action(0)[:] = source.action(0)
    other.frame = lambda episode, step, camera: 255 - source.frame(episode, step, camera)
    with pytest.raises(UserError, match=r"camera wrist, step 0 differs by .* of 255"):
        check_episode(source, other, (0, 0))
    other.episodes = [replace(other.episodes[0], seed=5)]
    with pytest.raises(UserError, match="seed is 5, in its source 100"):
        check_episode(source, other, (0, 0))


def test_frame_numbers_are_distinguished():
    assert number_of(numbered_frame(4099)) == 4099


def test_a_conversion_begun_by_an_earlier_version_recognises_its_source(tmp_path):
    folder = tmp_path / "hdf5"
    shutil.copytree(Path(__file__).parents[1] / "aloha_hdf5_compressed", folder)
    os.utime(folder / "episode_1.hdf5", (1, 1))
    convert(open_dataset(folder), tmp_path / "v3", "lerobot_v3", PNG, workers=1)
    plan = json.loads((tmp_path / "v3" / "conversion.json").read_text())
    assert plan["content"] == "5188db33b2b95cad"  # as it was when a schema said "task"
