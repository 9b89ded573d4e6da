"""Commands in README and docs exist: scripts, their settings, make's targets."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from act_policy.cli.entry import configuration
from act_policy.cli.sweep import first_job
from tests.paths import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(document: Path) -> list[str]:
    """Return every call of a script or of make, in code blocks and between backticks."""
    text = document.read_text()
    blocks = re.findall(r"```(?:bash|sh)?\n(.*?)```", text, re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    lines = [line.split("#")[0].strip() for line in lines]
    return [line for line in lines if re.match(r"python scripts/\w+\.py|make [\w-]+$", line)]


CALLS = sorted({command for document in DOCUMENTS for command in commands(document)})


def test_the_documents_contain_commands() -> None:
    assert {"make demo", "make test"} <= set(CALLS)
    assert len(CALLS) > 10


@pytest.mark.parametrize("command", [c for c in CALLS if c.startswith("python")])
def test_scripts_accept_the_settings_in_the_documents(command: str) -> None:
    _, script, *arguments = shlex.split(command)
    assert (ROOT / script).is_file()
    if arguments[:1] == ["-m"]:
        first_job(Path(script).stem, arguments[1:])
    else:
        configuration(Path(script).stem, arguments)  # raises UserError on an unknown setting


@pytest.mark.parametrize("command", [c for c in CALLS if c.startswith("make")])
def test_make_has_the_targets_in_the_documents(command: str) -> None:
    done = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
