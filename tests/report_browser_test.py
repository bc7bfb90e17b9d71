#!/usr/bin/env python3
"""Opens a report in headless Chromium and checks what a reader would see.

    python3 tests/report_browser_test.py report.html [--rows N] [--plots N] [--dark] [--print] [--screenshot out.png]

Checks that the console holds no error or warning, that nothing but the file itself is requested, that every plot is
drawn with marks and has a size, and that the table has its rows. Exits 0 if all hold, 1 with a message for each that
does not, 2 where there is no browser to ask. Standard library only: it speaks the DevTools protocol over a pipe.
"""
import argparse
import base64
import collections
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]

# What the page holds once drawn: computed there, judged here.
INSPECT = """(() => {
  const size = (e) => { const box = e.getBoundingClientRect(); return [box.width, box.height]; };
  const marks = 'path, rect, line, circle, text';
  return {
    state: document.documentElement.dataset.plots || "",
    expected: Object.keys(JSON.parse((document.getElementById("plots") || {textContent: "{}"}).textContent)),
    plots: [...document.querySelectorAll(".plot")].map((plot) => {
      const drawn = plot.querySelector("svg, canvas");
      const groups = drawn ? drawn.querySelectorAll("[class*='mark-'][class*='role-mark']") : [];
      const caption = plot.parentElement.querySelector("figcaption");
      return {id: plot.id, caption: caption ? caption.textContent : "", size: drawn ? size(drawn) : [0, 0], label: plot.getAttribute("aria-label") || "",
              canvas: Boolean(drawn && drawn.tagName === "CANVAS"),
              marks: [...groups].reduce((sum, group) => sum + group.querySelectorAll(marks).length, 0)};
    }),
    rows: document.querySelectorAll("#results-table tbody tr.run").length,
    title: document.querySelector("h1") ? document.querySelector("h1").textContent : "",
    scripts: window.injected || 0,
    height: document.documentElement.scrollHeight, width: document.documentElement.scrollWidth, view: innerWidth,
  };
})()"""


class Browser:
    """A headless Chromium of its own, with an empty profile; all of its processes end with it."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="ddl-chromium-")
        command_out, self.to = os.pipe()
        self.back, reply_in = os.pipe()

        def at_three_and_four():
            # Chromium reads commands from descriptor 3 and answers on 4; move both out of the way first.
            spare_in, spare_out = os.dup(command_out), os.dup(reply_in)
            os.dup2(spare_in, 3)
            os.dup2(spare_out, 4)

        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, close_fds=False, preexec_fn=at_three_and_four,
            start_new_session=True)
        os.close(command_out)
        os.close(reply_in)
        self.number, self.buffer, self.events = 0, b"", []

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def read(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], max(0, until - time.monotonic()))
            if not ready:
                return None
            got = os.read(self.back, 1 << 20)
            if not got:
                self.log.seek(0)
                sys.exit("report_browser_test: the browser ended: " + self.log.read().decode(errors="replace")[-2000:])
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, timeout=60, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + timeout
        while (message := self.read(until)) is not None:
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"report_browser_test: {method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)
        sys.exit(f"report_browser_test: the browser did not answer {method} within {timeout} s")


def complaints(events, page):
    """What the console and the network say that they must not."""
    for event in events:
        method, said = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            detail = said["exceptionDetails"]
            yield "uncaught exception: " + detail.get("exception", {}).get("description", detail["text"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            words = [str(a.get("value", a.get("description"))) for a in said["args"]]
            yield f"console {said['type']}: " + " ".join(words)
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            yield f"log {said['entry']['level']}: {said['entry']['text']} {said['entry'].get('url', '')}"
        elif method == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if url != page and not url.startswith(("data:", "blob:", "about:")):
                yield "network request: " + url[:200]
        elif method == "Network.webSocketCreated":
            yield "web socket: " + said["url"]


def problems_of(page, arguments, browser):
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(domain + ".enable", session)
    browser.call("Emulation.setDeviceMetricsOverride", session, width=arguments.width, height=900,
                 deviceScaleFactor=1, mobile=False)
    scheme = "dark" if arguments.dark else "light"
    browser.call("Emulation.setEmulatedMedia", session, media="print" if arguments.print else "screen",
                 features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", session, url=page)

    until = time.monotonic() + 60
    while True:
        answer = browser.call("Runtime.evaluate", session, expression=INSPECT, returnByValue=True)["result"]
        found = answer.get("value")
        if found and found["state"]:
            break
        if time.monotonic() > until:
            yield "the page did not say within 60 s that its plots are drawn"
            break
        time.sleep(0.1)
    time.sleep(0.5)   # what comes late (a request, a warning) still counts
    found = browser.call("Runtime.evaluate", session, expression=INSPECT, returnByValue=True)["result"].get("value")
    if arguments.screenshot and found:
        browser.call("Emulation.setDeviceMetricsOverride", session, width=arguments.width, height=found["height"],
                     deviceScaleFactor=1, mobile=False)
        time.sleep(0.5)
        top, bottom = arguments.part or (0, found["height"])
        clip = {"x": 0, "y": top, "width": arguments.width, "height": bottom - top, "scale": 1}
        image = browser.call("Page.captureScreenshot", session, format="png", captureBeyondViewport=True,
                             clip=clip)["data"]
        pathlib.Path(arguments.screenshot).write_bytes(base64.b64decode(image))
    yield from complaints(browser.events, page)
    if not found:
        yield "the page could not be inspected"
        return

    if found["state"] != "ready":
        yield f"plots are not ready; got '{found['state']}'"
    if not found["title"]:
        yield "there is no title"
    if found["scripts"]:
        yield "text from a record ran as a script"
    if found["width"] > found["view"]:
        yield f"the page is wider than the window; got {found['width']} px, expected {found['view']} px"
    drawn = {plot["id"]: plot for plot in found["plots"]}
    for missing in set(found["expected"]) ^ set(drawn):
        yield f"plot {missing} has no place on the page, or no specification"
    for name, plot in drawn.items():
        width, height = plot["size"]
        if width < 50 or height < 20:
            yield f"plot {name} is not drawn; got {width:.0f} x {height:.0f} px"
        elif not plot["canvas"] and plot["marks"] == 0:
            yield f"plot {name} is empty: it has no marks"
        if not plot["label"]:
            yield f"plot {name} has no text for those who cannot see it"
    for wanted in arguments.captions:
        if not any(wanted in plot["caption"] for plot in drawn.values()):
            yield f"no plot is called '{wanted}'; got {sorted(plot['caption'] for plot in drawn.values())}"
    if arguments.plots is not None and len(drawn) != arguments.plots:
        yield f"number of plots; got {len(drawn)}, expected {arguments.plots}"
    if arguments.rows is not None and found["rows"] != arguments.rows:
        yield f"rows of the table; got {found['rows']}, expected {arguments.rows}"
    if arguments.rows is None and found["rows"] == 0:
        yield "the table has no rows"
    print(f"{pathlib.Path(arguments.report).name}: {len(drawn)} plots, {found['rows']} rows, "
          f"{sum(p['marks'] for p in drawn.values())} marks; “{found['title']}”")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("--rows", type=int, help="runs that the table must show (default: at least one)")
    parser.add_argument("--plots", type=int, help="plots that must be there (default: those the page announces)")
    parser.add_argument("--captions", nargs="+", default=[], metavar="WORDS", help="each in the caption of some drawn plot")
    parser.add_argument("--width", type=int, default=1280, help="of the window, in pixels")
    parser.add_argument("--dark", action="store_true", help="ask for the dark colour scheme")
    parser.add_argument("--print", action="store_true", help="as the printer would see it")
    parser.add_argument("--screenshot", metavar="FILE.png", help="of the whole page")
    parser.add_argument("--part", type=int, nargs=2, metavar=("TOP", "BOTTOM"),
                        help="pixels of the page to take instead")
    arguments = parser.parse_args()
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        print("report_browser_test: no chromium on the PATH; install it or set CHROMIUM", file=sys.stderr)
        return 2
    if not os.path.isfile(arguments.report):
        print(f"report_browser_test: no such file: {arguments.report}", file=sys.stderr)
        return 1
    page = pathlib.Path(arguments.report).resolve().as_uri()
    browser = Browser(program)
    try:
        problems = list(problems_of(page, arguments, browser))
    finally:
        browser.close()
    for problem, times in collections.Counter(problems).items():
        print(f"report_browser_test: {problem}" + (f" ({times} times)" if times > 1 else ""), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
