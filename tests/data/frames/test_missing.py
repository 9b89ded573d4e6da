"""What is missing of a cache is found before anything is decoded into it."""

import pytest

from act_policy.data.frames import building as cache_building
from act_policy.data.frames.missing import EVERYTHING, Missing, find_missing
from act_policy.data.frames.store import FrameStore
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.training.plan.gather import read_machine_facts
from tests.data.frames.test_building import interrupt_building
from tests.data.frames.test_store import compressed_folder

NOTHING_THERE = {"raw": EVERYTHING, "jpeg": EVERYTHING}


def test_what_a_cache_lacks(tmp_path, monkeypatch):
    folder = compressed_folder(tmp_path)
    as_it_is = open_demonstrations(folder)
    scaled = as_it_is.scale({"top": (160, 240)})
    selected = open_demonstrations(folder, {"resize": [160, 240]})
    assert scaled.schema == selected.schema
    assert find_missing([scaled], None) == NOTHING_THERE
    first = int(selected.lengths[0])
    write, _ = interrupt_building(monkeypatch, first)
    with pytest.raises(KeyboardInterrupt):
        FrameStore(selected)
    half = {"raw": Missing(1 - first / 9, 0.0), "jpeg": EVERYTHING}
    assert find_missing([scaled], None) == half
    monkeypatch.setattr(cache_building, "_write", write)
    FrameStore(selected)
    assert find_missing([scaled], None) == half | {"raw": Missing(0.0, 0.0)}
    assert find_missing([scaled], tmp_path / "elsewhere") == NOTHING_THERE
    assert find_missing([as_it_is], None) == NOTHING_THERE


def test_a_plan_knows_the_caches_of_the_sizes_that_it_may_choose(tmp_path):
    folder = compressed_folder(tmp_path)
    dataset, sizes = open_demonstrations(folder), {((96, 144),), ((32, 48),)}
    assert read_machine_facts(dataset, "auto", False, sizes).caches == {}
    FrameStore(open_demonstrations(folder, {"resize": [96, 144]}), cache_format="jpeg")
    caches = read_machine_facts(dataset, "auto", False, sizes).caches
    assert caches == {(((96, 144),), "jpeg"): Missing(0.0, 0.0)}
    assert read_machine_facts(dataset, None, False, sizes).caches == {}
