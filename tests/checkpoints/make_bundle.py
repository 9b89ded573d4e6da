"""Write the frozen bundle of the current format version: run once for each version, then never.

    .venv/bin/python -m tests.checkpoints.make_bundle

Writes tests/checkpoints/bundles/v<version>: a bundle, the observation it was given, and what
it predicted. test_bundles.py expects the same of every later version of this project.
"""

from pathlib import Path

import numpy as np

from act_policy.checkpoints.bundle import FORMAT_VERSION
from act_policy.export.parity import random_observation
from tests.export.export_for_tests import make_policy

BUNDLES = Path(__file__).with_name("bundles")


def main() -> None:
    policy = make_policy(backbone_width=0.25, width=8, feedforward_width=8)
    # Short patterns compress well; what they predict is as sharp a test as any.
    for tensor in policy.act.state_dict().values():
        tensor.copy_(tensor.half().to(tensor.dtype))
    policy.demonstration_seeds = (3, 4)
    folder = BUNDLES / f"v{FORMAT_VERSION}"
    policy.save(folder)
    observation = random_observation(policy, 1, np.random.default_rng(0))
    np.savez_compressed(
        folder / "golden.npz",
        state=observation.state,
        environment_state=observation.environment_state,
        actions=policy.predict_chunk(observation),
        **observation.images,
    )
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
