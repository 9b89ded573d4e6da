"""LeRobot's side of record.py, run with the Python that has LeRobot; no act_policy in it.

The request is JSON in the first argument, the answer JSON on the last line of the output:
{"make": [case, ...], "folder": F} writes F/<case> as LeRobot saves a policy, and answers what it
predicts; {"load": [name, ...], "folder": F} loads F/<name>, and answers what it predicts from
F/<name>.observation.safetensors.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.parity.lerobot import cases


def main(request: dict[str, Any]) -> dict[str, Any]:
    import lerobot

    torch.set_num_threads(1)
    folder = Path(request["folder"])
    answer: dict[str, Any] = {"lerobot": lerobot.__version__}
    for name in request.get("make", []):
        answer[name] = make(name, folder / name)
    for name in request.get("load", []):
        answer[name] = load(folder / name, load_file(folder / f"{name}.observation.safetensors"))
    return answer


def make(name: str, folder: Path) -> dict[str, Any]:
    from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.act.processor_act import make_act_pre_post_processors

    settings = cases.config(name)
    mapping = settings.pop("normalization_mapping")
    found = {
        key: PolicyFeature(FeatureType(kind), tuple(shape))
        for key, (kind, shape) in cases.features(name).items()
    }
    action = {"action": found.pop("action")}
    config = ACTConfig(
        input_features=found,
        output_features=action,
        normalization_mapping={k: NormalizationMode(v) for k, v in mapping.items()},
        push_to_hub=False,
        **settings,
    )
    policy = ACTPolicy(config)
    state = policy.state_dict()
    for key, tensor in state.items():
        if not key.endswith("vae_encoder_pos_enc"):
            tensor.copy_(torch.tensor(cases.weight(key, tuple(tensor.shape))))
    statistics = {
        key: {statistic: torch.tensor(value) for statistic, value in field.items()}
        for key, field in cases.statistics(name).items()
    }
    before, after = make_act_pre_post_processors(config, statistics)
    for part in (policy, before, after):
        part.save_pretrained(folder)
    raw = {key: torch.tensor(value) for key, value in cases.batch(name).items()}
    answer = {
        "config.json": json.loads((folder / "config.json").read_text()),
        "policy_preprocessor.json": json.loads((folder / "policy_preprocessor.json").read_text()),
        "policy_postprocessor.json": json.loads((folder / "policy_postprocessor.json").read_text()),
        "tensors": cases.digest_of_shapes({k: tuple(t.shape) for k, t in state.items()}),
        "actions": predict(policy, before, after, raw),
    }
    # The latent at its mean: nothing is drawn.
    torch.randn_like = torch.zeros_like
    policy.train()
    with torch.no_grad():
        _, losses = policy.forward(before(as_floats(raw)))
    return {**answer, **losses}


def load(folder: Path, raw: dict[str, torch.Tensor]) -> dict[str, Any]:
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors

    policy = ACTPolicy.from_pretrained(folder, strict=True)
    before, after = make_pre_post_processors(policy.config, pretrained_path=str(folder))
    return {"actions": predict(policy, before, after, raw)}


def predict(policy: Any, before: Any, after: Any, raw: dict[str, torch.Tensor]) -> list[Any]:
    """Actions (b, k, a) in physical units, as LeRobot's robots get them."""
    observation = {k: v for k, v in as_floats(raw).items() if k.startswith("observation.")}
    chunk = after(policy.predict_action_chunk(before(observation)))
    return [[[float(f"{x:.8g}") for x in row] for row in rows] for rows in chunk.tolist()]


def as_floats(raw: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Images as LeRobot takes them: float in [0, 1]."""
    return {k: v.float() / 255 if v.dtype == torch.uint8 else v for k, v in raw.items()}


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(json.dumps(main(json.loads(sys.argv[1]))))
