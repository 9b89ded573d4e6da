"""Fixtures shared by every test, and the end of one that stands still."""

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.paths import SAMPLES

# Machines are slow and busy: no example has a deadline. The quick tests try the same examples
# each time, so that a change fails for what it changed; `make test-all` looks for new ones.
hypothesis.settings.register_profile(
    "quick", deadline=None, max_examples=100, derandomize=True, database=None
)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile("quick")

PATIENCE, PATIENCE_WITH_SLOW_TESTS = 300.0, 4000.0
"""Seconds after which a test's process is ended, with its stack on the real standard error."""
NO_SAMPLES = f"no samples written by other software at {SAMPLES}; see ACT_POLICY_SAMPLES"
_real_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_real_stderr] = os.dup(2)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _end_if_stuck(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    _end_if_stuck(item)  # a failure has stopped the clock


def _end_if_stuck(item: pytest.Item) -> None:
    """What pytest-timeout cannot end: its one alarm may be swallowed, or come before a teardown."""
    patience = PATIENCE_WITH_SLOW_TESTS if item.get_closest_marker("slow") else PATIENCE
    faulthandler.dump_traceback_later(patience, exit=True, file=item.config.stash[_real_stderr])


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of files written by other people's software; skipped where it is absent.

    The environment variable ACT_POLICY_SAMPLES names it.
    """
    if not SAMPLES.is_dir():
        pytest.skip(NO_SAMPLES)
    return SAMPLES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [
        r for r in terminalreporter.stats.get("skipped", ()) if NO_SAMPLES in str(r.longrepr)
    ]
    if skipped:
        terminalreporter.write_line(f"tests skipped: {len(skipped)}; {NO_SAMPLES}")
