"""A step of the build: the wheel gets a file with its version, which a checkout and an editable install do not have."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class VersionFileHook(BuildHookInterface[Any]):
    """Put ``evenhand/VERSION`` into the wheel, and leave the sources as they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file, except in editable installs, where it would become outdated."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "VERSION"
        file.write_text(f"{self.metadata.version}\n", "utf-8")
        build_data["force_include"][str(file)] = "evenhand/VERSION"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder that the file was written into."""
        if version != "editable":
            self._folder.cleanup()
