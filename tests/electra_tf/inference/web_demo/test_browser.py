"""The page in a real browser, headless Chromium: what scripts and styles make of it."""

import html
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest

from electra_tf.inference.web_demo.app import create_app
from electra_tf.inference.web_demo.server import PageServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def url(demo_config):
    server = PageServer("127.0.0.1", 0, create_app(demo_config), request_seconds=30)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()


def browse(url: str, profile, *arguments: str, **texts: str) -> str:
    """Opens the page, which asks the models for texts in its address; returns its HTML."""
    result = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            "--virtual-time-budget=20000",
            *arguments,
            f"{url}?{urllib.parse.urlencode(texts)}",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_token_is_shaded_and_has_alternatives(url, tmp_path):
    page = browse(url, tmp_path, "--dump-dom", text="w1 w2 w3")
    tokens = re.findall(
        r'<span class="token(?: open)?" tabindex="0" data-probability="([\d.]+)" '
        r'style="background-color: rgba\(220, 38, 38, ([\d.]+)\);">(\w+)<table>(.*?)</table>',
        page,
    )
    assert [token for *_, token, _ in tokens] == ["w1", "w2", "w3"]
    for probability, shade, _, table in tokens:
        assert float(probability) == pytest.approx(float(shade), abs=0.01)
        assert table.count("<tr>") == 4  # its own probability and three alternatives
    most_suspected = max(tokens, key=lambda found: float(found[0]))[2]
    assert re.search(rf'"token open"[^>]*>{most_suspected}<table>', page)
    # The same text went to the task: its labels are text, whatever they look like.
    assert html.escape("<b>b</b>") in page
    assert "<b>b</b>" not in page


def test_what_is_typed_is_never_read_as_html(url, tmp_path):
    typed = "<img src=x onerror=alert(1)> w1"
    page = browse(url, tmp_path, "--dump-dom", text=typed)
    assert "<img" not in page
    assert html.escape(typed, quote=False) not in page.split('<div class="result"')[1]


def test_a_text_that_is_too_long_is_answered_by_an_error(url, tmp_path):
    page = browse(url, tmp_path, "--dump-dom", text="w1 " * 50)
    assert "<p class=\"error\">'text' has 150 characters; the limit is 100</p>" in page


def test_the_page_is_drawn(url, tmp_path):
    picture = tmp_path / "page.png"
    browse(url, tmp_path / "profile", f"--screenshot={picture}", text="w1 w2 w3")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 5000
