"""A headless Chromium that is driven through chromedriver. Nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


def programs() -> tuple[str, str] | None:
    """Browser and driver, where both are installed."""
    browser, driver = next(filter(None, map(shutil.which, _NAMES)), None), shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def open_browser(browser: str, driver: str, profile: Path) -> Iterator[Chrome]:
    """A browser with a profile of its own, for as long as the context lasts."""
    options = Options()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver, env={**os.environ, "SE_OFFLINE": "true"}))
    try:
        yield chrome
    finally:
        chrome.quit()


def set_view(chrome: Chrome, size: tuple[int, int], scheme: str) -> None:
    """A window of a size in CSS pixels, in `light` or `dark` colours."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
