"""A suite: rows of an evaluation, each of which starts from the same initial states."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, check_whole_number, located
from act_policy.evaluation.rollouts.disturbance import UNDISTURBED, Disturbance


@dataclass(frozen=True)
class SuiteRow:
    """One way to try a policy.

    name: as reports show it.
    group: name of the group whose mean it is part of.
    environment: id; None stands for the policy's own.
    max_steps: time limit of an episode; None stands for that of the evaluation.
    disturbance: changes to what the policy sees and measures.
    task: in words, for a policy that knows several.
    """

    name: str
    group: str
    environment: str | None = None
    max_steps: int | None = None
    disturbance: Disturbance = UNDISTURBED
    task: str | None = None

    @classmethod
    def from_config(cls, name: str, values: Any) -> "SuiteRow":
        """Make a row from plain values: group, environment, task, max_steps, disturb."""
        known = ("group", "environment", "task", "max_steps", "disturb")
        with located(f"suite: row {name!r}"):
            if not isinstance(values, Mapping) or "group" not in values:
                raise UserError(f"found {values}; expected a mapping with group:")
            if unknown := sorted(set(values) - set(known)):
                raise UserError(f"unknown {', '.join(unknown)}; known are {', '.join(known)}")
            if (max_steps := values.get("max_steps")) is not None:
                check_whole_number("max_steps", max_steps, 1)
            disturbance = Disturbance.from_config(values.get("disturb") or {})
            return cls(
                name,
                str(values["group"]),
                values.get("environment"),
                max_steps,
                disturbance,
                values.get("task"),
            )


class Suite(NamedTuple):
    """Rows in which a policy is tried.

    control: name of the row that the others are compared with, pair by pair; None compares nothing.
    """

    name: str
    rows: tuple[SuiteRow, ...]
    control: str | None = None

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> "Suite":
        """Make a suite from plain values: name, control, rows: {name: ...}."""
        rows = tuple(SuiteRow.from_config(str(n), row) for n, row in values["rows"].items())
        control = values.get("control")
        if control is not None and control not in [row.name for row in rows]:
            raise UserError(f"suite: control={control!r} names none of its rows")
        return cls(values["name"], rows, control)

    def fit(self, policy: ChunkPolicy) -> tuple["Suite", list[str]]:
        """Fit it to a policy: a row that moves a camera becomes one row per camera.

        Returns:
            the suite, and the names of the rows that are left out because they add noise to a
            state that the policy does not have, or whose standard deviation it does not know.
        """
        schema = policy.schema
        rows: list[SuiteRow] = []
        left_out = []
        for row in self.rows:
            appearance = row.disturbance.appearance
            if row.disturbance.state_noise and not (schema.state_names and policy.statistics):
                left_out.append(row.name)
                continue
            if not appearance.moves_camera or appearance.camera or len(schema.cameras) < 2:
                rows.append(row)
                continue
            for camera in schema.camera_names:
                one = replace(row.disturbance, appearance=replace(appearance, camera=camera))
                rows.append(replace(row, name=f"{row.name}: {camera}", disturbance=one))
        return self._replace(rows=tuple(rows)), left_out

    def to_plain(self) -> dict[str, Any]:
        """Return plain values for JSON; rows without a task are as they were before there were any.

        A suite that an earlier version began goes on.
        """
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            if row["task"] is None:
                del row["task"]
        return {"name": self.name, "control": self.control, "rows": rows}
