#!/usr/bin/env python3
"""Take the pictures of the documentation again: pages in a browser without a window, and terminals.

    tools/take_pictures.py                        all of them: some minutes
    tools/take_pictures.py report certify         some of them
    tools/take_pictures.py --list
    tools/take_pictures.py --site site NAME       where the documentation was built, for pictures of its pages
    tools/take_pictures.py --keep work NAME       keep what the commands leave in a folder, and do not run them twice

``pictures.toml`` says what each picture shows. Each is made in an empty folder, or in the one of another picture, with
bundled data and a fixed seed. Nothing of this machine may be on a picture. Needs Chromium, playwright, pillow and pyte.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LIST = ROOT / "tools" / "pictures.toml"
LARGEST = 200_000
"""Maximum size of a picture in bytes."""

FOLDER_SHOWN = "/home/you"
COMMAND = f"""#!/bin/sh
exec {sys.executable} -c 'from evenhand.cli.main import main; main()' "$@"
"""
STEP = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALM = "*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent }"
BOX = """one => { const box = one.getBoundingClientRect();
return {left: box.left + scrollX, top: box.top + scrollY, right: box.right + scrollX, bottom: box.bottom + scrollY} }"""

ENTRIES = {
    "file": "the picture in docs/images",
    "shows": "what it shows, for those who maintain it",
    "in": "the picture whose folder, and service, this one is made in",
    "write": "files to write first: name = text",
    "follow": "a tutorial to follow until the page exists: its Python and its commands",
    "run": "commands to run; $ROOT is the repository",
    "serve": "a command that serves until the picture is taken; $URL is its address for what is asked",
    "ask": "commands to run while it serves",
    "page": "the page to show: a file, or a path of what is served",
    "site": "the page to show: of the built documentation",
    "terminal": "the command whose terminal to show",
    "recording": "the command whose terminal to show as it goes on",
    "drawn_by": "the script that draws it instead",
    "by_hand": "true if it was drawn by hand",
    "columns": "of the terminal",
    "rows": "of the terminal",
    "width": "of the browser's window, in pixels",
    "height": "of the browser's window, in pixels",
    "scale": "pixels of the picture for each pixel of the window",
    "do": "what to do on the page: click, hover, scroll, open (what is folded) SELECTOR; fill SELECTOR = TEXT; wait MS",
    "clip": "what to show of it: a selector, several in one box, or [x, y, width, height] from the page's corner",
    "margin": "pixels around a clip by selector",
    "tallest": "pixels from the top of a clip by selector that are shown at most",
}


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


class Studio:
    """Takes pictures with one browser, and shares folders and services between them."""

    def __init__(
        self, pictures: Mapping[str, Mapping[str, Any]], site: Path, kept: Path | None, stack: contextlib.ExitStack
    ) -> None:
        self._pictures, self._site, self._stack = pictures, site, stack
        self._base = kept.resolve() if kept else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._folders: dict[str, Path] = {}
        self._addresses: dict[str, str] = {}
        self._browser: Any = None
        commands = self._base / "bin"
        commands.mkdir(parents=True, exist_ok=True)
        (commands / "evenhand").write_text(COMMAND, "utf-8")
        (commands / "evenhand").chmod(0o755)
        self._environment = {
            **os.environ,
            "ROOT": str(ROOT),
            "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}",
            "PYTHONHASHSEED": "0",
        }
        for variable in ("NO_COLOR", "CI", "FORCE_COLOR"):
            self._environment.pop(variable, None)

    def take(self, name: str) -> Path:
        """Take a picture and write it."""
        picture = self._pictures[name]
        folder = self._prepare(name)
        target = IMAGES / picture["file"]
        if "terminal" in picture or "recording" in picture:
            drawn = self._draw_terminal(picture, folder).encode()
        else:
            drawn = _reduce(self._photograph(name, picture, folder), name)
        if len(drawn) > LARGEST:
            raise SystemExit(f"{name}: {len(drawn)} bytes, more than {LARGEST}: show less of it")
        if str(self._base).encode() in drawn:
            raise SystemExit(f"{name}: it shows the folder that it was made in")
        target.write_bytes(drawn)
        return target

    def _prepare(self, name: str) -> Path:
        """Return the folder of a picture, after running its commands."""
        picture = self._pictures[name]
        owner = picture.get("in", name)
        if owner != name:
            self._prepare(owner)
        if name in self._folders:
            return self._folders[name]
        folder = self._folders[owner] if owner != name else self._base / name
        if "serve" in picture:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        self._folders[name] = folder
        done = self._base / f"{name}.done"
        if not done.exists():
            for file, text in picture.get("write", {}).items():
                (folder / file).write_text(text, "utf-8")
            if "follow" in picture:
                self._follow(ROOT / picture["follow"], folder, folder / picture["page"])
            for command in picture.get("run", ()):
                self._run(command, folder)
            done.touch()
        if "serve" in picture:
            self._addresses[name] = self._serve(picture["serve"], folder)
        elif owner in self._addresses:
            self._addresses[name] = self._addresses[owner]
        for command in picture.get("ask", ()):
            self._run(command, folder, URL=self._addresses[name])
        return folder

    def _run(self, command: str, folder: Path, **more: str) -> None:
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=folder,
            env={**self._environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}")

    def _follow(self, tutorial: Path, folder: Path, page: Path) -> None:
        """Run a tutorial in this process, up to the page."""
        names: dict[str, object] = {}
        with contextlib.chdir(folder):
            for kind, text in STEP.findall(tutorial.read_text("utf-8")):
                if kind == "python":
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(text, tutorial.name, "exec"), names)
                else:
                    self._run(text.removeprefix("$ "), folder)
                if page.exists():
                    return
        raise SystemExit(f"{tutorial}: it does not lead to {page.name}")

    def _serve(self, command: str, folder: Path) -> str:
        """Start a service that ends with this program, and return its address."""
        served = subprocess.Popen(
            ["bash", "-ec", f"exec {command}"], cwd=folder, env=self._environment, stdout=subprocess.PIPE, text=True
        )

        def stop() -> None:
            served.send_signal(signal.SIGINT)
            served.wait(timeout=60)

        self._stack.callback(stop)
        assert served.stdout is not None
        for line in served.stdout:
            if found := re.search(r"http://[\d.]+:\d+", line):
                return found.group()
        raise SystemExit(f"{command}: it ended before it served")

    def _serve_site(self) -> str:
        """Serve the built documentation, whose search needs HTTP, and return its address."""
        if "site" not in self._addresses:
            handler = partial(QuietHandler, directory=str(self._site))
            server = self._stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._stack.callback(server.shutdown)
            self._addresses["site"] = f"http://127.0.0.1:{server.server_port}/"
        return self._addresses["site"]

    def _draw_terminal(self, picture: Mapping[str, Any], folder: Path) -> str:
        import record_terminal

        command = picture.get("terminal") or picture["recording"]
        columns = picture.get("columns", record_terminal.COLUMNS)
        hidden = {str(folder): FOLDER_SHOWN}
        found = record_terminal.record(command, folder, self._environment, columns, hidden)
        if "terminal" in picture:
            return record_terminal.draw_still(found, picture["shows"], command, picture.get("rows"))
        return record_terminal.draw_animation(
            found, picture["shows"], command, picture.get("rows", record_terminal.ROWS)
        )

    def _photograph(self, name: str, picture: Mapping[str, Any], folder: Path) -> bytes:
        """Open the page, perform the actions, and return the picture as PNG."""
        if "site" in picture:
            address = self._serve_site() + picture["site"]
        elif name in self._addresses:
            address = self._addresses[name] + picture["page"]
        else:
            address = (folder / picture["page"]).as_uri()
        context = self._open_browser().new_context(
            viewport={"width": picture.get("width", 1280), "height": picture.get("height", 900)},
            device_scale_factor=picture.get("scale", 1),
            color_scheme="light",
            reduced_motion="reduce",
            bypass_csp=True,
            locale="en-GB",
            timezone_id="UTC",
        )
        with contextlib.closing(context):
            page = context.new_page()
            answer = page.goto(address)
            if answer is not None and not answer.ok:
                raise SystemExit(f"{name}: {address} cannot be had ({answer.status}); was the documentation built?")
            page.add_style_tag(content=CALM)
            for step in picture.get("do", ()):
                _do(page, step)
            page.wait_for_timeout(300)
            taken: bytes = _clip(page, picture)
            return taken

    def _open_browser(self) -> Any:
        if self._browser is None:
            from playwright.sync_api import sync_playwright

            playwright = self._stack.enter_context(sync_playwright())
            self._browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            )
            self._stack.callback(self._browser.close)
        return self._browser


def _do(page: Any, step: str) -> None:
    """Perform an action on a page, as described by ``do``."""
    action, _, target = step.partition(" ")
    if action == "wait":
        page.wait_for_timeout(int(target))
    elif action == "fill":
        selector, _, text = target.partition(" = ")
        page.locator(selector).first.fill(text)
    elif action == "open":
        page.locator(target).first.evaluate("one => { one.closest('details').open = true }")
    elif action == "scroll":
        page.locator(target).first.evaluate("one => one.scrollIntoView({block: 'start', behavior: 'instant'})")
    elif action in ("click", "hover"):
        getattr(page.locator(target).first, action)()
    else:
        raise SystemExit(f"{step!r}: expected click, hover, open, scroll, fill or wait")


def _clip(page: Any, picture: Mapping[str, Any]) -> bytes:
    clip = picture.get("clip")
    if clip is None:
        return bytes(page.screenshot())
    if isinstance(clip, str):
        clip = [clip]
    if isinstance(clip[0], str):
        boxes = [page.locator(selector).first.evaluate(BOX) for selector in clip]
        margin = picture.get("margin", 6)
        left, top = (max(0, min(box[side] for box in boxes) - margin) for side in ("left", "top"))
        right, bottom = (max(box[side] for box in boxes) + margin for side in ("right", "bottom"))
        bottom = min(bottom, top + picture.get("tallest", bottom))
    else:
        left, top, right, bottom = clip[0], clip[1], clip[0] + clip[2], clip[1] + clip[3]
    box = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    return bytes(page.screenshot(full_page=True, clip=box))


def _reduce(png: bytes, name: str) -> bytes:
    """Reduce a picture to the largest palette within the size limit."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as full:
        image = full.convert("RGB")
    for colours in (256, 128, 64, 32):
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if len(out.getvalue()) <= LARGEST:
            return out.getvalue()
    raise SystemExit(f"{name}: more than {LARGEST} bytes even with 32 colours: show less of it")


def read_list() -> dict[str, dict[str, Any]]:
    """Read ``pictures.toml``, and check its entries."""
    pictures: dict[str, dict[str, Any]] = tomllib.loads(LIST.read_text("utf-8"))
    for name, picture in pictures.items():
        if unknown := set(picture) - set(ENTRIES):
            raise SystemExit(f"{name}: expected {', '.join(ENTRIES)}; got {', '.join(sorted(unknown))}")
        drawn = {"terminal", "recording", "drawn_by", "by_hand"} & set(picture)
        picture.setdefault("file", f"{name}.{'svg' if drawn else 'png'}")
    return pictures


def choose(pictures: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yield the given names, or all, grouped by folder."""
    if unknown := set(names) - set(pictures):
        raise SystemExit(f"no picture is called {', '.join(sorted(unknown))}; --list lists them")
    taken = [name for name, picture in pictures.items() if not {"drawn_by", "by_hand"} & set(picture)]
    if others := set(names) - set(taken):
        raise SystemExit(f"not taken but drawn: {', '.join(sorted(others))}; pictures.toml says by what")
    yield from sorted(names or taken, key=lambda name: (pictures[name].get("in", name), "in" in pictures[name]))


def main() -> None:
    """Take the given pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list the pictures")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="where the documentation was built")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what the commands leave, and use it again")
    given = parser.parse_args()
    pictures = read_list()
    if given.list:
        for name, picture in pictures.items():
            print(f"{name:24} {picture['file']:28} {picture['shows']}")
        return
    with contextlib.ExitStack() as stack:
        studio = Studio(pictures, given.site, given.keep, stack)
        for name in choose(pictures, given.names):
            written = studio.take(name)
            print(f"{written.relative_to(ROOT)}: {written.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
