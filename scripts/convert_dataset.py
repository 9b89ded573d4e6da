"""Write demonstrations in another format; an interrupted conversion goes on by the same command.

python scripts/convert_dataset.py source=FOLDER out=FOLDER format=lerobot_v3|aloha_hdf5

Videos are copied as they are where that is possible. Every episode is compared with its source
before the folder counts as a dataset: all numbers, and the first, middle and last image.
"""

from entry import run
from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Convert, check, and say what was written."""
    from act_policy.data.convert import convert
    from act_policy.data.dataset import open_dataset
    from act_policy.data.lerobot_staging import LeRobotSettings

    source = open_dataset(
        config.source,
        schema=config.schema,
        cameras=config.cameras,
        jpeg_order=config.jpeg_order,
        unreadable=config.unreadable,
        action_shift=config.action_shift,
        download=config.download,
    )
    source.instructions = [told or config.instruction for told in source.instructions]
    settings = LeRobotSettings(
        images=config.images,
        codec=config.codec,
        crf=config.crf,
        group=config.group,
        data_file_mb=config.data_file_mb,
        video_file_mb=config.video_file_mb,
        files_per_chunk=config.files_per_chunk,
    )
    print(convert(source, config.out, config.format, settings, config.undecodable, config.workers))


if __name__ == "__main__":
    run("convert_dataset", main)
