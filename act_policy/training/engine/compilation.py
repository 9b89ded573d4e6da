"""torch.compile of the network where it works here, and the reason where it does not."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from act_policy.model.policy import ACTPolicy


def compile_network(
    policy: ACTPolicy, predict: Callable[[], Tensor], autocast: AbstractContextManager[Any]
) -> str:
    """Compile a policy's network in place; predict, with the gradient, to see that it works.

    Names of weights stay, so checkpoints of compiled and other runs are the same. What predicting
    changes (running statistics, gradients) is put back.

    Args:
        policy: with its network on the device on which it will be trained.
        predict: computes a batch of the largest size with the policy as a training step does.
        autocast: the precision of training.

    Returns:
        A sentence that says that the network is compiled, or why it is not.
    """
    before = [buffer.clone() for buffer in policy.buffers()]
    started = time.monotonic()
    policy.act.compile()
    try:
        with autocast:
            predict().float().abs().mean().backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # of a compiler that is missing or fails: there are many
        policy.act._compiled_call_impl = None
        reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
        return f"the network cannot be compiled here and is trained as it is: {reason}"
    finally:
        policy.zero_grad(set_to_none=True)
        with torch.no_grad():
            for buffer, value in zip(policy.buffers(), before, strict=True):
                buffer.copy_(value)
    return f"the network is compiled ({time.monotonic() - started:.0f} s)"
