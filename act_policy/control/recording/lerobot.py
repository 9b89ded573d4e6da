"""Recorded episodes as a LeRobotDataset v3.0."""

from act_policy.errors import UserError


def write_lerobot(folder: str, out: str) -> str:
    """Write a folder of recordings as a LeRobotDataset v3.0; the recordings stay.

    Interrupted, it goes on where it stopped; every episode is compared with its recording.

    Returns:
        One sentence that sums it up.

    Raises:
        UserError: a package is not there, the folder holds no episode, or `out` something else.
    """
    try:
        from act_policy.data.conversion.convert import convert
        from act_policy.data.open import open_dataset
    except ImportError as error:
        raise UserError(
            f"lerobot: {error}; run `pip install h5py pillow pyarrow av tqdm` to write videos and "
            "tables, or convert the folder where you train (scripts/convert_dataset.py)"
        ) from None
    return convert(open_dataset(folder), out, "lerobot_v3")
