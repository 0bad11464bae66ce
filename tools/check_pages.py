#!/usr/bin/env python3
"""Check every page of the built documentation on a narrow screen: no page scrolls sideways, and every picture loads.

    tools/check_pages.py [SITE]

SITE is where the documentation was built, by default site/. Exits with 1 and names the pages and the widest thing on
them. Needs Chromium and playwright.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium")
WIDTH = 400
"""Width of a phone screen in pixels."""

LOOK = """() => {
  const wide = document.documentElement.clientWidth
  const found = []
  if (document.documentElement.scrollWidth > wide) {
    let widest = null, right = wide
    const scrolls = one => one && one !== document.body &&
      (getComputedStyle(one).overflowX !== 'visible' || scrolls(one.parentElement))
    for (const one of document.querySelectorAll('main *, .md-main *')) {
      const end = one.getBoundingClientRect().right
      if (end > right && !scrolls(one.parentElement)) { widest = one; right = end }
    }
    const words = widest ? `<${widest.tagName.toLowerCase()}> ${widest.textContent.trim().slice(0, 60)}` : 'something'
    found.push(`${document.documentElement.scrollWidth - wide} pixels too wide: ${words}`)
  }
  for (const one of document.images) if (one.complete && !one.naturalWidth) found.push(`not loaded: ${one.src}`)
  return found
}"""


def main(site: Path) -> int:
    """Check all pages, and print the errors."""
    pages = sorted(site.rglob("*.html"))
    if not pages:
        print(f"there is no page in {site}: make docs", file=sys.stderr)
        return 2
    wrong = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 800}, reduced_motion="reduce")
        for path in pages:
            page.goto(path.resolve().as_uri(), wait_until="load")
            for fault in page.evaluate(LOOK):
                print(f"{path.relative_to(site)}: {fault}")
                wrong += 1
        browser.close()
    print(f"{len(pages)} pages at {WIDTH} pixels, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "site")))
