"""The shared wrapper from a user's view: a script, its exit code and output."""

import subprocess
import sys
from pathlib import Path

import pytest

from act_policy.cli import entry, sweep
from act_policy.system.home import name_home
from tests.scripts_for_tests import call_script

SCRIPT = """
'''Paint a fence.'''
import sys
from pathlib import Path
from act_policy.cli import entry
entry.CONFIGS = Path(__file__).parent / "configs"

def main(config):
    if config.colour.name == "black":
        raise entry.UserError("fence.yaml: black is sold out")
    if config.colour.name == "pink":
        raise RuntimeError("the brush broke")
    if config.colour.name == "grey":
        raise KeyboardInterrupt
    print(config.colour.name, config.coats, config.width)
    if config.out:
        print("out", Path(config.out).relative_to(Path.cwd()))
    return config.width

def saved(config, given):
    return entry.load_yaml(Path(config.again)) if config.again else None

if __name__ == "__main__":
    entry.run("paint", main, sys.argv[1:], saved)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (entry, sweep):  # as the script does in a process of its own
        monkeypatch.setattr(module, "CONFIGS", tmp_path / "configs")
    colours = tmp_path / "configs" / "colour"
    colours.mkdir(parents=True)
    for name in ("red", "green"):
        (colours / f"{name}.yaml").write_text(f"name: {name}\nglossy: false\n")
    (tmp_path / "configs" / "brush").mkdir()
    (tmp_path / "configs" / "brush" / "plain.yaml").write_text("hairs: 100\n")
    (tmp_path / "configs" / "paint.yaml").write_text(
        "defaults: [colour: red, brush: plain, _self_]\n"
        "coats: 2\nwidth: 0.5\nfence: ???\nagain: null\nout: null\n"
    )
    path = tmp_path / "paint.py"
    path.write_text(SCRIPT)
    return path


def call(script: Path, *arguments: str) -> tuple[int, str, str]:
    return call_script(script, *arguments, cwd=script.parent)


def call_alone(script: Path, *arguments: str) -> tuple[int, str, str]:
    """In a process of its own, since Hydra's jobs set up the logging of the whole process."""
    done = subprocess.run(
        [sys.executable, script.name, *arguments],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_script_gets_its_configuration_and_leaves_no_files(script: Path) -> None:
    before = sorted(script.parent.iterdir())
    assert call(script, "fence=north", "colour=green", "coats=3", "width=2") == (
        0,
        "green 3 2\n",
        "",
    )
    assert sorted(script.parent.iterdir()) == before  # no outputs/ and no log


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("coat=3", ["coat", "did you mean coats?"]),
        ("colour.nam=blue", ["colour.nam", "did you mean colour.name?"]),
        ("glossy=true", ["glossy", "did you mean colour.glossy?"]),
        ("color=red", ["color", "did you mean colour?"]),
        ("colour=gren", ["colour=gren", "did you mean green?", "red"]),
        ("coats=many", ["coats=many", "int"]),
        ("coats=true", ["coats=True", "int"]),
        ("coats=null", ["coats=null", "int"]),
        ("width=null", ["width=null", "float"]),
        ("+coat=3", ["+coat=3", "without +"]),
        ("++coats=3", ["++coats=3", "without +"]),
        ("~coats", ["~coats", "without + or ~"]),
        ("hydra.run.dir=here", ["unknown setting hydra.run.dir"]),
        ("coats=(3", ["coats=(3", """for the text as it is, type "coats='(3'\""""]),
        ("out=it's", ["""type "out='it\\'s'\""""]),
        ("out=$(x", ["'\"'\"'$(x'\"'\"'"]),
        ("out=[a(b]", ["around each value in it"]),
        ("out={a:", ["the shell splits a setting at spaces"]),
        ("coats", ["coats", "key=value"]),
        ("--verbose", ["--verbose", "--help"]),
    ],
)
def test_wrong_input_exits_with_2_by_name(script: Path, argument: str, words: list[str]) -> None:
    code, _, error = call(script, "fence=north", argument)
    assert code == 2
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1
    for word in words:
        assert word in error


@pytest.mark.parametrize("home", ["~", "$HOME", "${HOME}", "'~", "'${HOME}"])
def test_the_home_folder_has_short_names(
    script: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", str(script.parent))
    quote = "'" if home.startswith("'") else ""
    code, text, error = call(script, "fence=north", f"out={home}/sub/a{quote}")
    assert (code, text, error) == (0, "red 2 0.5\nout sub/a\n", "")
    saved = script.parent / "saved.yaml"
    saved.write_text("colour: {name: blue}\ncoats: 7\nwidth: 9.0\nfence: old\nout: ~/x\n")
    assert call(script, "again=~/saved.yaml", "out=~/x")[1] == "blue 7 9.0\nout x\n"


def test_the_home_folder_has_short_names_in_a_sweep(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(script.parent))
    said = call_alone(script, "-m", "fence=~/a,$HOME/b", "out=~/sweep")[1]
    assert "out sweep/1" in said


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("mix=[{path: ~/a},{path: '${HOME}/b'}]", "mix=[{path: $HOME/a},{path: '$HOME/b'}]"),
        ("path=~", "path=$HOME"),
        ("path=a~/b", "path=a~/b"),
        ("~path", "~path"),
        ("fence=${out}", "fence=${out}"),
    ],
)
def test_the_home_folder_is_named_as_hydra_reads_it(given: str, meant: str) -> None:
    assert name_home(given) == meant


def test_a_missing_value_exits_with_2_and_is_named(script: Path) -> None:
    code, _, error = call(script)
    assert (code, error) == (2, "error: missing: give fence=...\n")


def test_a_missing_choice_exits_with_2_and_the_options(script: Path) -> None:
    paint = script.parent / "configs" / "paint.yaml"
    paint.write_text(paint.read_text().replace("colour: red", "colour: '???'"))
    woods = script.parent / "configs" / "colour" / "wood"  # choices in a folder count too
    woods.mkdir()
    (woods / "oak.yaml").write_text("# @package colour\nname: oak\n")
    code, _, error = call(script, "fence=north")
    assert code == 2
    assert error == "error: missing: give colour=..., one of green, red, wood/oak\n"
    assert call(script, "fence=north", "colour=wood/oak")[1] == "oak 2 0.5\n"


def test_exit_codes(script: Path) -> None:
    code, _, error = call(script, "fence=north", "colour.name=black")
    assert (code, error) == (2, "error: fence.yaml: black is sold out\n")
    code, _, error = call(script, "fence=north", "colour.name=pink")
    assert code == 1
    assert "Traceback" in error
    assert "the brush broke" in error
    code, _, error = call(script, "fence=north", "colour.name=grey")
    assert (code, error) == (130, "interrupted\n")


def test_help_names_choices_settings_and_required_values(script: Path) -> None:
    code, text, _ = call(script, "--help")
    assert code == 0
    assert "Paint a fence." in text
    assert "colour: green, red" in text
    assert "brush: plain" not in text  # a group of one leaves no choice
    assert "fence: ???" in text


def test_a_saved_configuration_is_kept_except_for_new_arguments(script: Path) -> None:
    saved = script.parent / "saved.yaml"
    saved.write_text("colour: {name: blue, glossy: true}\ncoats: 7\nwidth: 9.0\nfence: old\n")
    assert call(script, "again=saved.yaml", "width=1.5")[1] == "blue 7 1.5\n"
    assert call(script, "again=saved.yaml", "colour=green")[1] == "green 7 9.0\n"


def test_a_sweep_gives_each_job_a_folder(script: Path) -> None:
    code, text, error = call_alone(script, "-m", "fence=north", "coats=1,2", "out=sweep")
    assert (code, error) == (0, "")
    painted = [line for line in text.splitlines() if not line.startswith("[")]  # Hydra's log
    assert painted == ["red 1 0.5", "out sweep/0", "red 2 0.5", "out sweep/1"]
    assert not (script.parent / "outputs").exists()
    assert [path for path in (script.parent / "sweep").rglob("*") if path.is_file()] == [
        script.parent / "sweep" / "multirun.yaml"
    ]
    named = call_alone(script, "-m", "fence=a,b", "out=sweep", "hydra.sweep.subdir=${fence}")[1]
    assert "out sweep/b" in named


def test_a_failing_job_of_a_sweep_exits_with_2_and_one_message(script: Path) -> None:
    code, text, error = call_alone(
        script, "-m", "fence=north", "colour.name=black,red", "out=sweep"
    )
    assert code == 2
    assert "Traceback" not in error
    assert "colour.name=black" in error  # which job
    assert error.endswith("error: fence.yaml: black is sold out\n")
    assert "red 2" in text  # the other jobs run


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("coat=1,2", "did you mean coats?"),
        ("coats=many,2", "expected int"),
        ("color=red,green", "did you mean colour?"),
        ("out=a,b", "hydra.sweep.subdir="),
        ("out=runs/${fence}", "hydra.sweep.subdir="),
        ("hydra/launcher=cloud", "hydra/launcher"),
    ],
)
def test_wrong_input_of_a_sweep_exits_with_2(script: Path, argument: str, words: str) -> None:
    code, text, error = call(script, "--multirun", "fence=north", argument)
    assert (code, text) == (2, "")
    assert "Traceback" not in error
    assert words in error
