"""What is missing of a cache is found before anything is decoded into it."""

import pytest

from act_policy.data.frames import building as cache_building
from act_policy.data.frames.missing import EVERYTHING, Missing, find_missing
from act_policy.data.frames.store import FrameStore
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.training.plan.choices import IMAGE_SIZES, scale_camera
from act_policy.training.plan.gather import read_machine_facts
from tests.data.frames.test_store import compressed_folder


def test_what_a_cache_lacks(tmp_path, monkeypatch):
    folder = compressed_folder(tmp_path)
    as_it_is = open_demonstrations(folder)
    scaled = as_it_is.scale({"top": (160, 240)})
    selected = open_demonstrations(folder, {"resize": [160, 240]})
    assert scaled.schema == selected.schema
    assert find_missing([scaled], None, "raw") == EVERYTHING
    first = int(selected.lengths[0])
    monkeypatch.setattr(cache_building, "usable_cores", lambda: 1)
    write, written = cache_building._write, []

    def interrupted(*arguments):
        if len(written) == first + 1:  # in the second episode
            raise KeyboardInterrupt
        written.append(write(*arguments))

    monkeypatch.setattr(cache_building, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FrameStore(selected)
    assert find_missing([scaled], None, "raw") == Missing(1 - first / 9, 0.0)
    monkeypatch.setattr(cache_building, "_write", write)
    FrameStore(selected)
    assert find_missing([scaled], None, "raw") == Missing(0.0, 0.0)
    assert find_missing([scaled, scaled], tmp_path / "elsewhere", "raw") == EVERYTHING
    assert find_missing([scaled], None, "jpeg") == EVERYTHING
    assert find_missing([as_it_is], None, "raw") == EVERYTHING


def test_a_plan_knows_the_caches_of_the_sizes_that_it_may_choose(tmp_path):
    folder = compressed_folder(tmp_path)
    dataset = open_demonstrations(folder)
    assert read_machine_facts(dataset, "auto", False).caches == {}
    size = scale_camera(dataset.schema.cameras[0], IMAGE_SIZES[1].pixels)
    FrameStore(open_demonstrations(folder, {"resize": list(size)}), cache_format="jpeg")
    caches = read_machine_facts(dataset, "auto", False).caches
    assert caches == {((size,), "jpeg"): Missing(0.0, 0.0)}
    assert read_machine_facts(dataset, None, False).caches == {}
