"""Measure the time to the first guarded picture: `evenhand serve` in an empty folder, asked over HTTP.

    python tools/first_picture.py [EVENHAND]

EVENHAND is the command, by default the one on the path. Exits with 1 if the picture took a minute or was not guarded.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BAR = 60.0
"""Seconds that a newcomer may wait."""

PNG = b"\x89PNG\r\n\x1a\n"


def main(command: str) -> int:
    """Start the service, request a picture, stop it, and print the time of each step."""
    found = shutil.which(command)
    if found is None:
        print(f"there is no command {command!r}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(
            [str(Path(found).absolute()), "serve", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, text=True
        ) as served:
            try:
                url = address(served)
                ready = time.monotonic() - begun
                kind, guarded, picture = ask(url)
                seconds = time.monotonic() - begun
            finally:
                served.send_signal(signal.SIGINT)
                served.wait(timeout=60)
        kept = sorted(path.name for path in Path(folder).iterdir())
    print(f"it listened after {ready:.1f} s; the first picture came after {seconds:.1f} s: {kind}, guarded: {guarded}")
    print(f"it ended with {served.returncode}, and left {', '.join(kept)}")
    good = guarded == "true" and picture.startswith(PNG) and seconds < BAR and served.returncode == 0
    return 0 if good else 1


def address(served: subprocess.Popen[str]) -> str:
    """Where it says that it listens."""
    assert served.stdout is not None
    for line in served.stdout:
        if found := re.search(r"http://\S+", line):
            return found.group()
    raise SystemExit("it ended before it served")


def ask(url: str) -> tuple[str, str | None, bytes]:
    """A picture: its kind, whether it was guarded, its bytes."""
    body = json.dumps({"prompt": "a business leader"}).encode()
    request = urllib.request.Request(f"{url}/v1/images/generations", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=BAR) as answer:
        picture = base64.b64decode(json.load(answer)["data"][0]["b64_json"])
        return f"{len(picture):,} bytes", answer.headers["x-evenhand-guarded"], picture


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["evenhand"]))
