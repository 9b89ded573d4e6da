"""docs/model.md runs from top to bottom, gives what its comments say, and quotes what it names."""

import ast
import re
from typing import Any

import pytest

from tests.paths import ROOT

DOC = ROOT / "docs" / "model.md"


def code_blocks(text: str) -> list[tuple[int, str]]:
    """Each python block and the line of the page on which it starts."""
    return [
        (text[: match.start()].count("\n") + 1, match[1])
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def run(block: str, first_line: int, names: dict[str, Any]) -> int:
    """Execute the statements one by one; return how many stated values were found true."""
    checked = 0
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        source = ast.get_source_segment(block, statement)
        assert source is not None
        comment = lines[statement.end_lineno - 1][statement.end_col_offset :].strip()
        where = f"docs/model.md:{first_line + statement.lineno}"
        if isinstance(statement, ast.Expr) and comment.startswith("# "):
            value = eval(source, names)
            value = tuple(value) if source.endswith(".shape") else value
            assert value == ast.literal_eval(comment[2:]), f"{where}: {source} is {value}"
            checked += 1
        else:
            exec(compile(source, where, "exec"), names)
    return checked


def quotations(text: str) -> list[tuple[str, str]]:
    """Each passage that the page quotes, and the file that it is quoted from."""
    return re.findall(r"^```python from (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_what_is_quoted_stands_in_its_file() -> None:
    passages = quotations(DOC.read_text())
    assert len(passages) > 4
    for file, passage in passages:
        assert passage in (ROOT / file).read_text(), f"docs/model.md misquotes {file}: {passage}"


def test_every_section_has_an_exercise_and_links_lead_somewhere() -> None:
    text = DOC.read_text()
    for section in text.split("\n## ")[1:]:
        assert "**Exercise.**" in section, section.splitlines()[0]
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (DOC.parent / link).exists(), link
    for names, file in re.findall(r"\[((?:`[\w.]+`(?:, )?)+)\]\((\S+\.py)\)", text):
        source = (DOC.parent / file).read_text()
        for name in re.findall(r"\w+", re.sub(r"\w+\.", "", names)):
            assert re.search(rf"^ *(class|def) {name}\b", source, re.M), f"{name} in {file}"


def test_page(capsys: Any) -> None:
    blocks = code_blocks(DOC.read_text())
    names: dict[str, Any] = {}
    checked = sum(run(block, line, names) for line, block in blocks)
    assert len(blocks) > 10
    assert checked > 30
    assert "memory" in capsys.readouterr().out


def test_a_wrong_shape_on_the_page_would_be_noticed() -> None:
    names: dict[str, Any] = {}
    run("import torch\nx = torch.zeros(2, 3)", 1, names)
    assert run("x.shape  # (2, 3)", 1, names) == 1
    with pytest.raises(AssertionError, match=re.escape("docs/model.md:3: x.shape is (2, 3)")):
        run("x.shape  # (2, 4)", 2, names)
