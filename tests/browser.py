"""A browser in front of a platform: Debian's chromium, one window for each test, and what went wrong in it."""

import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

from ares.edge.client.sync import Client

Look = Literal["dark", "light", "narrow"]
LOOKS: tuple[Look, ...] = ("dark", "light", "narrow")
WAIT_MS = 60_000
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
# Kept in the page from its first moment on: what its policy forbade.
_WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
# A page has drawn what it asked for when neither bones nor a skeleton are left.
_DRAWN = "() => document.querySelector('h1') && !document.querySelector('.skeleton')"
# Levels A and AA of WCAG 2.0 to 2.2, and what axe calls best practice for pages.
_GO = """(path) => {
  window.history.pushState({}, "", path);
  window.dispatchEvent(new PopStateEvent("popstate"));
}"""
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


# What another set of colours, or another width, can break.
_BY_LOOK: dict[Look, tuple[str, ...]] = {
    "dark": (), "light": ("color-contrast",), "narrow": ("target-size", "scrollable-region-focusable"),
}  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "chromium is not installed: `scripts/setup test` does it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            # Before its driver, which ends with the block.
            browser.close()


def axe() -> str:
    """The text of axe-core, which a package of the test tools brings."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text()


@dataclass
class Viewer:
    """A person at a browser, logged in by a link."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list[str])

    def open(self, path: str) -> None:
        self.page.goto(f"{self.url}/ui{path}")
        self.drawn()

    def go(self, path: str) -> None:
        """As a link of the page does it: nothing is loaded again, which is most of what `open` costs."""
        self.page.evaluate(_GO, f"/ui{path}")
        self.drawn()

    def drawn(self) -> None:
        self.page.wait_for_function(_DRAWN, timeout=WAIT_MS)

    def look(self, look: Look) -> None:
        self.page.emulate_media(color_scheme="light" if look == "light" else "dark")
        self.page.set_viewport_size({"width": 360 if look == "narrow" else 1280, "height": 800})

    def text(self) -> str:
        return self.page.inner_text("body")

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for(timeout=WAIT_MS)

    def at(self, path: str) -> None:
        self.page.wait_for_url(f"{self.url}/ui{path}", timeout=WAIT_MS)

    def seen(self, name: str) -> list[str]:
        """What is wrong with the page in each of its looks: every rule in one, and in the others what a look can
        change. With ARES_SHOTS every rule in each, and a picture of each is kept in that folder."""
        folder = os.environ.get("ARES_SHOTS")
        wrong: list[str] = []
        for look in LOOKS:
            self.look(look)
            wrong += [f"{name} {look}: {each}" for each in self.violations(() if folder else _BY_LOOK[look])]
            wide = self.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
            if wide > 0:
                wrong.append(f"{name} {look}: {wide} px wider than the window")
            if folder:
                place = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
                self.page.screenshot(path=Path(folder) / f"{place}-{look}.png")
        return wrong

    def violations(self, rules: Sequence[str] = ()) -> list[str]:
        """Of the rules of accessibility, all or these, of the page's policy, and errors of its scripts."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(axe())
        only = {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": _RULES}
        found: Any = self.page.evaluate(
            "(only) => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only
        )
        broken = [
            f"{rule['id']}: {rule['help']}: {[node['html'][:160] for node in rule['nodes'][:3]]}"
            for rule in found["violations"]
        ]
        return [*broken, *self.page.evaluate("() => window.__violations"), *self.errors]


@contextmanager
def viewer(browser: Browser, client: Client, *, expects: Callable[[str], bool] = lambda _: False) -> Iterator[Viewer]:
    """`expects` says which errors of the console are no surprise."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="dark", reduced_motion="reduce")
    try:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(_WATCH)
        made = Viewer(page, client.endpoint.shown)
        page.on("pageerror", lambda error: made.errors.append(f"error: {error}"))
        page.on(
            "console",
            lambda said: (
                made.errors.append(f"console: {said.text}") if said.type == "error" and not expects(said.text) else None
            ),
        )
        page.on("dialog", lambda dialog: (made.errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(f"{made.url}{client.login_link().path}")
        page.get_by_role("heading", level=1).wait_for()
        made.drawn()
        yield made
    finally:
        context.close()
