"""When each step was recorded, where the format has it."""

import re

import numpy as np

from act_policy.data.dataset import DemonstrationDataset


def read_timestamps(dataset: DemonstrationDataset) -> list[np.ndarray | None]:
    """float64 (T,) seconds of each episode; None where the files hold none, as ALOHA's.

    In a LeRobotDataset they are the column `timestamp`, and an episode's name ends with its index.

    Raises:
        UserError: a file cannot be read.
    """
    times: list[np.ndarray | None] = [None] * dataset.episode_count
    columns: dict[str, np.ndarray] = {}
    path_read = None
    for episode, (path, name) in enumerate(
        zip(dataset.episode_paths, dataset.episode_names, strict=True)
    ):
        index = re.search(r"(\d+)$", name)
        if path.suffix != ".parquet" or index is None:
            continue
        if path != path_read:
            from act_policy.data.lerobot.metadata import read_columns  # pyarrow, if it is needed

            table = read_columns(path, ["episode_index", "timestamp"])
            columns = {key: table.column(key).to_numpy() for key in table.column_names}
            path_read = path
        times[episode] = columns["timestamp"][columns["episode_index"] == int(index[1])].astype(
            np.float64
        )
    return times
