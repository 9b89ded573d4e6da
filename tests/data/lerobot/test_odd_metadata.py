"""What info.json says beside the usual, and rows that lack something, are named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from act_policy.data.dataset import DatasetWarning
from act_policy.data.open import open_dataset
from tests.data.lerobot_for_tests import change_info, write_lerobot
from tests.data.oddities_for_tests import LEROBOT, rgb
from tests.data.oddities_for_tests import write_lerobot as write_images


def test_names_that_repeat_are_not_used(tmp_path):
    folder = write_lerobot(tmp_path, lengths=(2,), kind="image")
    change_info(folder, lambda i: i["features"]["action"].update(names=["a", "a", "b"]))
    with pytest.warns(
        DatasetWarning, match=r"action names a more than once: .* action_0, action_1"
    ):
        assert open_dataset(folder).schema.action_names == ("action_0", "action_1", "action_2")


def test_further_splits_are_named(tmp_path):
    folder = write_lerobot(tmp_path, lengths=(2, 3), kind="image")
    change_info(folder, lambda i: i.update(splits={"train": "0:1", "test": "1:2"}))
    with pytest.warns(DatasetWarning, match=r"further splits, test 1:2, .*select.exclude"):
        assert len(open_dataset(folder).episodes) == 2


@pytest.mark.parametrize("version", LEROBOT)
def test_images_as_lists_of_numbers_are_left_out_with_the_reason(tmp_path, version):
    top = "observation.images.top"
    folder = write_images(tmp_path / "a", version, {top: rgb, "observation.images.wrist": rgb})
    for path in folder.glob("data/*/*"):
        table = pq.read_table(path)
        lists = pa.array([np.zeros((2, 2, 3), int).tolist()] * len(table))
        at = table.schema.get_field_index(top)
        pq.write_table(table.set_column(at, top, lists), path)
    with pytest.warns(DatasetWarning, match=f"{top} is left out: its images are lists of numbers"):
        assert open_dataset(folder).schema.camera_names == ("wrist",)
