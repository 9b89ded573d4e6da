"""An inspection for a terminal: tables, and findings in lines."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from act_policy.data.dataset import DemonstrationDataset, name_left_out
from act_policy.data.inspection.evidence import ActionReport, DimensionReport
from act_policy.data.inspection.finding import Verdict
from act_policy.data.inspection.inspect import Inspection
from act_policy.data.inspection.sentences import advice
from act_policy.errors import list_some
from act_policy.report.pieces import tabulate

STYLES = {Verdict.ERROR: "red", Verdict.WARNING: "yellow", Verdict.NOTE: "cyan"}


CAMERA_COLUMNS = ("camera", "height", "width")


def summary_tables(inspection: Inspection) -> Iterator[Table]:
    """Tables of the dataset as a whole, of cameras, dimensions and what the actions are."""
    if inspection.dataset is None:
        return
    yield _table("Demonstrations", ("", ""), overview(inspection.dataset), show_header=False)
    yield _table("Cameras", CAMERA_COLUMNS, list_cameras(inspection.dataset))
    yield _table("Dimensions", DimensionReport._fields, inspection.dimensions)
    yield _table("Actions", ActionReport._fields, inspection.actions)


def finding_lines(inspection: Inspection) -> Iterator[Text]:
    """Two lines per finding, however long, so that paths in them can be copied and searched for."""
    for finding in inspection.findings:
        head = f"{finding.verdict}: {finding.kind}: "
        yield Text.assemble((head, STYLES[finding.verdict]), inspection.sentence(finding))
        yield Text(f"    {advice(finding)}")


def overview(dataset: DemonstrationDataset) -> list[tuple[str, str]]:
    """Describe a dataset by names and values."""
    schema, lengths = dataset.schema, dataset.lengths
    seeds = [e.seed for e in dataset.episodes if e.seed is not None]
    told = (text for e in range(len(dataset.episodes)) for text in dataset.instructions(e))
    instructions = list(dict.fromkeys(text for text in told if text))
    known = [e.outcome for e in dataset.episodes if e.outcome is not None]
    return [
        ("episodes", f"{len(dataset.episodes)}"),
        ("steps", f"{lengths.sum()}, {lengths.sum() / schema.rate:.1f} s"),
        (
            "length",
            f"shortest {lengths.min()}, median {np.median(lengths):g}, longest {lengths.max()}",
        ),
        ("rate", f"{schema.rate:g} steps per second"),
        ("environment", schema.environment or "not known"),
        *([("teacher", schema.teacher)] if schema.teacher else []),
        ("instructions", list_some(instructions) or "not known"),
        ("seeds", f"{min(seeds)} to {max(seeds)}, {len(set(seeds))} in all" if seeds else "none"),
        ("outcomes", f"{sum(known)} of {len(known)} succeeded" if known else "not known"),
        *unused_contents(dataset),
    ]


def unused_lines(dataset: DemonstrationDataset) -> list[str]:
    """Name what the files hold and a policy does not get to see, in lines for a terminal."""
    return [f"{what}: {contents}" for what, contents in unused_contents(dataset)]


def unused_contents(dataset: DemonstrationDataset) -> list[tuple[str, str]]:
    """Name what the files hold and a policy does not get to see, as names and values."""
    return [
        (name, value)
        for name, value in (
            ("not used", "; ".join(name_left_out(dataset.left_out))),
            ("on request", ", ".join(dataset.vector_names)),
        )
        if value
    ]


def verdict_line(inspection: Inspection) -> str:
    """Count the findings of each verdict."""
    counts = [(inspection.count(verdict), verdict) for verdict in Verdict]
    parts = [f"{count} {verdict}{'s' * (count > 1)}" for count, verdict in counts if count]
    return ", ".join(parts) or "nothing unusual was found"


def list_cameras(dataset: DemonstrationDataset) -> list[tuple[str, int, int]]:
    """List the cells below CAMERA_COLUMNS."""
    return [(camera.name, camera.height, camera.width) for camera in dataset.schema.cameras]


def _table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[Any]], show_header: bool = True
) -> Table:
    made = Table(*head, title=title, title_justify="left", show_header=show_header)
    for row in tabulate(head, rows).rows:
        made.add_row(*map(Text, row))
    return made
