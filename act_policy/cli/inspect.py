"""Show what a folder of demonstrations holds and what is wrong with it: tables and an HTML page.

    act-policy inspect path=data/button

Exit code 0; 2 where training is impossible; 3 with strict=true where there are warnings.
"""

import sys
from pathlib import Path

from omegaconf import DictConfig

from act_policy.cli.entry import make_settings, plain

WARNED = 3
"""Exit code of strict=true where there are warnings."""


def main(config: DictConfig) -> None:
    """Inspect the folder, print the tables and write the page."""
    from rich.console import Console

    from act_policy.data.inspection.evidence import InspectionConfig
    from act_policy.data.inspection.finding import Verdict
    from act_policy.data.inspection.inspect import inspect_folder
    from act_policy.data.inspection.page import inspection_page
    from act_policy.data.inspection.tables import finding_lines, summary_tables, verdict_line
    from act_policy.data.reader_config import ReaderConfig
    from act_policy.errors import UserError
    from act_policy.report.page import write_page

    inspection = inspect_folder(
        config.path,
        InspectionConfig(config.chunk_length, config.std_floor, config.undecodable),
        shown_episodes=config.shown_episodes,
        every_frame=config.every_frame,
        progress=True,
        reader=ReaderConfig.from_config(config),
    )
    console = Console()
    for table in summary_tables(inspection):
        console.print(table)
    for line in finding_lines(inspection):
        console.print(line, soft_wrap=True)
    augmented = []
    if any(plain(config.augmentation).values()):
        from act_policy.training.augmentation import AugmentationConfig
        from act_policy.training.augmented_samples import draw_augmented

        settings = make_settings(AugmentationConfig, config.augmentation)
        augmented = draw_augmented(settings, inspection.looks)
    out = Path(config.out or f"{Path(config.path).resolve().name}.inspection.html")
    write_page(out, inspection_page(inspection, augmented))
    console.print(
        f"{verdict_line(inspection)}; {out}", markup=False, highlight=False, soft_wrap=True
    )
    if count := inspection.count(Verdict.ERROR):
        more = f" (the first of {count} errors, see above)" if count > 1 else ""
        worst = inspection.sentence(inspection.findings[0])
        raise UserError(f"training is impossible: {worst}{more}")
    if config.strict and inspection.count(Verdict.WARNING):
        sys.exit(WARNED)
