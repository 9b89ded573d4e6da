"""Serve an exported policy from the robot's own environment, without torch and Hydra."""

import argparse
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from act_policy.control.commands.deployment import asking_for_packages
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.system.home import in_home


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options; `act-policy serve` has more of them."""
    parser.add_argument("--policy", required=True, type=in_home, help="FILE.onnx")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 is all")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--names", nargs="*", default=[], help="further names of this machine")
    parser.add_argument("--certificate", type=in_home, help="TLS: PEM file of the certificate, and")
    parser.add_argument("--private-key", type=in_home, help="of its key")
    parser.add_argument(
        "--api-key-file", type=in_home, help="file with the key that clients must send"
    )
    parser.add_argument("--threads", type=int, help="of the CPU; by default onnxruntime decides")


def serve_command(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Serve until a signal ends it; return 0.

    Raises:
        UserError: the policy cannot be opened or the address not listened on.
    """
    with asking_for_packages():
        from act_policy.control.serving.access import ServerConfig, read_key
        from act_policy.control.serving.batching import warm_up
        from act_policy.control.serving.serve import serve_until_stopped
        from act_policy.control.serving.server import PolicyServer

    logging.basicConfig(format="%(levelname)s %(message)s")
    config = ServerConfig(
        host=options.host,
        port=options.port,
        names=tuple(options.names),
        certificate=options.certificate,
        private_key=options.private_key,
        api_key=read_key(options.api_key_file),
    )
    config.ssl_context()  # before a policy is loaded for nothing
    path = Path(options.policy)
    policy = OnnxPolicy(path, threads=options.threads)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    identity = {"name": path.resolve().name, "file": path.name, "sha256": sha256}
    server = PolicyServer(policy, identity, config=config)
    warm_up(policy)
    serve_until_stopped(server, f"{path} (sha256 {sha256:.12})", say)
    return 0
