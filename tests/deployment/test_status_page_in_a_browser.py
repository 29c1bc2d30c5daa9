"""The status page of a real run in Chromium: on a phone and a desktop, in light and in dark."""

from __future__ import annotations

import html
import json
import re
import shutil
import ssl
import subprocess
from contextlib import ExitStack
from itertools import combinations

import pytest

pytest.importorskip("starlette")

import httpx
from deployment_tasks import KEY, small_task
from deployment_wired import Wired
from deployment_world import told

from ikos import Categories
from ikos.deployment import tokens
from ikos.deployment.analyzer import Stopped
from ikos.deployment.party_files import read_secrets, write_party_files
from ikos.deployment.reports import ClientReport

CHROMIUM = shutil.which("chromium")
WIDTHS = {"phone": 390, "desktop": 1280}
LABELS = ("yes", "<img src=x onerror=alert(1)>" + "W" * 70, "no")
WINDOWS = 60

# Looks at each page, which is in a frame as wide as a screen.
SCRIPT = """
const box = (e) => {
  const r = e.getBoundingClientRect();
  return [r.left, r.top, r.right, r.bottom];
};
onload = () => {
  const found = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument, width = frame.contentWindow.innerWidth;
    const style = (e) => frame.contentWindow.getComputedStyle(e);
    page.body.style.backgroundColor = "Canvas";
    const all = [...page.body.querySelectorAll("*")];
    const direct = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    return {
      name: frame.name,
      width,
      scrolled: page.documentElement.scrollWidth,
      beyond: all.filter((e) => box(e)[2] > width + 1).map((e) => e.outerHTML.slice(0, 99)),
      text: page.body.innerText,
      smallest: Math.min(...all.filter(direct).map((e) => parseFloat(style(e).fontSize))),
      colors: [style(page.body).backgroundColor, style(page.body).color,
               ...[...page.querySelectorAll("rect[class]")].map((e) => style(e).fill)],
      labels: [...page.querySelectorAll("svg text")].map(box),
    };
  });
  document.body.textContent = JSON.stringify(found);
};
"""


def luminance(color):
    """Return the relative luminance of a colour, as in WCAG 2."""
    shares = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def expired():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 10, "certificate has expired"
    return error


@pytest.fixture
def pages(tmp_path, date, quiet, remembered):
    """The pages of a run: of all tasks, and of windows released, failed and waiting."""
    task = small_task(
        20, 12, 9, (("domain", Categories([3])), ("labels", LABELS)), windows=WINDOWS
    )  # fmt: skip
    write_party_files(task, [KEY], tmp_path / "votes")
    secrets = read_secrets(tmp_path / "votes" / "clients")
    released, failed, waiting = WINDOWS - 3, WINDOWS - 2, WINDOWS - 1

    def send(net, window, values):
        date.now = task.at(window).opens
        for client, value in enumerate(values):
            report = ClientReport.make(task.at(window), value)
            for party in range(task.parties):
                token = tokens.digest(tokens.for_party(secrets[client], task, party))
                part = [(report.id, token, report.parts[party])]
                assert told(net.parties[party].at(window).intake.accept(part))

    with ExitStack() as stack:
        net = Wired(tmp_path / "votes", stack)
        send(net, released, [LABELS[0]] * 8 + [LABELS[1]] * 5)
        net.parties[0].at(released).release()
        send(net, failed, [LABELS[0]] * 4)
        with pytest.raises(Stopped):
            net.parties[0].at(failed).release()
        send(net, waiting, [LABELS[2]] * 3)
        answer, bad = net.wires.handle_request, task.address(2)

        def answered(request):
            if str(request.url).startswith(bad):
                raise httpx.ConnectError("of no use to people") from expired()
            return answer(request)

        net.wires.handle_request = answered
        net.wires.cut = {task.address(3)}
        direct = stack.enter_context(httpx.Client(transport=httpx.MockTransport(net.wires.answer)))
        paths = {"tasks": "/"}
        windows = {"released": released, "failed": failed, "waiting": waiting}
        paths |= {name: f"{task.at(number).path}/page" for name, number in windows.items()}
        yield {name: direct.get(task.analyzer + path).text for name, path in paths.items()}


def looked_at(pages, folder, scheme):
    """Return what a browser finds in each page at each width, by their names."""
    frames = "".join(
        f'<iframe name="{name} {screen}" width="{width}" height="2000" frameborder="0" '
        f'srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
        for screen, width in WIDTHS.items()
    )
    style = "<style>:root { color-scheme: light dark; }</style>"
    (folder / "all.html").write_text(f"<!doctype html>{style}{frames}<script>{SCRIPT}</script>")
    ran = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", f"--user-data-dir={folder / scheme}", "--window-size=1400,900",
            f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", "--dump-dom",
            (folder / "all.html").as_uri(),
        ],
        capture_output=True, timeout=120, check=True, text=True,
    )  # fmt: skip
    found = re.search(r"<body>(\[.*\])</body>", ran.stdout, re.DOTALL)[1]
    return {one["name"]: one for one in json.loads(html.unescape(found))}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_of_a_run(pages, tmp_path):
    dark, light = (looked_at(pages, tmp_path, scheme) for scheme in ("dark", "light"))
    assert dark.keys() == light.keys()
    for screen in WIDTHS:
        for name, words in {
            "tasks": ("Counts of 3 categories", "minimum 12", f"window {WINDOWS - 1} of 0 to"),
            "released": (f"{LABELS[1]}\t5\t[", "yes\t8\t[", "95 % interval", "minimum 12"),
            "failed": ("Why: 4 reports are complete, and nothing is released for fewer than 12",),
            "waiting": (
                "Shuffler 2: its certificate cannot be verified (renew it there, or check the "
                "clock here): certificate has expired.",
                "Shuffler 3 does not answer: connection refused.",
                "reloads itself every 5 s",
            ),
        }.items():
            for one in words:
                assert one in light[f"{name} {screen}"]["text"], (name, screen)
    for found in (*dark.values(), *light.values()):
        assert found["width"] == WIDTHS[found["name"].split()[1]]
        assert found["beyond"] == [], found["name"]
        assert found["scrolled"] <= found["width"], found["name"]
        assert found["smallest"] >= 12
        canvas, text, *bars = found["colors"]
        assert contrast(canvas, text) > 7
        assert all(contrast(canvas, bar) > 3 for bar in bars)
        for (left, top, right, bottom), other in combinations(found["labels"], 2):
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, (found["name"], found["labels"])
    assert all(luminance(found["colors"][0]) < 0.1 for found in dark.values())
    assert all(luminance(found["colors"][0]) > 0.9 for found in light.values())
