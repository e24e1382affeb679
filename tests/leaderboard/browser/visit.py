"""Visit: a tab of a real browser that notes everything that a sound page gives no cause for."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Page, Request, Response

_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
  window.violations.push(`${event.violatedDirective} by ${event.blockedURI} at ${event.sourceFile}`));
"""


class Visit:
    """Give it the pages that a test expects to be refused: a browser complains of them by itself."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.page: Page = context.new_page()
        self.requested: list[str] = []
        self._faults: list[str] = []
        self._refused: set[int] = set()
        self._host = urlsplit(address).netloc
        self.page.add_init_script(_WATCH)
        self.page.on("console", self._hear)
        self.page.on("pageerror", self._fall)
        self.page.on("dialog", self._dismiss)
        self.page.on("request", self._see_request)
        self.page.on("response", self._see_response)

    def go(self, path: str, *, refused: int | None = None) -> Page:
        """`path` as a link says it, without the slash at its beginning."""
        if refused is not None:
            self.expect_refusal(refused)
        answer = self.page.goto(f"{self.address}{path}", wait_until="load")
        assert answer is not None
        assert answer.status == (refused or 200), f"{path}: {answer.status} {answer.text()[:500]}"
        return self.page

    def expect_refusal(self, status: int) -> None:
        self._refused.add(status)

    def faults(self) -> list[str]:
        """So far, of all pages that were opened here."""
        found = list(self._faults)
        if self.page.evaluate("typeof window.pwned") != "undefined":
            found.append(f"a script of somebody else ran at {self.page.url}")
        found += self.page.evaluate("window.violations ?? []")
        return found

    def _hear(self, message: ConsoleMessage) -> None:
        is_expected = any(f"status of {status}" in message.text for status in self._refused)
        if message.type in ("error", "warning") and not is_expected:
            self._faults.append(f"console {message.type} at {self.page.url}: {message.text}")

    def _fall(self, error: Error) -> None:
        self._faults.append(f"error in the page {self.page.url}: {error}")

    def _dismiss(self, dialog: Dialog) -> None:
        self._faults.append(f"dialog at {self.page.url}: {dialog.message}")
        dialog.dismiss()

    def _see_request(self, request: Request) -> None:
        self.requested.append(request.url)
        if urlsplit(request.url).netloc != self._host:
            self._faults.append(f"request to another host from {self.page.url}: {request.url}")

    def _see_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._refused:
            self._faults.append(f"{response.status} for {response.url} from {self.page.url}")


@contextmanager
def visit(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    theme: str = "light",
    has_scripts: bool = True,
    ignores_policy: bool = False,
) -> Iterator[Visit]:
    """`ignores_policy`: for a checker that must run its own scripts; what the page itself does is not told by it."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
        java_script_enabled=has_scripts,
        bypass_csp=ignores_policy,
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    try:
        yield Visit(context, address)
    finally:
        context.close()
