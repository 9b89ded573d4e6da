"""The plan of a run: what its settings leave open, decided and written into them."""

import json
import os
from dataclasses import replace
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from act_policy.cli.entry import CONFIGS, load_yaml, plain
from act_policy.errors import UserError

MADE = "made"
"""config.plan of a run whose settings a plan has decided."""
SHARE_OF_TRAINING = 0.98
"""Of the time that is left once the images are decoded; in the rest the policy is judged."""
_SHARED = "ACT_POLICY_PLAN"
"""Environment variable that tells processes which train together what the first one has decided."""


def is_planned(config: DictConfig) -> bool:
    """Whether a plan decides what the command line leaves open; an experiment leaves nothing open.

    Raises:
        UserError: plan= has another value.
    """
    if config.plan not in ("auto", "only", None):
        raise UserError(f"plan={config.plan}: expected auto, only or null")
    fixed = [group for group in ("experiment", "debug") if group in config.given]
    if fixed and config.plan == "only":
        raise UserError(
            f"{fixed[0]}= fixes every setting, so there is nothing to plan; leave it out"
        )
    return config.plan is not None and not fixed


def plan_run(config: DictConfig, demonstrations: Any, initial: Any, first_process: bool) -> Any:
    """Decide what the command line leaves open, write it into the settings and print the plan.

    Args:
        config: of the run; changed.
        demonstrations: the data module that reads them as the command line says.
        initial: the policy to start from, or None.
        first_process: of those that train together; it decides, the others follow.

    Returns:
        The plan; None in the other processes.

    Raises:
        UserError: the demonstrations or the settings cannot be used.
    """
    if not first_process:
        if _SHARED not in os.environ:
            raise UserError(
                "processes that were started apart cannot agree on a plan; fix the settings with "
                "experiment=NAME or plan=null"
            )
        _apply(json.loads(os.environ[_SHARED]), config)
        return None
    import torch
    from hydra.utils import instantiate

    from act_policy.training.plan.choices import LEAST_GAIN, list_sizes
    from act_policy.training.plan.facts import Workload
    from act_policy.training.plan.gather import read_data_facts, read_machine_facts
    from act_policy.training.plan.measure import measure_step
    from act_policy.training.plan.plan import show_plan
    from act_policy.training.plan.rules import make_plan

    by_hand = _settings_by_hand(config, initial)
    dataset = demonstrations.dataset
    data = read_data_facts(dataset)
    accelerator = config.trainer.accelerator
    machine = read_machine_facts(
        dataset, config.data.cache, accelerator != "cpu", list_sizes(data, by_hand)
    )
    if config.trainer.threads is not None:  # measured as it will be trained
        torch.set_num_threads(config.trainer.threads)
    measured: dict[Workload, float] = {}
    checkpoint_bytes = 0
    while True:
        plan = make_plan(data, machine, by_hand, measured)
        _apply(plan.settings, config)
        if plan.workload in measured:
            break
        measure = partial(
            measure_step,
            plan.workload,
            plain(config.model),
            dataset.schema,
            instantiate(config.optim),
            bool(machine.gpu),
        )
        asked = str(by_hand.get("trainer.precision", "auto"))
        trial = measure(asked.startswith("bf16") or (bool(machine.gpu) and asked == "auto"))
        seconds = trial.step_seconds
        if machine.multiplies_bfloat16 and not machine.gpu and asked == "auto":
            gain = trial.processor_seconds / measure(True).processor_seconds
            machine = replace(machine, bfloat16_gain=gain)
            seconds /= gain if gain >= LEAST_GAIN else 1.0
        measured[plan.workload] = seconds
        checkpoint_bytes = trial.checkpoint_bytes
    print(show_plan(plan, data, machine, config.data.path, 2 * checkpoint_bytes), flush=True)
    os.environ[_SHARED] = json.dumps(plan.settings)
    return plan


def end_in_time(config: DictConfig, plan: Any, spent: float) -> None:
    """Let training end, and its schedule with it, when the budget of the plan is used up.

    spent: seconds of it so far.
    """
    if plan.budget_seconds is None or "max_minutes" in config.given:
        return
    left = (plan.budget_seconds - spent) * SHARE_OF_TRAINING
    limit = {"max_minutes": round(max(left, plan.step_seconds) / 60, 4)}
    _apply(limit, config)
    os.environ[_SHARED] = json.dumps(plan.settings | limit)


def _settings_by_hand(config: DictConfig, initial: Any) -> Any:
    """Collect what the command line gives, and what a policy to start from settles."""
    from act_policy.training.plan.facts import ByHand

    given = {key: OmegaConf.select(config, key) for key in config.given}
    by_hand = {
        key: plain(value) if OmegaConf.is_config(value) else value for key, value in given.items()
    }
    if "model" in config.given:
        by_hand["network"] = _name_network(config)
    if initial is not None:
        by_hand |= {"init": config.init, "model": plain(config.model)}
        for name, values in _scaling(initial.schema).items():
            if name not in by_hand and values:
                OmegaConf.update(config, name, values, merge=False)
                by_hand[name] = values
    return ByHand(by_hand)


def _scaling(schema: Any) -> dict[str, dict[str, list[int]]]:
    """Return the settings that make images of the size of a policy's, from those it was made of."""
    scaled = [camera for camera in schema.cameras if camera.source_size is not None]
    return {
        "data.select.resize": {c.name: [c.height, c.width] for c in scaled},
        "data.select.crop": {c.name: list(c.crop) for c in scaled if c.crop is not None},
    }


def _name_network(config: DictConfig) -> str:
    """Name the file in configs/model that holds the network of the run; "" if none does."""
    names = sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml"))
    return next((name for name in names if _load_network(name, config) == config.model), "")


def _load_network(name: str, config: DictConfig) -> DictConfig:
    """Load a file in configs/model, with the fields that the command line gives."""
    network = load_yaml(CONFIGS / "model" / f"{name}.yaml")
    for key in config.given:
        group, _, field = key.partition(".")
        if group == "model" and field:
            network[field] = config.model[field]
    return network


def _apply(settings: dict[str, Any], config: DictConfig) -> None:
    """Write what a plan decides into the settings; `model` names a file in configs/model."""
    settings = dict(settings)
    if (name := settings.pop("model", None)) is not None:
        OmegaConf.update(config, "model", _load_network(name, config), merge=False)
    for key, value in settings.items():
        OmegaConf.update(config, key, value, merge=False)
    config.plan = MADE
