"""The one way into every script: `run(config_name, main)` composes `configs/<name>.yaml` and calls.

Hydra composes, nothing more: no output folder, no change of directory, no logging set up. Exit
codes: 0 done, 2 the user's input is wrong (one message, no traceback), 1 anything else,
130 interrupted, 75 training was asked to stop and goes on with the same command; a command that
has others exits by itself.
"""

import difflib
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from act_policy.errors import UserError
from act_policy.system.home import in_home, name_home
from act_policy.system.stop_signals import StoppedBySignal

_PACKAGE = Path(__file__).resolve().parents[1]
CONFIGS = _PACKAGE / "configs"  # in a checkout a link to the folder beside the package
if not CONFIGS.is_dir():  # of an archive that keeps no links
    CONFIGS = _PACKAGE.parent / "configs"

SavedConfig = Callable[[DictConfig, set[str]], DictConfig | None]
"""Loads the configuration to start from instead of the defaults (for a run that is resumed).

It is given the composed configuration and the keys that the command line sets.
"""


def run(
    config_name: str,
    main: Callable[[DictConfig], float | None],
    arguments: list[str],
    saved_config: SavedConfig | None = None,
) -> NoReturn:
    """Compose, call `main(config)` and exit; `--help` and `--cfg` only print."""
    warnings.formatwarning = _warning
    arguments = [name_home(argument) for argument in arguments]
    try:
        if {"-h", "--help"} & set(arguments):
            print(_help(config_name, (main.__globals__.get("__doc__") or "").strip()))
            sys.exit(0)
        if {"-m", "--multirun"} & set(arguments):
            from act_policy.cli.sweep import sweep

            rest = [a for a in arguments if a not in ("-m", "--multirun")]
            sweep(config_name, main, rest, saved_config)
            sys.exit(0)
        config = configuration(config_name, [a for a in arguments if a != "--cfg"], saved_config)
        if "--cfg" in arguments:
            print(OmegaConf.to_yaml(config), end="")
            sys.exit(0)
        if missing := sorted(OmegaConf.missing_keys(config)):
            raise UserError("missing: give " + ", ".join(f"{key}=..." for key in missing))
        main(config)
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt as where:
        print(f"interrupted {where}".strip(), file=sys.stderr)
        sys.exit(where.exit_code if isinstance(where, StoppedBySignal) else 130)
    except Exception as error:
        if (ours := _user_error(error)) is None:
            traceback.print_exc()
            sys.exit(1)
        print(f"error: {ours}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def plain(config: Any) -> Any:
    """A configuration as dictionaries and lists."""
    return OmegaConf.to_container(config, resolve=True)


def make_settings(made: type[Any], config: DictConfig, **others: Any) -> Any:
    """Make a dataclass of the settings of its fields' names, as plain values, and of others."""
    names = {field.name for field in fields(made)}
    given = {name: value for name, value in plain(config).items() if name in names}
    return made(**(given | others))


def load_yaml(path: Path) -> DictConfig:
    """One YAML file; UserError unless it holds a mapping."""
    config = OmegaConf.load(path)
    if not isinstance(config, DictConfig):
        raise UserError(f"{path}: expected a mapping of settings")
    return config


def run_config(run: Path | None) -> Any:
    """The configuration that a run was trained with, as plain values; empty without a run."""
    if run is None or not (run / "config.yaml").is_file():
        return {}
    return plain(load_run(run))


def load_run(run: Path) -> DictConfig:
    """Load the config.yaml of a run; before instructions became tasks, a policy was told none."""
    saved = load_yaml(run / "config.yaml")
    if "data" in saved and "tasks" not in (select := saved.data.get("select") or {}):
        saved.data.select = {**select, "tasks": False}
    return saved


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Format a warning about the user's data as one line; others keep their place in the code."""
    if category.__name__ == "DatasetWarning":
        return f"warning: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def configuration(
    config_name: str, arguments: list[str], saved_config: SavedConfig | None = None
) -> DictConfig:
    """Compose the YAML tree and the command line; UserError where they do not fit."""
    if flags := [a for a in arguments if a.startswith("-")]:
        raise UserError(f"unknown option {flags[0]}; settings are key=value, see --help")
    overrides = [_parsed(argument) for argument in arguments]
    choices = [o.input_line or "" for o in overrides if _is_group(o)]
    values = [o for o in overrides if not _is_group(o)]
    defaults = compose_config(config_name, choices)
    config = _with_values(config_name, choices, values, defaults)
    given = {override.key_or_group for override in overrides}
    if "given" in config:
        config.given = sorted(given)
    same_command = config.get("resume") == "auto"  # that began the run, with its experiment
    saved = None if saved_config is None else saved_config(config, given)
    if saved is None:
        return config
    # the command line's settings hold over the saved ones
    for choice in choices:
        group = choice.split("=")[0]
        if group not in config:
            if same_command:
                continue
            raise UserError(f"{group}= is settled by what is resumed; leave it out")
        saved[group] = config[group]
    for override in values:
        key = override.key_or_group
        OmegaConf.update(saved, key, OmegaConf.select(config, key), force_add=True)
    return saved


def _parsed(argument: str) -> Override:
    try:
        override = OverridesParser.create().parse_override(argument)
        if override.is_add() or override.is_force_add() or override.is_delete():
            raise UserError(f"{argument}: settings are given as key=value, without + or ~")
        return override
    except HydraException:
        raise UserError(f"cannot read {argument}; {_how_to_quote(argument)}") from None


def _how_to_quote(argument: str) -> str:
    """Say how a setting that cannot be read is to be typed."""
    key, equals, value = argument.partition("=")
    if not equals or not key:
        return "settings are key=value, see --help"
    if value[:1] in ("[", "{"):
        if value.count("[") != value.count("]") or value.count("{") != value.count("}"):
            return (
                'its brackets do not close: the shell splits a setting at spaces; put "double '
                'quotes" around the whole setting'
            )
        return (
            "put 'single quotes' around each value in it that has special characters, and "
            '"double quotes" around the whole setting'
        )
    escaped = value.strip("'\"").replace("\\", "\\\\").replace("'", "\\'")
    meant = f"{key}='{escaped}'"
    try:
        OverridesParser.create().parse_override(meant)
    except HydraException:
        return "settings are key=value, see --help"
    shell_reads = any(character in meant for character in '"$`!')
    return (
        f"for the text as it is, type {shlex.quote(meant)}"
        if shell_reads
        else (f'for the text as it is, type "{meant}"')
    )


def _is_group(override: Override) -> bool:
    return (CONFIGS / override.key_or_group.split("@")[0]).is_dir()


def compose_config(config_name: str, overrides: list[str]) -> DictConfig:
    """Compose with Hydra; its errors become a UserError."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        try:
            config = compose(config_name, overrides)
            expand_home(config)
            return config
        except (HydraException, OmegaConfBaseException) as error:
            text = str(error).strip()
            if must := re.search(r"You must specify '([\w/]+)'", text):
                choices = ", ".join(list_options(must[1]))
                raise UserError(f"missing: give {must[1]}=..., one of {choices}") from None
            wanted = re.search(r"Could not find '([\w/.-]+)'", text)
            if wanted is None or not (CONFIGS / wanted[1].partition("/")[0]).is_dir():
                raise UserError(text.split("\nTo append")[0]) from None
            group, _, name = wanted[1].partition("/")
            options = list_options(group)
            near = _nearest(name, options)
            raise UserError(
                f"there is no {group}={name}{near}; there are {', '.join(options)}"
            ) from None


def expand_home(config: Any) -> None:
    """Replace `~` and `$HOME` at the beginning of every text by the home folder, in place."""
    if not isinstance(config, DictConfig | ListConfig):
        return
    if config._is_none() or config._is_missing() or config._is_interpolation():
        return
    for key in range(len(config)) if isinstance(config, ListConfig) else list(config):
        node = config._get_node(key)
        if isinstance(node, DictConfig | ListConfig):
            expand_home(node)
        elif isinstance(node, Node) and isinstance(text := node._value(), str):
            node._set_value(in_home(text))


def _with_values(
    config_name: str, choices: list[str], values: list[Override], defaults: DictConfig
) -> DictConfig:
    """Compose with the single values as well: each key must exist and keep its default's kind."""
    known = list(_keys(defaults))
    for override in values:
        key = override.key_or_group
        if key in known:
            continue
        parent = key.rpartition(".")[0]
        if siblings := [k for k in known if parent and k.rpartition(".")[0] == parent]:
            names = ", ".join(sibling.rpartition(".")[2] for sibling in siblings)
            raise UserError(f"unknown setting {key}{_nearest(key, siblings)}; {parent} has {names}")
        groups = [path.name for path in CONFIGS.iterdir() if path.is_dir()]
        raise UserError(f"unknown setting {key}{_nearest(key, known + groups)}; see --help")
    config = compose_config(config_name, choices + [o.input_line or "" for o in values])
    for override in values:
        before = OmegaConf.select(defaults, override.key_or_group, throw_on_missing=False)
        after = OmegaConf.select(config, override.key_or_group, throw_on_missing=False)
        kind = {bool: (bool,), int: (int,), float: (int, float)}.get(type(before))
        if kind and (not isinstance(after, kind) or isinstance(after, bool) != (kind == (bool,))):
            if after is None and _may_be_null(config_name, choices, override.key_or_group):
                continue
            value = "null" if after is None else after
            raise UserError(
                f"{override.key_or_group}={value}: expected {type(before).__name__}, like {before}"
            )
    return config


def _may_be_null(config_name: str, choices: list[str], key: str) -> bool:
    """Tell whether a setting to which an experiment gives a number is null without it."""
    others = [choice for choice in choices if not choice.startswith("experiment=")]
    if others == choices:
        return False
    config = compose_config(config_name, others)
    return OmegaConf.select(config, key, throw_on_missing=False) is None


def _keys(node: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key, inner ones too."""
    if isinstance(node, DictConfig) and not node._is_none() and not node._is_missing():
        for key in map(str, node):
            yield f"{prefix}{key}"
            yield from _keys(node._get_node(key), f"{prefix}{key}.")


def _nearest(word: str, words: list[str]) -> str:
    """' (did you mean x?)'; the last part alone also counts: lr finds optim.lr."""
    found = difflib.get_close_matches(word, words, 1, 0.75)
    last = word.rpartition(".")[2]
    found = found or [w for w in words if w.rpartition(".")[2] == last]
    found = found or difflib.get_close_matches(word, words, 1, 0.5)
    return f" (did you mean {found[0]}?)" if found else ""


def _user_error(error: BaseException | None) -> UserError | None:
    """The UserError itself, or the one that Hydra wrapped while it built an object."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__
    return error


def _help(config_name: str, description: str) -> str:
    groups = list(_groups(config_name))
    # a group that must be chosen gets its first choice, so that there is something to show
    first = [f"{name}={list_options(name)[0]}" for name, choice in groups if choice == "???"]
    choices = [f"  {n}: {', '.join(names)}" for n, _ in groups if len(names := list_options(n)) > 1]
    lines = [description, "", *(["Choices (group=name):", *choices] if choices else [])]
    where = CONFIGS.resolve() / f"{config_name}.yaml"
    lines += ["", f"Settings (key=value, ??? must be given; explained in {where}):", ""]
    return "\n".join(lines) + OmegaConf.to_yaml(compose_config(config_name, first))


def _groups(config_name: str) -> Iterator[tuple[str, str | None]]:
    """The groups in the defaults list and what each is set to."""
    for entry in load_yaml(CONFIGS / f"{config_name}.yaml").get("defaults", []):
        if isinstance(entry, DictConfig):
            name, choice = next(iter(plain(entry).items()))
            if "@" not in name:  # settings that several commands share are no choice
                yield name.split()[-1].strip("/"), choice


def list_options(group: str) -> list[str]:
    """List the files of a group in configs, as the command line names them."""
    folder = CONFIGS / group
    return sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.yaml"))
