"""How a policy's chunks are executed unless somebody asks for something else."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from act_policy.errors import UserError, check_fields, check_whole_number


@dataclass(frozen=True)
class Execution:
    """How chunks are executed. A policy carries the one that suits it, its default.

    execute_steps: of each chunk before the policy is asked again; None leaves it to the executor.
    ensemble_coefficient: m of temporal ensembling, which asks at every step; None does not
        ensemble.
    reason: why, in words; "" where nobody chose.

    Raises:
        UserError: the numbers are impossible, or exclude each other.
    """

    execute_steps: int | None = None
    ensemble_coefficient: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.execute_steps is not None:
            check_whole_number("execute_steps", self.execute_steps, 1)
        m = self.ensemble_coefficient
        if m is not None and self.execute_steps not in (None, 1):
            raise UserError(
                f"execute_steps: found {self.execute_steps}, but ensembling "
                f"(ensemble_coefficient={m}) predicts at every step; leave one of the two out"
            )

    def unless(self, execute_steps: int | None, ensemble_coefficient: float | None) -> "Execution":
        """Return what is asked for explicitly, else this one; the two are never mixed."""
        if execute_steps is None and ensemble_coefficient is None:
            return self
        return Execution(execute_steps, ensemble_coefficient)

    def __str__(self) -> str:
        if self.ensemble_coefficient is not None:
            return f"ensemble_coefficient={self.ensemble_coefficient:g}"
        if self.execute_steps is None:
            return "whole chunks"
        return f"execute_steps={self.execute_steps}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Any) -> "Execution":
        """Rebuild from `to_dict`; None, of files from before there was one, chose nothing."""
        if plain is None:
            return cls()
        if not isinstance(plain, Mapping):
            raise UserError(f"execution: found {plain!r}, expected a table")
        check_fields("execution", plain, cls)
        if (steps := plain.get("execute_steps")) is not None:
            check_whole_number("execute_steps", steps, 1)
        m = plain.get("ensemble_coefficient")
        if m is not None and (not isinstance(m, int | float) or isinstance(m, bool)):
            raise UserError(f"ensemble_coefficient={m}: expected a number")
        return cls(steps, m, str(plain.get("reason", "")))
