"""A review page that is open in a headless Chromium."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from tools.docs.browser import open_browser, programs, set_view

WIDE = (1400, 900)


@contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """A browser. Where none is installed the test is skipped, and fails where CI promises one."""
    found = programs()
    if found is None:
        missing = "no Chromium with chromedriver is installed (Debian: chromium, chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with open_browser(*found, profile) as chrome:
        yield Page(chrome)


@dataclass(frozen=True)
class Page:
    """A review that is open in the browser."""

    chrome: Chrome

    def open(self, path: Path, anchor: str = "", size: tuple[int, int] = WIDE, scheme: str = "light") -> None:
        """Load a file in a window of a size, in light or dark colours."""
        set_view(self.chrome, size, scheme)
        self.chrome.get("about:blank")
        self.chrome.get_log("browser")
        self.chrome.get(f"{path.as_uri()}{anchor}")

    def complaints(self) -> list[str]:
        """What the browser's console says since the page was opened, policy violations included."""
        return [entry["message"] for entry in self.chrome.get_log("browser")]

    def script(self, text: str, *arguments: object) -> Any:
        return self.chrome.execute_script(text, *arguments)

    def find(self, selector: str) -> WebElement:
        return self.chrome.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.chrome.find_elements("css selector", selector)

    def cell(self, kind: str, place: int, anchor: str = "") -> WebElement:
        """A cell of the first map of a kind (before, after, change), or of that of the functional at an anchor."""
        inside = f"details[data-anchor='{anchor}'] " if anchor else ""
        return self.find(f"{inside}.map.{kind} td[data-place='{place}']")

    def hover(self, node: WebElement) -> None:
        ActionChains(self.chrome).move_to_element(node).perform()

    def press(self, *keys: str) -> None:
        ActionChains(self.chrome).send_keys(*keys).perform()

    def press_with_control(self, key: str) -> None:
        ActionChains(self.chrome).key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL).perform()

    def choose(self, name: str, value: str) -> None:
        Select(self.find(f"#{name}")).select_by_value(value)

    @property
    def active(self) -> WebElement:
        return self.chrome.switch_to.active_element

    @property
    def place(self) -> int:
        """The place of the cell that has the focus."""
        return int(self.active.get_attribute("data-place") or -1)

    @property
    def panel(self) -> str:
        return self.find("#cell").text

    def panel_configs(self) -> dict[str, tuple[str, str]]:
        """Field → (before, after), as the panel says."""
        rows = self.script(
            "return [...document.querySelectorAll('#cell .config tbody tr')]"
            ".map(row => [...row.cells].map(cell => cell.textContent))"
        )
        return {field: (old, new) for _, field, old, new in rows}

    def highlighted(self) -> set[str]:
        """The fields that the panel marks as different."""
        return {row.text for row in self.all("#cell .config tr.differs th")}
