"""The exponential moving average of the weights, which is steadier than the weights themselves."""

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import PARAM_LIST, AveragedModel


def average_weights(module: nn.Module, decay: float) -> AveragedModel:
    """Make a copy of a module whose weights follow the module's at each `update_parameters`.

    average <- decay * average + (1 - decay) * weights, with decay rising from 2/11 as
    (1 + step) / (10 + step) until it reaches its full value, so that the random weights of the
    first steps are soon forgotten. Running statistics of norms are averaged like weights; counters
    are copied. Source: Tarvainen and Valpola 2017; the rising decay is TensorFlow's
    ExponentialMovingAverage.
    """

    def update(average: PARAM_LIST, current: PARAM_LIST, count: Tensor | int) -> None:
        step = int(count)
        now = min(decay, (1 + step) / (10 + step))
        if average[0].is_floating_point():
            torch._foreach_lerp_(average, current, 1 - now)
        else:
            torch._foreach_copy_(average, current)

    averaged = AveragedModel(module, multi_avg_fn=update, use_buffers=True).requires_grad_(False)
    averaged.n_averaged.fill_(1)  # the random weights count, or torch would copy the first step's
    return averaged
