"""What README and docs/robot.md tell an owner to type and to write works as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from act_policy.control.commands.command_line import build_parser
from act_policy.data.schemas import read_schema
from tests.control.campaign.fake_policy import SO101, SO101_NAMES
from tests.paths import ROOT

DOC = (ROOT / "docs" / "robot.md").read_text()
CALL = "python -m act_policy.control "


def block(language: str, start: str) -> str:
    """The code block of docs/robot.md that begins with these words."""
    (found,) = re.findall(rf"^```{language}\n({re.escape(start)}.*?)^```$", DOC, re.M | re.S)
    return str(found)


def commands() -> list[str]:
    """Every robot command of the documents, in blocks and between backticks."""
    found = set()
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"```bash\n(.*?)```", path.read_text(), re.S)
        lines = [line.split(" #")[0] for each in blocks for line in each.splitlines()]
        plain = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        lines += [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", plain)]
        found |= {line.removeprefix(CALL) for line in lines if line.startswith(CALL)}
    whole = (line.strip() for line in found)
    return sorted(line for line in whole if " " in line and "..." not in line and "|" not in line)


@pytest.mark.parametrize("words", commands())
def test_a_command_of_the_documents_is_accepted(words: str) -> None:
    build_parser("").parse_args(shlex.split(words))


def test_the_documents_have_commands_of_every_kind() -> None:
    kinds = {words.split()[0] for words in commands()}
    assert kinds >= {"check", "shadow", "run", "trials", "serve"}


def test_the_schema_of_an_so101_is_read(tmp_path: Path) -> None:
    written = re.search(r"<<'END'\n(.*?)\nEND\n", block("bash", "cat > so101.json"), re.S)
    assert written is not None
    (tmp_path / "so101.json").write_text(written[1])
    schema = read_schema(tmp_path / "so101.json", SO101.cameras)
    assert schema.state_names == schema.action_names == SO101_NAMES
    assert (schema.state_units, schema.action_units) == (SO101.state_units, SO101.action_units)
