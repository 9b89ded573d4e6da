"""Measure speed on this machine, next to LeRobot's: training, data, inference, rollouts, serving.

    python scripts/benchmark.py measure=train peer=/path/to/python

Every figure is a median of repeats. A peer is measured right after ours, with the same sizes and
threads, on a network of the same shape: LeRobot's cannot be shortened or narrowed, so ours is also
measured in its shape. Writes <suite>.json to out=FOLDER. A suite is a file of scripts/benchmarks/
with a function `measure(config)` that returns rows.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from act_policy.errors import UserError


def main(config: Any) -> None:
    """Measure, print a table and write the JSON file."""
    from rich.console import Console
    from rich.table import Table

    from act_policy.evaluation.results import write_json
    from act_policy.system.processes import usable_cores
    from act_policy.system.versions import versions

    suites = {path.stem for path in (Path(__file__).parent / "benchmarks").glob("*.py")}
    suites -= {"clock", "common", "peer"}
    if config.measure not in suites:
        raise UserError(f"measure={config.measure}: expected one of {', '.join(sorted(suites))}")
    if config.peer is not None and not Path(config.peer).is_file():
        raise UserError(f"peer={config.peer}: no such Python")
    config.threads = config.threads or usable_cores()
    usual = {"top": [120, 160]} if "/Aloha" in config.environment else {"topview": [84, 84]}
    config.cameras = config.cameras or usual
    rows: list[dict[str, Any]] = import_module(f"benchmarks.{config.measure}").measure(config)
    for row in rows:
        if (name := row.pop("compare_with", None)) is not None:
            ratio = row["value"] / next(other["value"] for other in rows if other["who"] == name)
            row["times_the_peers_speed"] = 1 / ratio if row["unit"] == "ms" else ratio

    table = Table("who", "measured", "times the peer's speed", title=f"measure={config.measure}")
    for row in rows:
        ratio = f"{row['times_the_peers_speed']:.2f}" if "times_the_peers_speed" in row else ""
        table.add_row(row["who"], f"{row['value']:.4g} {row['unit']}", ratio)
    Console().print(table)
    path = Path(config.out) / f"{config.measure}.json"
    write_json(path, {"rows": rows, "threads": config.threads, "versions": versions()})
    print(f"written: {path}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from act_policy.cli.entry import run

    run("benchmark", main, sys.argv[1:])
