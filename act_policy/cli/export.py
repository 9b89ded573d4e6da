"""Export a policy for a robot, with the proof that every format predicts what the policy predicts.

    act-policy export checkpoint=RUN out=FOLDER
    act-policy export checkpoint=RUN format=[onnx,lerobot] out=FOLDER
    act-policy export checkpoint=RUN format=onnx precision=[fp32,int8] out=FOLDER

checkpoint is a run folder, a checkpoint file, a bundle, a LeRobot checkpoint or a folder of the
original ACT. Writes

    bundle           config.json, schema.json, model.safetensors
    onnx             policy.onnx, policy_fp16.onnx, policy_int8.onnx
    pt2              policy.pt2, a program of torch.export
    lerobot          lerobot/, a checkpoint for LeRobot 0.4 and later
    policy_package   policy_package/, for the runtime physicalai 0.3

and parity.json with each format's largest error and latency; nothing if one of them differs. A
folder of the original ACT needs source.cameras=[top,wrist] source.image_size=[480,640] too.
"""

from pathlib import Path
from typing import Any

from act_policy.cli.entry import run_config


def main(config: Any) -> None:
    """Load, export, verify, and print the errors of each format."""
    from act_policy.checkpoints.locate import find_run
    from act_policy.checkpoints.open import open_network
    from act_policy.checkpoints.source import Source
    from act_policy.data.selection.demonstrations import RunReading
    from act_policy.export.export import ExportConfig, export_policy

    trained_with = run_config(find_run(Path(config.checkpoint)))
    settings = ExportConfig(
        names(config.format),
        names(config.precision),
        config.max_error,
        config.observations,
        RunReading.from_config(trained_with) if trained_with else None,
        config.opset,
    )
    policy = open_network(config.checkpoint, Source.from_config(config.source))
    out = Path(config.out)
    print(f"exporting {config.checkpoint} as {', '.join(settings.formats)}")
    report = export_policy(policy, out, settings)
    print(f"{'':<16}{'largest error':>16}{'mean':>10}{'latency, ms':>14}")
    print(f"{'eager':<16}{'':>26}{report['eager_latency_ms']:>14.1f}")
    for name, parity in report["formats"].items():
        error = f"{parity['largest_error_in_std']:.1e} std"
        mean = f"{parity['mean_error_in_std']:.1e}"
        print(f"{name:<16}{error:>16}{mean:>10}{parity['latency_ms']:>14.1f}")
    print(f"wrote {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


def names(value: Any) -> list[str]:
    """One name or a list of them."""
    return [value] if isinstance(value, str) else [str(name) for name in value or []]
