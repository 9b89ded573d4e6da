"""Reads the attention of action queries over everything that is a token of their memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from act_policy.evaluation.sections.heat_map import AttentionShares
from act_policy.model.act import ACT
from act_policy.model.policy import ACTPolicy
from act_policy.types import Observation, stack_observations


def read_attention(
    policy: ACTPolicy, observations: list[Observation[np.ndarray]]
) -> list[AttentionShares]:
    """Let the policy predict, and return what the last decoder block's queries read.

    Args:
        policy: on any device; left as it was.
        observations: single ones, raw.
    """
    with recorded_weights(policy.act) as weights:
        policy.predict_chunk(stack_observations(observations))
    return [_reading(policy.act, one.numpy()) for one in weights[-1].float().cpu()]


@contextmanager
def recorded_weights(act: ACT) -> Iterator[list[Float[Tensor, "b heads k t"]]]:
    """Within the context, a forward pass fills the list with each decoder block's weights.

    The blocks' cross-attention is asked for its weights by hooks, which go when the context ends;
    the module keeps nothing.
    """
    weights: list[Tensor] = []

    def ask(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"need_weights": True}

    def take(module: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> None:
        weights.append(output[1].detach())

    hooks = []
    try:
        for block in act.decoder:
            attention: nn.Module = block.cross_attention  # type: ignore[assignment]
            hooks.append(attention.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(attention.register_forward_hook(take))
        yield weights
    finally:
        for hook in hooks:
            hook.remove()


def _reading(act: ACT, weights: np.ndarray) -> AttentionShares:
    """Name the memory tokens (heads, k, t) in the order in which `ACT.encode` lines them up.

    Those of committed actions follow, where there are any.
    """
    vectors = ["latent"]
    if act.config.state_size:
        vectors.append("state")
    if act.config.environment_state_size:
        vectors.append("environment state")
    if act.config.task_count:
        vectors.append("task")
    ends = np.cumsum([1] * len(vectors) + [y * x for y, x in act.map_sizes.values()])
    committed = weights.shape[-1] - ends[-1]
    if committed not in (0, act.config.prefix_tokens):
        raise RuntimeError(f"{weights.shape[-1]} memory tokens, of which {ends[-1]} are known")
    parts = iter(np.split(weights, ends, axis=-1))
    shares = {name: next(parts)[..., 0] for name in vectors}
    maps = {
        camera: next(parts).reshape(*weights.shape[:-1], *size)
        for camera, size in act.map_sizes.items()
    }
    if committed:
        shares["committed actions"] = next(parts).sum(axis=-1)
    return AttentionShares(shares, maps)
