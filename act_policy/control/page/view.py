"""What pages show of an observation and a chunk."""

import numpy as np

from act_policy.control.page.board import thin
from act_policy.report.chart import Chart, draw_lines
from act_policy.report.pieces import Image, encode_image
from act_policy.types import Schema

CHART_SIZE = (560, 280)


def show_camera(pixels: np.ndarray, name: str, size: tuple[int, int]) -> tuple[Image, str]:
    """Encode an image (h, w, 3), thinned where it is wide, enlarged where small; caption it.

    Args:
        pixels: uint8.
        name: of the camera.
        size: height and width of the image as it was taken.
    """
    small = thin(pixels)
    scale = min(3.0, max(1.0, 240 / small.shape[1]))
    shown = encode_image(small, f"what camera {name} saw last", scale)
    return shown, f"{name}, {size[0]} x {size[1]}"


def draw_chunk(chunk: np.ndarray, schema: Schema) -> list[Chart]:
    """Draw the actions (k, a), one chart per unit."""
    seconds = np.arange(len(chunk)) / schema.rate
    return [
        draw_lines(
            {
                name: (seconds, chunk[:, column])
                for column, (name, of) in enumerate(schema.actions)
                if of == unit
            },
            "seconds from the observation",
            unit,
            f"Actions in {unit}" if unit else "Actions without a unit",
            CHART_SIZE,
        )
        for unit in dict.fromkeys(schema.action_units)
    ]
