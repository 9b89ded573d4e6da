"""What the tests of foreign checkpoints and record.py share: policies and observations."""

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from act_policy.checkpoints.lerobot.weights import to_lerobot
from act_policy.checkpoints.open import open_network
from act_policy.checkpoints.source import Source
from act_policy.export.parity import random_observation
from act_policy.model.act import ACT, ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera, Observation, Schema
from tests.parity.lerobot import cases

RECORD = Path(__file__).with_name("lerobot_0_4_4.json")
SAMPLES = {
    "lerobot_act_0_4_4": Source(),
    "lerobot_act_0_3_3": Source(),
    "act_original": Source(("top", "wrist"), (96, 128), heads=4),
}
NORMALIZERS = (
    "policy_preprocessor_step_3_normalizer_processor.safetensors",
    "policy_postprocessor_step_0_unnormalizer_processor.safetensors",
)


def extract_sample(samples: Path, name: str, folder: Path) -> Path:
    with tarfile.open(samples / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def load_sample(samples: Path, name: str, folder: Path) -> ACTPolicy:
    return open_network(extract_sample(samples, name, folder), SAMPLES[name])


def sample_observation(samples: Path, name: str) -> Observation[Any]:
    golden = load_file(samples / f"{name}.golden.safetensors")
    if name == "act_original":
        images = golden["in/images"].permute(1, 0, 3, 4, 2).contiguous()
        return Observation({"top": images[0], "wrist": images[1]}, golden["in/qpos"])
    names = ("top", "wrist")
    images = {n: golden[f"in/observation.images.{n}"].permute(0, 2, 3, 1) for n in names}
    return Observation(
        {n: i.contiguous() for n, i in images.items()}, golden["in/observation.state"]
    )


def write_case(case: str, recorded: dict[str, Any], folder: Path) -> Path:
    """Write a checkpoint as LeRobot did: its JSON files, and tensors of its names and shapes."""
    folder.mkdir()
    for file in ("config.json", "policy_preprocessor.json", "policy_postprocessor.json"):
        (folder / file).write_text(json.dumps(recorded[file]))
    statistics = {
        f"{key}.{name}": torch.tensor(value)
        for key, field in cases.statistics(case).items()
        for name, value in field.items()
    }
    for file in NORMALIZERS:
        save_file(statistics, folder / file)
    shapes, tables = case_shapes(case)
    assert cases.digest_of_shapes(shapes) == recorded["tensors"]
    weights = {
        name: tables[name] if name in tables else torch.tensor(cases.weight(name, shape))
        for name, shape in shapes.items()
    }
    save_file(weights, folder / "model.safetensors")
    return folder


def case_shapes(case: str) -> tuple[dict[str, tuple[int, ...]], dict[str, torch.Tensor]]:
    """Shapes that such a policy has in LeRobot by our own map, and its constant tables."""
    settings, features = cases.config(case), cases.features(case)
    vae = settings.get("use_vae", True)
    config = ACTConfig(
        cameras=tuple(
            Camera(key, *shape[1:]) for key, (kind, shape) in features.items() if kind == "VISUAL"
        ),
        state_size=cases.STATE,
        action_size=cases.ACTION,
        environment_state_size=cases.ENVIRONMENT_STATE
        if "observation.environment_state" in features
        else 0,
        chunk_length=settings["chunk_size"],
        width=settings["dim_model"],
        heads=settings["n_heads"],
        feedforward_width=settings["dim_feedforward"],
        encoder_layers=settings["n_encoder_layers"],
        decoder_layers=settings["n_decoder_layers"],
        pre_norm=settings.get("pre_norm", False),
        latent_size=settings["latent_dim"] if vae else 0,
        latent_layers=settings["n_vae_encoder_layers"] if vae else 0,
        backbone=settings.get("vision_backbone", "resnet18"),
    )
    with torch.device("meta"):
        ours = ACT(config).state_dict()
    theirs = {f"model.{name}": tensor for name, tensor in to_lerobot(config, ours).items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in theirs.items()}
    if not vae:
        shapes["model.encoder_latent_input_proj.weight"] = (16, settings["latent_dim"])
    return shapes, {name: tensor for name, tensor in theirs.items() if not tensor.is_meta}


def case_observation(case: str) -> Observation[Any]:
    batch = {key: torch.tensor(value) for key, value in cases.batch(case).items()}
    images = {
        key.rpartition(".")[2]: value.permute(0, 2, 3, 1).contiguous()
        for key, value in batch.items()
        if ".image" in key
    }
    return Observation(
        images, batch["observation.state"], batch.get("observation.environment_state")
    )


def random_batch(policy: ACTPolicy) -> Observation[np.ndarray]:
    return random_observation(policy, 2, np.random.default_rng(0))


def ours_with_batch_norm() -> ACTPolicy:
    """A policy of ours, with the norm and the floor of small deviations that LeRobot lacks."""
    schema = Schema(
        (Camera("front", 32, 48),), ("x", "y"), ("deg", "m"), ("dx",), ("deg",), rate=10.0
    )
    config = ACTConfig.for_schema(
        schema,
        chunk_length=4,
        width=16,
        heads=2,
        feedforward_width=24,
        encoder_layers=1,
        latent_size=0,
        latent_layers=0,
        backbone_norm="batch",
    )
    state = FieldStatistics(
        *(np.array(row) for row in ([30, 2.0], [5, 1e-5], [10, 2.0], [50, 2.1]))
    )
    action = FieldStatistics(*(np.array([value]) for value in (-90.0, 12.0, -120.0, -60.0)))
    policy = ACTPolicy(config, schema, Statistics(state, action, step_count=10))
    for name, tensor in policy.act.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.tensor(cases.weight(name, tuple(tensor.shape))))
    return policy.eval()


def folder_digest(folder: Path) -> str:
    files = [path for path in folder.iterdir() if path.suffix == ".safetensors"]
    tensors = {p.name: {n: t.numpy() for n, t in load_file(p).items()} for p in files}
    return cases.digest_of_folder(folder, tensors)
