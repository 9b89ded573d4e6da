"""Print what a folder of demonstrations holds, and what is wrong with it.

python scripts/inspect_dataset.py path=data/button

Schema, lengths, cameras, statistics of every dimension, and warnings: constant or non-finite
dimensions, failed demonstrations, actions that say nothing, long idle stretches.
"""

from entry import run
from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Read the folder and print its tables."""
    from rich.console import Console

    from act_policy.data.dataset import open_dataset
    from act_policy.data.inspection import find_warnings, report_dimensions, summary_tables

    dataset = open_dataset(
        config.path,
        schema=config.schema,
        cameras=config.cameras,
        jpeg_order=config.jpeg_order,
    )
    console = Console()
    for table in summary_tables(dataset, report_dimensions(dataset, config.std_floor)):
        console.print(table)
    warnings = find_warnings(dataset)
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)
    if not warnings:
        console.print("no warnings")


if __name__ == "__main__":
    run("inspect_dataset", main)
