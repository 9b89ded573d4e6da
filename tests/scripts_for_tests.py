"""Scripts as a user calls them, in this process, which has long loaded torch and Hydra.

A process of its own needs seconds for that. It is for what a process alone can show: signals, what
is imported, what other software prints.
"""

import os
import runpy
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import jaxtyping

from tests.paths import ROOT


class Done(NamedTuple):
    """What is left of a script; the names are those of subprocess.CompletedProcess."""

    returncode: int
    stdout: str
    stderr: str


def call_script(
    name: str | Path, *arguments: str, cwd: Path | None = None, **environment: str
) -> Done:
    """Run a script, or the one of this name in scripts/; leave arguments and environment alone."""
    path = ROOT / "scripts" / name
    out, err = StringIO(), StringIO()
    with (
        chdir(cwd or Path.cwd()),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", [str(path), *arguments]),
        patch.object(sys, "path", list(sys.path)),
        patch.object(warnings, "formatwarning", warnings.formatwarning),
        # A user's process checks no types: what is wrong meets the script's own refusals.
        patch.object(jaxtyping.config, "jaxtyping_disable", True),
    ):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            code = end.code
        else:
            code = 0
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue())
