"""Write demonstrations in another format; repeat the command to continue an interrupted conversion.

act-policy convert source=FOLDER out=FOLDER format=lerobot_v3|aloha_hdf5

Videos are copied as they are where that is possible. Every episode is compared with its source
before the folder counts as a dataset: all numbers, and the first, middle and last image.
"""

import sys

from omegaconf import DictConfig

from act_policy.cli.entry import make_settings


def main(config: DictConfig) -> None:
    """Convert, check, and print what was written."""
    from act_policy.data.conversion.convert import convert
    from act_policy.data.inspection.evidence import Evidence, InspectionConfig
    from act_policy.data.inspection.sentences import advice, sentence
    from act_policy.data.inspection.tracking_findings import contradicted, movements
    from act_policy.data.lerobot.staging import LeRobotWriterConfig
    from act_policy.data.open import open_dataset
    from act_policy.data.reader_config import ReaderConfig

    source = open_dataset(config.source, ReaderConfig.from_config(config))
    names = [episode.name for episode in source.episodes]
    evidence = Evidence(source, InspectionConfig())
    for finding in (*contradicted(evidence), *movements(evidence)):
        print(f"warning: {sentence(finding, names)}. {advice(finding)}", file=sys.stderr)
    done = convert(
        source,
        config.out,
        config.format,
        make_settings(LeRobotWriterConfig, config),
        config.undecodable,
        config.workers,
        config.instruction,
    )
    print(done)
