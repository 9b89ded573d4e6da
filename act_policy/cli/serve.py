"""Serve a policy to robots and simulations over websockets, in openpi's protocol.

    act-policy serve checkpoint=runs/mine
    act-policy serve checkpoint=exports/mine/policy.onnx port=8000

checkpoint is a run folder, a checkpoint file, a bundle, a policy.onnx (which needs no torch) or
other software's checkpoint. Clients are `act_policy.RemotePolicy` and the public openpi-client. A
browser shows the status page at http://HOST:PORT/. Stops on Ctrl-C and SIGTERM.
"""

import logging
from functools import partial
from pathlib import Path
from typing import Any

from act_policy.cli.entry import make_settings, plain
from act_policy.errors import UserError


def main(config: Any) -> None:
    """Load the policy, say where it is served, serve until told to stop."""
    from act_policy.checkpoints.locate import identity
    from act_policy.control.policies.observation_keys import ObservationKeys
    from act_policy.control.serving.access import ServerConfig, read_key
    from act_policy.control.serving.batching import warm_up
    from act_policy.control.serving.serve import serve_until_stopped
    from act_policy.control.serving.server import PolicyServer

    logging.basicConfig(format="%(levelname)s %(message)s")
    if isinstance(config.names, str):
        raise UserError(f"names={config.names}: expected a list, names=[{config.names}]")
    settings = make_settings(
        ServerConfig,
        config,
        names=tuple(config.names),
        api_key=read_key(config.api_key_file),
        largest_message=int(config.largest_message_mb * 1e6),
    )
    settings.ssl_context()  # before a policy is loaded for nothing
    path = Path(config.checkpoint)
    weights = identity(path)
    policy = load(path, config)
    if identity(path) != weights:
        raise UserError(
            f"checkpoint={path}: {weights['file']} was replaced while it was loaded; start "
            "again, or serve a bundle of it (act-policy export)"
        )
    server = PolicyServer(
        policy,
        {"name": path.resolve().name, "file": weights["file"], "sha256": weights["sha256"]},
        ObservationKeys.from_dict(plain(config.observation_keys)),
        settings,
    )
    warm_up(policy)
    serve_until_stopped(
        server, f"{path} (sha256 {weights['sha256']:.12})", partial(print, flush=True)
    )


def load(path: Path, config: Any) -> Any:
    """Load the policy on its device; an ONNX file runs on the CPU and needs no torch."""
    from act_policy.checkpoints.open import open_policy
    from act_policy.checkpoints.source import Source
    from act_policy.control.policies.onnx_policy import OnnxPolicy

    policy: Any = open_policy(path, Source.from_config(config.source), config.threads)
    device = config.device
    if isinstance(policy, OnnxPolicy):
        if device not in ("auto", "cpu"):
            raise UserError(f"device={device}: an ONNX file runs on the cpu here")
        return policy
    import torch

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return policy.to(device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device={device}: {error}") from None
