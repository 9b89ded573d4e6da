"""What only a GPU can show of the network."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from act_policy.checkpoints.bundle import to_checkpoint
from act_policy.model.attention import MultiHeadAttention
from act_policy.model.policy import ACTPolicy
from act_policy.types import Observation
from tests.model.conftest import LONGEST_PATH
from tests.tolerance import network_rounding

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


def test_a_checkpoint_of_the_gpu_loads_without_one(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray], tmp_path: Path
) -> None:
    policy = make_policy(camera_embedding=True)
    expected = policy.predict_chunk(observation)
    policy.cuda()
    np.testing.assert_allclose(policy.predict_chunk(observation), expected, atol=0.05)
    torch.save(to_checkpoint(policy), tmp_path / "gpu.ckpt")
    policy.save(tmp_path / "bundle")
    keys = {f"observation.images.{name}": image for name, image in observation.images.items()}
    np.savez(tmp_path / "in.npz", **keys, **{"observation.state": observation.state})
    code = (
        "import sys, numpy as np, torch; from act_policy import ACTPolicy;"
        "assert not torch.cuda.is_available();"
        "given = dict(np.load(sys.argv[1]));"
        "np.save(sys.argv[3], ACTPolicy.load(sys.argv[2]).predict_chunk(given))"
    )
    for name in ("gpu.ckpt", "bundle"):
        files = [str(tmp_path / part) for part in ("in.npz", name, "out.npy")]
        subprocess.run(
            [sys.executable, "-c", code, *files], check=True, env={"CUDA_VISIBLE_DEVICES": ""}
        )
        # both on a CPU, perhaps with another number of threads
        tolerance = network_rounding(LONGEST_PATH, np.abs(expected).max())
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_masked_attention_on_the_gpu(dtype: torch.dtype) -> None:
    """The GPU's fused kernels keep the rule too: no key, zeros, finite gradients."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(64, 4).cuda()
    x = torch.randn(2, 5, 64, device="cuda", requires_grad=True)
    allowed = torch.rand(2, 5, 5, device="cuda") < 0.5
    allowed[:, 2] = False
    with torch.autocast("cuda", dtype, enabled=dtype == torch.bfloat16):
        fused, _ = attention(x, x, x, allowed)
        by_hand, _ = attention(x, x, x, allowed, need_weights=True)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 2e-3
    torch.testing.assert_close(fused, by_hand, atol=tolerance, rtol=tolerance)
    fused.float().square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
