"""Write the frozen bundle of the current format version: run once for each version, then never.

    PYTHONPATH=tests/export .venv/bin/python tests/export/make_bundle.py

Writes tests/export/bundles/v<version>: a bundle, the observation it was asked with, and what it
predicted. test_bundles.py expects that every later version of this project predicts the same.
"""

from pathlib import Path

import numpy as np
from test_export import make_policy

from act_policy.export.parity import random_observation
from act_policy.model.checkpoint import FORMAT_VERSION

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
