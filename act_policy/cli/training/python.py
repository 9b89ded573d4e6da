"""Training from Python: the same as `act-policy train`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from act_policy.cli import train as command
from act_policy.cli.entry import configuration
from act_policy.model.policy import ACTPolicy


class Run(NamedTuple):
    """A training that is done.

    folder: with checkpoints, config.yaml, metrics.csv and report.html.
    held_out_l1: the least error on held-out demonstrations, in standard deviations; None where
        none was held out.
    """

    folder: Path
    held_out_l1: float | None

    @property
    def policy(self) -> ACTPolicy:
        """The best policy of the run."""
        return ACTPolicy.load(self.folder)


def train(
    data: str | Path, out: str | Path, settings: Mapping[str, Any] | None = None, **more: Any
) -> Run:
    """Train a policy on a folder of demonstrations; what is not set is planned.

        run = act_policy.train("FOLDER", "runs/mine", budget="30m")
        run = act_policy.train("FOLDER", "runs/mine", {"data.cameras": ["top"]}, seed=1)

    Args:
        data: the folder, or a hub id in the local cache.
        out: folder of the new run.
        settings: those of `act-policy train --help` by their names, with dots.
        more: settings whose names have none.

    Raises:
        UserError: the demonstrations or a setting cannot be used.
        KeyboardInterrupt: a signal stopped training; there is a checkpoint to resume from.
    """
    given = {"data.path": f"{data}", "out": f"{out}", **(settings or {}), **more}
    arguments = [f"{key}={_write(value)}" for key, value in given.items()]
    config = configuration("train", arguments, command.saved_config)
    loss = command.main(config)
    return Run(Path(OmegaConf.select(config, "out")), loss)


def _write(value: Any) -> str:
    """Write a value as Hydra reads it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | Path):
        text = str(value).replace("\\", "\\\\") if str(value).endswith("\\") else str(value)
        return "'" + text.replace("'", "\\'") + "'"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_write(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write, value)) + "]"
    return str(value)
