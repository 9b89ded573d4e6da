"""What is unusual about the demonstrations, before a run begins."""

import sys

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.evidence import InspectionConfig
from act_policy.data.inspection.finding import Verdict
from act_policy.data.inspection.inspect import inspect_before_training
from act_policy.data.inspection.sentences import advice, sentence
from act_policy.data.inspection.tables import unused_lines
from act_policy.errors import UserError


def check_demonstrations(dataset: DemonstrationDataset, config: InspectionConfig) -> None:
    """Print warnings about the demonstrations; raise UserError if they cannot be trained on."""
    for line in unused_lines(dataset):
        print(line)
    errors = []
    names = [episode.name for episode in dataset.episodes]
    for finding in inspect_before_training(dataset, config):
        text = f"{sentence(finding, names)}. {advice(finding)}"
        if finding.verdict is Verdict.ERROR:
            errors.append(text)
        elif finding.verdict is Verdict.WARNING:
            print(f"warning: {text}", file=sys.stderr)
    if errors:
        raise UserError("\n".join(errors))
