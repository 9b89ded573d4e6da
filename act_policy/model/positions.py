"""Position vectors: attention alone cannot see order, so each token is told where it comes from."""

import math

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor

TEMPERATURE = 10000.0


def interleaved_sine(positions: Float[Tensor, "*n"], width: int) -> Float[Tensor, "*n {width}"]:
    """Turn each number p into sin and cos of p / 10000^(2i / width), i = 0 .. width/2 - 1.

    Sines stand at even indices, cosines at odd ones. width is even.
    """
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = positions[..., None].double() / TEMPERATURE**exponents
    return rearrange(torch.stack([angles.sin(), angles.cos()], dim=-1), "... i two -> ... (i two)")


def sine_positions(length: int, width: int) -> Float[Tensor, "{length} {width}"]:
    """Make the sinusoidal table of positions 0 .. length - 1 (Vaswani et al. 2017, section 3.5)."""
    return interleaved_sine(torch.arange(length, dtype=torch.float64), width).float()


def sine_positions_2d(
    height: int, width: int, model_width: int
) -> Float[Tensor, "{height}*{width} {model_width}"]:
    """Make one vector for each cell of a feature map, row by row: first half y, second half x.

    Rows and columns count from 1 and are scaled to (0, 2 pi]: size / (size + 1e-6) * 2 pi at the
    far edge. model_width is a multiple of 4.

    Source: DETR, models/position_encoding.py (normalize=True), which ACT and LeRobot use.
    """
    halves = [
        interleaved_sine(
            torch.arange(1, size + 1, dtype=torch.float64) / (size + 1e-6) * 2 * math.pi,
            model_width // 2,
        )
        for size in (height, width)
    ]
    y = repeat(halves[0], "h d -> (h w) d", w=width)
    x = repeat(halves[1], "w d -> (h w) d", h=height)
    return torch.cat([y, x], dim=-1).float()
