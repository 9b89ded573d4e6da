"""Caches are built once, in parallel, completely or not at all; frames without one are equal."""

import shutil
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

from act_policy.data.frames import building as cache_building
from act_policy.data.frames.encoding import decode, encode
from act_policy.data.frames.on_demand import DecodedFrames, open_frames
from act_policy.data.frames.store import FrameStore, cache_folder
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from act_policy.images.jpeg import decode_jpeg, encode_jpeg
from tests.data.frames.test_store import compressed_folder, every_frame
from tests.data.lerobot_for_tests import TOP, number_of, shown, write_lerobot

BUILDER = """
import sys, time
from act_policy.data.frames import building as cache_building
from act_policy.data.frames.store import FrameStore
from act_policy.data.selection.demonstrations import open_demonstrations

dataset = open_demonstrations(sys.argv[1])
write, count = cache_building._write, []
def slowly(*arguments):
    count.append(1)
    print("writing", flush=True)
    time.sleep(float(sys.argv[3]))
    write(*arguments)
cache_building._write = slowly
FrameStore(dataset, sys.argv[2])
print("done", len(count), flush=True)
"""


def start_builder(folder, cache, pause):
    command = [sys.executable, "-c", BUILDER, str(folder), str(cache), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)


def test_two_builders_decode_once_after_one_that_was_killed(tmp_path):
    folder = compressed_folder(tmp_path / "demonstrations")
    killed = start_builder(folder, tmp_path / "cache", 60)
    try:
        assert killed.stdout.readline().startswith("decoding 9 frames of top, once: ")
        assert killed.stdout.readline().startswith("writing")
    finally:
        killed.kill()
    killed.communicate(timeout=60)
    builders = [start_builder(folder, tmp_path / "cache", 0.1) for _ in range(2)]
    try:
        outputs = [builder.communicate(timeout=60)[0] for builder in builders]
    finally:
        for builder in builders:
            builder.kill()
    assert sorted(text.splitlines()[-1] for text in outputs) == ["done 0", "done 9"]
    left = sorted(path.name.rpartition(".")[2] for path in (tmp_path / "cache").glob("*/*"))
    assert left == ["frames", "json", "lock"]
    dataset = open_dataset(folder)
    store = FrameStore(dataset, tmp_path / "cache")
    np.testing.assert_array_equal(store.read("top", np.arange(9)), every_frame(dataset, "top"))


def interrupt_building(monkeypatch, first):
    """Interrupt the next building in its second episode; return how to write, and what was."""
    monkeypatch.setattr(cache_building, "usable_cores", lambda: 1)
    write, written = cache_building._write, []

    def interrupted(*arguments):
        if len(written) == first + 1:  # in the second episode
            raise KeyboardInterrupt
        written.append(write(*arguments))

    monkeypatch.setattr(cache_building, "_write", interrupted)
    return write, written


def test_an_interrupted_builder_is_continued(tmp_path, monkeypatch, capsys):
    folder = compressed_folder(tmp_path)
    dataset = open_dataset(folder)
    first = int(dataset.lengths[0])
    write, written = interrupt_building(monkeypatch, first)
    with pytest.raises(KeyboardInterrupt, match=r"while decoding; .*the same command goes on"):
        FrameStore(dataset)
    left = sorted(path.name.rpartition(".")[2] for path in cache_folder(dataset).glob("*"))
    assert left == ["journal", "lock", "unfinished"]

    written.clear()
    monkeypatch.setattr(cache_building, "_write", lambda *a: written.append(write(*a)))
    store = FrameStore(dataset)
    assert len(written) == 9 - first
    assert f"; {first} are decoded already" in capsys.readouterr().out
    np.testing.assert_array_equal(store.read("top", np.arange(9)), every_frame(dataset, "top"))
    left = sorted(path.name.rpartition(".")[2] for path in cache_folder(dataset).glob("*"))
    assert left == ["frames", "json", "lock"]


def test_a_compact_cache_takes_a_fraction_and_is_off_by_what_a_jpeg_is(tmp_path):
    folder = compressed_folder(tmp_path)
    dataset = open_demonstrations(folder, {"resize": [160, 240]})
    expected = every_frame(dataset, "top")
    raw = FrameStore(dataset).read("top", np.arange(9))
    np.testing.assert_array_equal(raw, expected)
    store = FrameStore(dataset, cache_format="jpeg")
    read = store.read("top", np.array([8, 0, 0, 3]))
    jpegs = [decode_jpeg(encode_jpeg(expected[i]), [(160, 240)]) for i in (8, 0, 0, 3)]
    np.testing.assert_array_equal(read, np.stack(jpegs))
    assert 0 < abs(read.astype(int) - expected[[8, 0, 0, 3]]).mean() < 2
    (file,) = cache_folder(dataset).glob("*.frames")  # the raw one made room
    assert file.stat().st_blocks * 512 < expected.nbytes / 3
    np.testing.assert_array_equal(FrameStore(dataset).read("top", np.arange(9)), expected)


def test_a_frame_that_a_jpeg_would_enlarge_is_kept_as_it_is():
    noise = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    place = memoryview(encode(noise) + b"rest")
    np.testing.assert_array_equal(decode(place, 4, 5), noise)


def test_what_was_begun_for_another_selection_is_removed(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    folder = compressed_folder(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(cache_building, "_write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            FrameStore(open_dataset(folder))
    frames = cache_folder(open_dataset(folder))
    assert list(frames.glob("*.unfinished"))
    FrameStore(open_demonstrations(folder, {"exclude": [0]}))
    assert not list(frames.glob("*.unfinished"))


def test_the_size_is_printed_and_a_full_disk_is_refused(tmp_path, monkeypatch, capsys):
    folder = compressed_folder(tmp_path)
    monkeypatch.setattr(cache_building, "tqdm", lambda **options: bars.append(options) or Bar())
    bars = []

    class Bar:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self):
            pass

    small = namedtuple("Usage", "total used free")(10**6, 0, 9 * 32 * 48 * 3 - 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: small)
        with pytest.raises(UserError, match=r"41\.5 kB are free.*data.select.resize.*cache=null"):
            FrameStore(open_dataset(folder))
        # files of a killed builder do not count: they are removed
        left = folder / ".cache" / ".top-0123456789abcdef.frames.999.partial"
        left.touch()
        free = {True: 0, False: 10**6}
        patch.setattr(shutil, "disk_usage", lambda _: small._replace(free=free[left.exists()]))
        FrameStore(open_dataset(folder))
    assert bars[-1]["total"] == 9
    told = capsys.readouterr().out
    assert f"they stay in {folder / '.cache'} and take 41.5 kB of the 1.0 MB that are" in told


def test_a_cache_in_use_is_not_removed(tmp_path):
    compressed_folder(tmp_path)
    used = FrameStore(open_dataset(tmp_path))
    smaller = open_demonstrations(tmp_path, {"exclude": [0]})
    FrameStore(smaller)
    frames = cache_folder(smaller)
    assert len(list(frames.glob("*.frames"))) == 2
    expected = every_frame(open_dataset(tmp_path), "top")
    np.testing.assert_array_equal(used.read("top", np.arange(9)), expected)
    del used
    FrameStore(open_demonstrations(tmp_path, {"exclude": [1]}))
    assert len(list(frames.glob("*.frames"))) == 1


def test_a_camera_may_have_a_slash_in_its_name(tmp_path):
    compressed_folder(tmp_path)
    renamed = open_demonstrations(tmp_path, reader=ReaderConfig(cameras={"robot/top": "top"}))
    store = FrameStore(renamed)
    np.testing.assert_array_equal(
        store.read("robot/top", np.arange(9)), every_frame(renamed, "robot/top")
    )
    del store
    fewer = {"exclude": [0]}
    FrameStore(
        open_demonstrations(tmp_path, fewer, reader=ReaderConfig(cameras={"robot/top": "top"}))
    )
    (cached,) = (tmp_path / ".cache").glob("**/*.frames")  # that of all episodes is removed
    assert cached.name.startswith("robot%2Ftop-")


@pytest.mark.parametrize("memory", [0, 100, 10**9])
def test_frames_without_a_cache_are_equal(tmp_path, monkeypatch, memory):
    monkeypatch.setattr("act_policy.data.frames.on_demand.MEMORY", memory * 48 * 64 * 3)
    dataset = open_demonstrations(
        write_lerobot(tmp_path / "d"), reader=ReaderConfig(cameras=["top"])
    )
    frames = open_frames(dataset, None, "stop")
    assert not cache_folder(dataset).exists()
    order = np.random.default_rng(1).permutation(36)
    for part in np.split(order, 6):
        assert [number_of(image) for image in frames.read("top", part)] == [
            shown("top", index) for index in part
        ]
    if memory == 0:
        assert frames.blocks is None  # no room to keep any together
        return
    assert np.bincount(frames.blocks).max() <= 10  # no longer than a group of pictures
    if memory == 10**9:
        assert frames.blocks[7] != frames.blocks[6]  # another episode, another block


def test_short_groups_may_be_read_in_any_order(tmp_path):
    folder = write_lerobot(tmp_path / "d", keys=(TOP,), group=2)
    frames = open_frames(open_demonstrations(folder), None, "stop")
    assert frames.blocks is None
    order = np.random.default_rng(0).permutation(36)
    assert [number_of(image) for image in frames.read("top", order)] == order.tolist()


def test_an_epoch_without_a_cache_decodes_each_frame_once(tmp_path, monkeypatch):
    folder = write_lerobot(tmp_path / "d", keys=(TOP,))
    data = DemonstrationDataModule(folder, 4, 5, held_out_fraction=0.0, cache=None)
    loader = data.train_dataloader()
    decoded = []
    decode = DecodedFrames._decode
    monkeypatch.setattr(
        DecodedFrames, "_decode", lambda self, c, n: decoded.append(n) or decode(self, c, n)
    )
    for epoch in range(2):
        decoded.clear()
        loader.order.set_epoch(epoch)
        seen = []
        for batch in loader:
            starts = np.cumsum([0, *data.dataset.lengths])[batch.episode]
            index = starts + batch.step.numpy()
            seen += index.tolist()
            images = batch.observation.images["top"].numpy()
            assert [number_of(image) for image in images] == [shown("top", i) for i in index]
        assert sorted(seen) == list(range(36))
        assert sorted(decoded) == list(range(36))


def test_skipping_undecodable_frames_needs_a_cache(tmp_path):
    folder = compressed_folder(tmp_path)
    data = DemonstrationDataModule(folder, 4, 5, cache=None, undecodable="skip")
    with pytest.raises(UserError, match=r"undecodable=skip needs a cache"):
        data.setup("fit")


def test_workers_without_a_cache_load_the_same_images(tmp_path):
    folder = write_lerobot(tmp_path / "d", keys=(TOP,))
    data = DemonstrationDataModule(folder, 4, 3, held_out_fraction=0.0, cache=None, workers=2)
    loader = data.train_dataloader()
    assert data.train_samples[20].step >= 0  # this process has a file open when the workers begin
    seen = []
    for batch in loader:
        starts = np.cumsum([0, *data.dataset.lengths])[batch.episode]
        index = starts + batch.step.numpy()
        seen += index.tolist()
        images = batch.observation.images["top"].numpy()
        assert [number_of(image) for image in images] == [shown("top", i) for i in index]
    assert sorted(seen) == list(range(36))
