#!/usr/bin/env python3
"""check_report_page.py - opens the pages of runs in a browser: nothing fails, everything can be read.

Usage: check_report_page.py BUILD/tests/report_page_test [FOLDER FOR PICTURES]
Needs Debian's package chromium; says so and exits 0 where it is absent.
SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

WIDTHS = (1280, 390)

# Texts whose contrast to what is behind them is below 4.5 to 1.
LOW_CONTRAST = """(() => {
  const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = color => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = color => color.slice(0, 3).reduce((sum, v, i) => {
    const c = v / 255;
    return sum + [0.2126, 0.7152, 0.0722][i] * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = rgba(getComputedStyle(element).backgroundColor);
      if (color[3] > 250) return color;
    }
    return [255, 255, 255];
  };
  const low = new Set();
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    if (element.closest(".hide, .skip, script, style, [hidden]")) continue;
    const style = getComputedStyle(element);
    const a = luminance(rgba(element instanceof SVGElement ? style.fill : style.color));
    const b = luminance(behind(element instanceof SVGElement ? element.closest("svg").parentElement : element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.add(element.tagName + "." + (element.getAttribute("class") || "") + contrast.toFixed(2));
  }
  return [...low];
})()"""

STRUCTURE = """(() => {
  const all = selector => [...document.querySelectorAll(selector)];
  return {
    ids: all("[id]").map(e => e.id),
    links: all("a[href]").map(a => a.getAttribute("href").slice(1)),
    headings: all("h1, h2, h3").map(e => Number(e.tagName[1])),
    foreign: all("img, iframe, object, embed, base, link").length,
    scripts: document.scripts.length,
    handlers: all("*").filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).length,
    unnamed: all(".plot").filter(e => !e.getAttribute("aria-label")).length,
    charts: all(".plot[data-chart]").length,
  };
})()"""


class Browser:
    """A page in Chromium without a window, driven over two pipes: JSON texts with a NUL after each."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # The browser reads from descriptor 3 and writes to 4; a shell places them there.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", program, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.session, self.count, self.pending, self.events = None, 0, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def read(self):
        while b"\0" not in self.pending:
            part = os.read(self.answers, 1 << 20)
            assert part, "the browser ended"
            self.pending += part
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, path, width, is_dark):
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media="", features=[
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])
        self.call("Page.navigate", url=path.as_uri())
        self.evaluate("new Promise(r => document.readyState === 'complete' ? r() : addEventListener('load', r))")
        self.evaluate("new Promise(r => setTimeout(r, 100))")

    def key(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def problems(self):
        """Errors on the console, exceptions, and requests beside the page's own."""
        found, requests = [], 0
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled":
                found.append("console." + params["type"])
            elif method == "Network.requestWillBeSent":
                requests += 1
        return found + ([f"{requests} requests"] if requests > 1 else [])


def check_looks(browser, page, pictures):
    for width in WIDTHS:
        for is_dark in (False, True):
            browser.open(page, width, is_dark)
            name = f"{page.stem}-{width}-{'dark' if is_dark else 'light'}"
            assert not browser.problems(), (name, browser.problems())
            assert browser.evaluate("document.documentElement.scrollWidth") <= width, name + ": scrolls sideways"
            assert browser.evaluate("typeof window.pwned") == "undefined", name + ": a text became script"
            low = browser.evaluate(LOW_CONTRAST)
            assert not low, (name, low)
            if pictures:
                browser.picture(pictures / (name + ".png"))


def check_structure(browser, page):
    found = browser.evaluate(STRUCTURE)
    ids, headings = found["ids"], found["headings"]
    assert len(ids) == len(set(ids)), (page, "an id twice")
    assert set(found["links"]) <= set(ids), (page, "dead links", set(found["links"]) - set(ids))
    assert headings.count(1) == 1 and all(b - a <= 1 for a, b in zip(headings, headings[1:])), (page, headings)
    assert (found["foreign"], found["scripts"], found["handlers"], found["unnamed"]) == (0, 2, 0, 0), (page, found)
    return found["charts"]


def check_keyboard(browser, page):
    """Values can be read without a pointer, and Escape ends it."""
    browser.evaluate("document.querySelector('.plot[data-chart]').focus()")
    texts = []
    for key in ("End", "ArrowLeft", "Home"):
        browser.key(key)
        texts.append(browser.evaluate("document.getElementById('tip').textContent"))
    assert all(texts) and len(set(texts)) == 3, (page, texts)
    browser.key("Escape")
    assert browser.evaluate("document.getElementById('tip').hidden"), page


def check_axes(browser, page, charts):
    for choice in ("value=tokens", "value=time", "name=log"):
        browser.evaluate(f"document.querySelector('.tools input[{choice}]').click()")
    drawn = "[...document.querySelectorAll('.plot[data-chart] svg')].map(s => s.innerHTML)"
    pictures = browser.evaluate(drawn)
    assert len(pictures) == charts, (page, "a chart is lost")
    assert not any("NaN" in p or "Infinity" in p for p in pictures), (page, "no number in a picture")
    assert not browser.problems(), (page, browser.problems())


def check_sorting(browser, page):
    first = "document.querySelector('tbody tr').textContent"
    rows = []
    for order in ("ascending", "descending"):
        browser.evaluate("document.querySelector('thead button').click()")
        assert browser.evaluate("document.querySelector('th').getAttribute('aria-sort')") == order, page
        rows.append(browser.evaluate(first))
    assert rows[0] != rows[1], (page, rows)


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("skipped: no chromium (apt-get install chromium)")
        return
    pictures = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.argv[1], "[.browser]"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DTRAIN_PAGES_DIR": directory})
        pages = sorted(pathlib.Path(directory).glob("*.html"))
        assert len(pages) == 9, pages
        browser = Browser(program)
        try:
            for page in pages:
                check_looks(browser, page, pictures)
                charts = check_structure(browser, page)
                if charts:
                    check_keyboard(browser, page)
                    check_axes(browser, page, charts)
                if page.stem == "index":
                    check_sorting(browser, page)
        finally:
            browser.close()
    print(f"{len(pages)} pages are whole at {WIDTHS[0]} and {WIDTHS[1]} pixels, light and dark, by pointer and keyboard")


main()
