"""A page in headless Chromium: what a reader's browser makes of it."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock
import psutil
import pytest

PATIENCE = 45.0  # seconds in which a page is opened and looked at; 2 to 4 are usual


@contextmanager
def bounded() -> Iterator[None]:
    """One browser at a time on this machine, for PATIENCE seconds: a stuck one is skipped.

    Some of playwright's calls wait for ever for a browser or driver that stands still, and
    swallow the exception by which pytest-timeout would interrupt them. They return once the
    processes are gone.
    """
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    stuck = threading.Event()

    def end() -> None:
        stuck.set()
        for process in psutil.Process().children(recursive=True):
            if process.pid not in before:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    lock = filelock.FileLock(Path(tempfile.gettempdir()) / "act_policy_tests_browser.lock")
    try:
        lock.acquire(timeout=1.5 * PATIENCE)
    except filelock.Timeout:
        pytest.skip("another test's browser stands still")
    watchdog = threading.Timer(PATIENCE, end)
    watchdog.start()
    try:
        yield
    except BaseException as error:
        if stuck.is_set():
            pytest.skip(f"chromium stood still for {PATIENCE:g} s: {error}")
        raise
    finally:
        watchdog.cancel()
        lock.release()


@contextmanager
def opened(path: Path, width: int = 1200, dark: bool = False) -> Iterator[Any]:
    """Open a file in Chromium and yield playwright's page; skip where there is no Chromium.

    On leaving, anything the browser complained about or tried to load from elsewhere fails.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium to open the page in; install the package chromium")
    complaints: list[str] = []
    with bounded(), playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )

        def note_request(request: Any) -> None:
            if not request.url.startswith(("data:", "file:", "blob:")):
                complaints.append(f"loads {request.url}")

        def note_message(message: Any) -> None:
            if message.type in ("error", "warning"):
                complaints.append(message.text)

        page.on("request", note_request)
        page.on("console", note_message)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        try:
            page.goto(path.resolve().as_uri(), wait_until="load")
            yield page
        finally:
            browser.close()
    assert complaints == []


def headings(page: Any) -> list[str]:
    """Texts of the sections' headings."""
    found: list[str] = page.eval_on_selector_all("h2", "all => all.map(h => h.textContent)")
    return found


def image_widths(page: Any) -> list[int]:
    """Width in pixels of every image as decoded; 0 is one that the browser cannot show."""
    found: list[int] = page.eval_on_selector_all("img", "all => all.map(i => i.naturalWidth)")
    return found


def video_seconds(page: Any) -> list[float]:
    """Duration of every video after it has played a moment."""
    found: list[float] = page.eval_on_selector_all(
        "video",
        "all => Promise.all(all.map(v => v.play().then(() => { v.pause(); return v.duration })))",
    )
    return found
