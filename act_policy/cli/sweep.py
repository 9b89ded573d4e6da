"""Several runs by one command: `--multirun` hands it to Hydra's sweepers and launchers."""

from collections.abc import Callable
from typing import Any

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig

from act_policy.cli.entry import CONFIGS, SavedConfig, configuration, expand_home
from act_policy.errors import UserError
from act_policy.system.home import in_home


def sweep(
    config_name: str,
    main: Callable[[DictConfig], Any],
    arguments: list[str],
    saved_config: SavedConfig | None = None,
) -> None:
    """Call `main` once per job of a sweep, each with a folder of its own as `out`.

    `out=` (Hydra's hydra.sweep.dir) is the folder of the sweep, and hydra.sweep.subdir names a
    job's folder in it, by default its number. A sweeper minimises what `main` returns.

    Raises:
        UserError: the settings are wrong, or there is no folder per job.
        Exception: of the first job that failed, raised when all jobs have run.
    """
    resumes = {argument for argument in arguments if argument.startswith("resume=")}
    if resumes - {"resume=auto"}:
        raise UserError("resume= continues one run; leave --multirun out, or give resume=auto")
    own = [argument for argument in arguments if argument not in resumes]
    config = first_job(config_name, own, saved_config)
    if "out" not in config:
        raise UserError("--multirun: this command has no out=, so its jobs have no folders")
    # A job's folder is its run, with a config.yaml of its own: Hydra adds nothing to it.
    overrides = ["hydra.output_subdir=null"]
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "out" and ("${" in value or first_value(argument) != [argument]):
            raise UserError(
                f"{argument}: out= is the folder of the whole sweep; hydra.sweep.subdir= names "
                "the folder of a job in it, for example 'hydra.sweep.subdir=seed${seed}'"
            )
        overrides.append(f"hydra.sweep.dir={in_home(value)}" if name == "out" else argument)
    if not any(argument.startswith("hydra/job_logging=") for argument in arguments):
        overrides.append("hydra/job_logging=none")

    def job(config: DictConfig) -> Any:
        config.out = HydraConfig.get().runtime.output_dir
        if "given" in config:
            task = HydraConfig.get().overrides.task
            config.given = sorted({setting.partition("=")[0] for setting in task})
        expand_home(config)
        if resumes and saved_config is not None:
            config = saved_config(config, set()) or config
        return main(config)

    with initialize_config_dir(str(CONFIGS), job_name=config_name, version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        try:
            hydra.multirun(config_name, job, overrides)
        except ConfigCompositionException as error:
            raise UserError(str(error)) from None


def first_job(
    config_name: str, arguments: list[str], saved_config: SavedConfig | None = None
) -> DictConfig:
    """Compose the settings of the first job; UserError where they are wrong."""
    own = [argument for argument in arguments if not argument.startswith("hydra")]
    first = [setting for argument in own for setting in first_value(argument)]
    return configuration(config_name, first, saved_config)


def first_value(argument: str) -> list[str]:
    """Give the setting of the first job; none where only Hydra can tell which that is."""
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException:
        return [argument]  # refused with a message like that of a single run
    if not override.is_sweep_override():
        return [argument]
    value = override.value()
    if isinstance(value, Glob):
        return []
    first = value.start if isinstance(value, IntervalSweep) else None
    text = next(override.sweep_string_iterator()) if first is None else str(first)
    return [f"{override.get_key_element()}={text}"]
