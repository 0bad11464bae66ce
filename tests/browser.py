"""The browser that tests look at pages with."""

import shutil
from pathlib import Path

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

CHECK = (Path(__file__).parent / "accessibility.js").read_text("utf-8")
"""Names of controls, landmarks, headings, tables, and contrast (WCAG 2.2: 4.5 for texts, 3 for what is drawn)."""
