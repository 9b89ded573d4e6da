"""`policy.pt2`: the policy as a program of torch.export, which runs without this project's code.

    program = torch.export.load("policy.pt2").module()
    chunk = program(image, ..., state)   # uint8 (b, h, w, 3) in the schema's order; float32 (b, s)

A policy that knows several tasks takes behind the state an index in the schema's `tasks`, int64
(b,). One that knows about committed actions takes them last, float32 (b, p, a), all NaN for a plain
chunk. The file also holds `act_policy.json`: schema, chunk_length, prefix_length,
demonstration_seeds, execution.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from act_policy.control.policies.onnx_policy import batched_inputs, input_names
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.export.folding import FoldedPolicy, trace_inputs
from act_policy.export.onnx import silence
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import Statistics
from act_policy.types import Observation, Schema

DESCRIPTION = "act_policy.json"


def export_pt2(policy: ACTPolicy, path: Path) -> None:
    """Write the file; the batch size stays free."""
    example, shapes = trace_inputs(policy)
    with silence(), torch.no_grad():
        program = torch.export.export(FoldedPolicy(policy).eval(), example, dynamic_shapes=shapes)
        description = {
            "schema": policy.schema.to_dict(),
            "chunk_length": policy.chunk_length,
            "prefix_length": policy.prefix_length,
            "demonstration_seeds": list(policy.demonstration_seeds),
            "execution": policy.execution.to_dict(),
        }
        torch.export.save(program, path, extra_files={DESCRIPTION: json.dumps(description)})


class Pt2Policy:
    """Run `policy.pt2` on the CPU, with the observation checked as everywhere.

    torch says of its archives: load only files that you trust.

    Raises:
        UserError: the file cannot be read, or is not one that this project exported.
    """

    def __init__(self, path: str | Path) -> None:
        found = {DESCRIPTION: ""}
        try:
            self._program = torch.export.load(path, extra_files=found).module()
            described = json.loads(found[DESCRIPTION])
        except Exception as error:  # an archive may be broken in any way
            raise UserError(f"{path} cannot be read as an exported policy.pt2: {error}") from None
        self.schema = Schema.from_dict(described["schema"])
        self.chunk_length = int(described["chunk_length"])
        self.prefix_length = int(described.get("prefix_length", 0))
        self.statistics: Statistics | None = None  # the file has none
        self.demonstration_seeds: tuple[int, ...] = tuple(described["demonstration_seeds"])
        self.execution = Execution.from_dict(described.get("execution"))

    def predict_chunk(self, observation: Observation[np.ndarray] | Mapping[str, Any]) -> np.ndarray:
        """Predict (k, a), or (b, k, a) for a batch, in physical units."""
        inputs, single = batched_inputs(self.schema, observation, self.prefix_length)
        if self.prefix_length and len(inputs) == len(input_names(self.schema)):
            free = (len(inputs[0]), self.prefix_length, self.schema.action_size)
            inputs.append(np.full(free, np.nan, np.float32))
        with torch.inference_mode():
            # Copied: a robot's arrays may be read-only.
            actions: np.ndarray = self._program(*(torch.tensor(x) for x in inputs)).numpy()
        return actions[0] if single else actions
