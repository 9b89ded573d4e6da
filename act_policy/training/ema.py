"""The exponential moving average of the weights: steadier than the weights themselves."""

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class AveragedModel(nn.Module, Generic[ModuleT]):
    """A second copy of a module whose weights follow the first one's.

    average <- decay * average + (1 - decay) * weights, with decay rising from 0.1 as
    (1 + step) / (10 + step) until it reaches its full value, so that the random weights of the
    first steps are soon forgotten. Running statistics of norms are averaged like weights; counters
    are copied. Source: Tarvainen and Valpola 2017; the rising decay is TensorFlow's
    ExponentialMovingAverage.
    """

    def __init__(self, module: ModuleT, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.module: ModuleT = copy.deepcopy(module).requires_grad_(False)

    @torch.no_grad()
    def update(self, module: ModuleT, step: int) -> None:
        """Take in the weights after `step` steps (the first update has step 1)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        mine: list[torch.Tensor] = []
        theirs: list[torch.Tensor] = []
        current = module.state_dict()
        for name, average in self.module.state_dict().items():
            if average.is_floating_point():
                mine.append(average)
                theirs.append(current[name])
            else:
                average.copy_(current[name])
        torch._foreach_lerp_(mine, theirs, 1 - decay)
