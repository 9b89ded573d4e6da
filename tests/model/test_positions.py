"""Position tables against the formulas, written out cell by cell."""

import math

import torch

from act_policy.model.positions import sine_positions, sine_positions_2d
from tests.tolerance import rounding


def test_one_dimensional_table() -> None:
    table = sine_positions(7, 6)
    for position in range(7):
        for j in range(6):
            angle = position / 10000 ** (2 * (j // 2) / 6)
            expected = math.sin(angle) if j % 2 == 0 else math.cos(angle)
            # four roundings of the angle; a sine moves no more than its angle
            assert abs(table[position, j].item() - expected) <= rounding(4, max(angle, 1.0))


def test_two_dimensional_table() -> None:
    height, width, d = 3, 5, 8
    table = sine_positions_2d(height, width, d).reshape(height, width, d)
    for row in range(height):
        for column in range(width):
            for half, cell, size in ((0, row, height), (1, column, width)):
                place = (cell + 1) / (size + 1e-6) * 2 * math.pi
                for j in range(d // 2):
                    angle = place / 10000 ** (2 * (j // 2) / (d // 2))
                    expected = math.sin(angle) if j % 2 == 0 else math.cos(angle)
                    found = table[row, column, half * d // 2 + j].item()
                    assert abs(found - expected) <= rounding(4, max(angle, 1.0))


def test_every_cell_has_its_own_place() -> None:
    table = sine_positions_2d(15, 20, 64)
    distances = torch.cdist(table, table) + 10 * torch.eye(300)
    assert distances.min() > 0.1
