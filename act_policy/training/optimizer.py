"""AdamW with its parameter groups, and the learning rate as a function of progress."""

import math
from dataclasses import dataclass

import torch
from torch import nn

from act_policy.errors import UserError, check_choice


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimiser's settings.

    learning_rate, backbone_learning_rate: peaks, reached after the warm-up.
    weight_decay: of matrices and kernels; norms, biases and embeddings are not decayed.
    warmup_steps: steps over which the learning rate rises linearly from 0.
    schedule: "cosine" falls to final_fraction of the peak at the end of training, "constant" stays.
    gradient_clip: the largest gradient norm; 0 does not clip.
    ema_decay: share of the averaged weights that is kept at each step; 0 averages nothing.
    """

    learning_rate: float = 3e-4
    backbone_learning_rate: float = 3e-4
    weight_decay: float = 1e-4
    warmup_steps: int = 200
    schedule: str = "cosine"
    final_fraction: float = 0.0
    gradient_clip: float = 10.0
    ema_decay: float = 0.995

    def __post_init__(self) -> None:
        check_choice("optim.schedule", self.schedule, ("cosine", "constant"))
        for name, holds, expected in (
            ("learning_rate", self.learning_rate > 0, "positive"),
            ("backbone_learning_rate", self.backbone_learning_rate > 0, "positive"),
            ("weight_decay", self.weight_decay >= 0, "0 or more"),
            ("warmup_steps", self.warmup_steps >= 0, "0 or more"),
            ("gradient_clip", self.gradient_clip >= 0, "0 or more"),
            ("final_fraction", 0 <= self.final_fraction <= 1, "from 0 to 1"),
            ("ema_decay", 0 <= self.ema_decay < 1, "from 0 to below 1"),
        ):
            if not holds:
                raise UserError(f"optim.{name}: must be {expected}, found {getattr(self, name)}")

    def factor(self, step: int, progress: float) -> float:
        """Compute the learning rate of this step as a share of its peak.

        Args:
            step: steps done before this one; the warm-up counts in steps.
            progress: share of the whole training that is done, 0 to 1. The cosine follows it, so
                that it also ends where a limit in minutes ends training.
        """
        warmup = min(1.0, (step + 1) / (self.warmup_steps + 1))
        if self.schedule == "constant":
            return warmup
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return warmup * (self.final_fraction + (1 - self.final_fraction) * cosine)


def parameter_groups(model: nn.Module, config: OptimizerConfig) -> list[dict[str, object]]:
    """Sort the trainable parameters into up to four groups: (backbone or not) x (decayed or not).

    The backbone is every module below one named `backbone`. The `peak` of a group is its learning
    rate before the schedule. Vectors (biases, norms) are not decayed, and neither are parameters
    that are looked up instead of multiplied, such as learned queries.
    """
    # a parameter outside every torch layer (queries, positions, camera embeddings) is looked up
    layers = {
        id(parameter)
        for module in model.modules()
        if type(module).__module__.startswith("torch.nn.")
        for parameter in module.parameters(recurse=False)
    }
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        decayed = parameter.ndim > 1 and id(parameter) in layers
        groups.setdefault(("backbone" in name.split("."), decayed), []).append(parameter)
    return [
        {
            "params": parameters,
            "peak": config.backbone_learning_rate if backbone else config.learning_rate,
            "weight_decay": config.weight_decay if decayed else 0.0,
        }
        for (backbone, decayed), parameters in groups.items()
    ]


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """Make AdamW over `parameter_groups`; one fused kernel per step takes half the time."""
    return torch.optim.AdamW(parameter_groups(model, config), lr=config.learning_rate, fused=True)
