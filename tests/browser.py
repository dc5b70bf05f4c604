"""Opens pages in Chromium, without a window."""

import os
import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def browse(address: str, profile: os.PathLike, *arguments: str) -> subprocess.CompletedProcess:
    """Opens a page, and returns what Chromium printed; it must not fail.

    Args:
        address: URL of the page.
        profile: folder of its own for Chromium.
        *arguments: flags of Chromium, such as --dump-dom.
    """
    result = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            *arguments,
            address,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result
