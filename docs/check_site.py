"""Check the built site in a real browser: every page loads, shows its pictures and formulas, and leads on.

Run ``make docs`` first, then ``python docs/check_site.py build/docs``. It serves the folder on localhost and
drives a headless Chromium; it needs the packages of ``pip install 'gramian[docs]'`` and a Chromium or Chrome
of the system. Pages of other hosts are not fetched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

#: In the order in which they are tried; ``CHROMIUM`` in the environment comes before them.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: A telephone, and the window in which pages are loaded.
SIZES = ({"width": 390, "height": 844}, {"width": 1280, "height": 900})
#: What a reader would search for, and a page that has to be among the results.
SEARCHES = {
    "leave-one-out": "glossary",
    "memory budget": "memory-and-plans",
    "KernelRidge": "generated/gramian.KernelRidge",
    "Parquet": "data",
    "projection core": "explanations/psd-core",
    "SVM": "other-words",
    "kriging": "other-words",
    "RBFSampler": "coming-from",
    "AutoML": "other-words",
}
#: Pages with formulas.
MATHEMATICS = (
    "explanations/psd-core.html",
    "explanations/streaming-sums.html",
    "explanations/memory-model.html",
)
FACTS = """() => ({
  links: [...document.querySelectorAll('a[href]')].map(a => a.href),
  ids: [...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name),
  pictures: [...document.images].map(i => ({source: i.src, alt: i.hasAttribute('alt'), loading: i.loading})),
  formulas: [...document.querySelectorAll('math')].map(m => {
    const box = m.getBoundingClientRect(); return box.width * box.height; }),
  leftover: /\\$\\$|\\\\(frac|sum|top|tilde|begin)\\b/.test(
    [...document.querySelectorAll('main p, main li, main td')].map(e => e.innerText).join(' ')),
  title: document.title,
})"""
OVER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
CLICK = """page => [...document.querySelectorAll('ul.search li a')].find(
  a => new URL(a.href).pathname === '/' + page + '.html').click()"""
DRAWN = """async () => {
  const broken = [];
  for (const picture of document.images) {
    picture.loading = 'eager';
    try { await picture.decode(); } catch (error) { /* its width says it */ }
    if (picture.naturalWidth === 0) broken.push(picture.src);
  }
  return broken;
}"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and keeps no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the check reports."""


class QuietServer(ThreadingHTTPServer):
    """Serves until it is shut down, whatever a browser that leaves a page does to its sockets."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over connections that were given up: the browser says what it lacks."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of localhost; the value is its address."""
    server = QuietServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def browser_path() -> str:
    """Return the path of a Chromium, or end with what to install."""
    for name in (os.environ.get("CHROMIUM", ""), *BROWSERS):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise SystemExit(
        "No Chromium was found. Install one (Debian and Ubuntu: apt-get install chromium; Fedora: "
        "dnf install chromium; macOS: brew install --cask chromium), or name one: "
        "CHROMIUM=/path/to/chrome make docs-check."
    )


class Check:
    """Visits pages and collects what is wrong with them.

    Parameters
    ----------
    context : a browser's context of Playwright.
    address : of the site, without a final slash.
    """

    def __init__(self, context: Any, address: str) -> None:
        self.page = context.new_page()
        self.address = address
        self.problems: list[str] = []
        self.counts = {"pages": 0, "pictures": 0, "formulas": 0, "links": 0, "searches": 0}
        self.ids: dict[str, set[str]] = {}
        self.links: dict[str, set[str]] = {}
        self.now = ""
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.report(f"script error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._response)

    def report(self, text: str) -> None:
        """Note a problem of the page that is open."""
        self.problems.append(f"{self.now}: {text}")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.report(f"console {message.type}: {message.text}")

    def _failed(self, request: Any) -> None:
        # What a page still asks for when it is left is given up by the browser.
        if request.failure != "net::ERR_ABORTED":
            self.report(f"not loaded: {request.url} ({request.failure})")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.report(f"status {response.status}: {response.url}")

    def open(self, path: str) -> None:
        """Go to a page of the site and wait until it is loaded."""
        self.now = path
        response = self.page.goto(f"{self.address}/{path}", wait_until="load")
        if response is None or response.status != 200:
            self.report(f"status {None if response is None else response.status}")

    def visit(self, path: str) -> None:
        """Check one page by itself and keep its links and anchors for :meth:`follow`."""
        self.open(path)
        facts = self.page.evaluate(FACTS)
        broken = self.page.evaluate(DRAWN)
        self.counts["pages"] += 1
        self.counts["pictures"] += len(facts["pictures"])
        self.counts["formulas"] += len(facts["formulas"])
        self.problems += [f"{path}: picture without pixels: {source}" for source in broken]
        self.problems += [
            f"{path}: picture without alt text: {picture['source']}"
            for picture in facts["pictures"]
            if not picture["alt"]
        ]
        if any(area == 0 for area in facts["formulas"]):
            self.report("a formula takes no room")
        if facts["leftover"]:
            self.report("formulas are shown as they were written")
        if path in MATHEMATICS and not facts["formulas"]:
            self.report("no formulas, and there should be some")
        if not facts["title"]:
            self.report("no title")
        for size in SIZES:
            self.page.set_viewport_size(size)
            over = self.page.evaluate(OVER)
            if over > 1:
                self.report(f"{over} pixels wider than a window of {size['width']}")
        self.ids[path] = set(facts["ids"])
        self.links[path] = set(facts["links"])

    def follow(self, folder: Path) -> None:
        """Check that every link inside the site has its file and its anchor."""
        for path, links in self.links.items():
            self.now = path
            for link in sorted(links):
                if not link.startswith(self.address):
                    continue
                self.counts["links"] += 1
                parts = urlsplit(link)
                target = unquote(parts.path).lstrip("/") or "index.html"
                target += "index.html" if target.endswith("/") else ""
                anchor = unquote(parts.fragment)
                if not (folder / target).is_file():
                    self.report(f"link to {target}, which is not there")
                elif anchor and target in self.ids and anchor not in self.ids[target]:
                    self.report(f"link to {target}#{anchor}, an anchor that is not there")

    def open_file(self, path: Path) -> None:
        """Open a page with formulas from the disk, without a server: it has to be whole there too."""
        self.now = path.as_uri()
        self.page.goto(self.now, wait_until="load")
        if not any(self.page.evaluate(FACTS)["formulas"]):
            self.report("no formulas")

    def search(self, words: str, page: str) -> None:
        """Type words into the search and open the result that should be among them."""
        self.open("search.html")
        self.now = f"search for {words!r}"
        field = self.page.locator("form.bd-search input[name=q], input[name=q]").last
        field.fill(words)
        field.press("Enter")
        try:
            self.page.wait_for_selector("ul.search li a", timeout=15_000)
            self.page.wait_for_function(
                "page => [...document.querySelectorAll('ul.search li a')].some(a => "
                "new URL(a.href).pathname === '/' + page + '.html')",
                arg=page,
                timeout=15_000,
            )
        except Exception as error:  # Playwright's own class of time-outs is imported late
            self.report(f"does not find {page}: {str(error).splitlines()[0]}")
            return
        with self.page.expect_navigation():
            self.page.evaluate(CLICK, page)
        if urlsplit(self.page.url).path != f"/{page}.html":
            self.report(f"led to {self.page.url}")
        self.counts["searches"] += 1


def check(folder: Path) -> int:
    """Check the site in a folder; return how many problems were printed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SystemExit("The check drives a browser by Playwright: pip install 'gramian[docs]'.") from None
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    paths = [path for path in paths if not path.startswith("_static/")]
    if "index.html" not in paths:
        raise SystemExit(f"There is no site in {folder}: run make docs first.")
    executable = browser_path()
    with served(folder) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable, headless=True, args=FLAGS)
        try:
            context = browser.new_context(viewport=SIZES[-1])
            # Nothing outside is fetched: the site has to be whole by itself.
            context.route(
                lambda url: not url.startswith((address, "data:", "blob:", "file:")),
                lambda route: route.abort(),
            )
            site = Check(context, address)
            for path in paths:
                site.visit(path)
            site.follow(folder)
            for words, page in SEARCHES.items():
                site.search(words, page)
            site.open_file(folder.resolve() / MATHEMATICS[0])
        finally:
            browser.close()
    print(", ".join(f"{count:,} {what}" for what, count in site.counts.items()))
    for problem in dict.fromkeys(site.problems):
        print(problem)
    return len(set(site.problems))


def main() -> int:
    """Run the check; the exit code is 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/docs"))
    found = check(parser.parse_args().folder)
    print(f"{found} problems" if found else "the site is whole")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
