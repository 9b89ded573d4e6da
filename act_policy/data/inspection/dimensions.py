"""Statistics of each dimension of state and action."""

from typing import NamedTuple

import numpy as np

from act_policy.data.dataset import DemonstrationDataset


class DimensionReport(NamedTuple):
    """One dimension of state or action over the finite values of all episodes."""

    field: str
    name: str
    unit: str
    mean: float
    std: float
    min: float
    max: float
    remark: str


def report_dimensions(
    dataset: DemonstrationDataset, std_floor: float = 1e-2
) -> list[DimensionReport]:
    """Statistics of each dimension; the remark says what is unusual: constant, not finite, ..."""
    schema, reports = dataset.schema, []
    episodes = range(len(dataset.episodes))
    for kind, arrays, names, units in (
        ("state", map(dataset.state, episodes), schema.state_names, schema.state_units),
        ("action", map(dataset.action, episodes), schema.action_names, schema.action_units),
    ):
        values = np.concatenate(list(arrays)).astype(np.float64)
        for dimension, (name, unit) in enumerate(zip(names, units, strict=True)):
            column = values[:, dimension]
            finite = column[np.isfinite(column)]
            low, high = (finite.min(), finite.max()) if len(finite) else (np.nan, np.nan)
            std = finite.std() if len(finite) else np.nan
            remarks = []
            if len(finite) < len(column):
                remarks.append(f"{len(column) - len(finite)} values are not finite")
            if low == high:
                remarks.append("constant")
            elif std < std_floor:
                remarks.append(f"nearly constant: std below the floor {std_floor:g}")
            mean = finite.mean() if len(finite) else np.nan
            reports.append(
                DimensionReport(kind, name, unit, mean, std, low, high, "; ".join(remarks))
            )
    return reports
