#!/usr/bin/env python3
"""Make the picture in the tutorial on language models: do what the tutorial does, and photograph the audit's page.

    tools/picture_llm_audit.py [CHROMIUM]

CHROMIUM is the browser's command. Evenhand must be importable by the Python that runs this.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTORIAL = ROOT / "docs" / "tutorial" / "audit-an-llm-that-screens-cvs.md"
PICTURE = ROOT / "docs" / "images" / "llm-audit.png"
STEP = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = f"{sys.executable} -c 'from evenhand.cli.main import main; main()'"


def main(browser: str) -> None:
    """Run the steps up to the audit in an empty folder, then take the picture."""
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, text in STEP.findall(TUTORIAL.read_text(encoding="utf-8")):
            if kind == "python":
                exec(compile(text, TUTORIAL.name, "exec"), names)
            else:
                command = text.removeprefix("$ ").replace("evenhand", COMMAND, 1)
                subprocess.run(["bash", "-ec", command], check=True, stdout=subprocess.DEVNULL)
            if (page := Path(folder, "audit.html")).exists():
                break
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
        subprocess.run(
            [browser, *flags, "--window-size=1000,1100", f"--screenshot={PICTURE}", page.as_uri()],
            check=True,
            stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "chromium")
