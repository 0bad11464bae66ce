"""``evenhand monitor DATA --config M.yaml``: monitor decisions for gaps between groups."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand import monitoring, view
from evenhand.cli.options import ConfigOption, PageOptions, check_file
from evenhand.core.files import write_atomically
from evenhand.core.interrupts import INTERRUPTED, InterruptCounter
from evenhand.core.text import format_count
from evenhand.errors import DataError, EvenhandError, OptionError

if TYPE_CHECKING:
    from evenhand.monitoring.lines import LinePipe


SAVE_SECONDS = 1.0
"""Minimum interval between two saves of the state while lines arrive."""
PAGE_SECONDS = 5.0
"""Minimum interval between two renderings of the page."""
PAUSE_SECONDS = 0.2
"""Interval between two reads of a file without new lines."""
FAULTS_SHOWN = 5
"""Maximum number of faulty lines that are printed."""
UNWATCHED = 3
"""Exit code if no groups were compared, or a configured value never occurred."""


@dataclass(frozen=True)
class FollowOptions:
    """End of the run, and files of the monitor."""

    follow: bool = typer.Option(False, "--follow", help="Wait for more lines, until interrupted.")
    stop: bool = typer.Option(False, "--stop", help="Stop at the first alarm.")
    resume: Path | None = typer.Option(
        None, callback=check_file, help="File that stores the state; a later run resumes from it."
    )


class MonitorRun:
    """One run of the command: it reads lines, prints alarms, and updates the state and the page."""

    def __init__(
        self, data: str, config: monitoring.MonitorConfig, following: FollowOptions, output: PageOptions
    ) -> None:
        from evenhand.monitoring.lines import LinePipe, LineReader
        from evenhand.monitoring.webhook import AlarmPoster

        self.name = "standard input" if data == "-" else Path(data).name
        self.following, self.output = following, output
        self.streamed = following.follow or data == "-"
        self.started = time.monotonic()
        self.skipped, self.fault = 0, ""
        self.selected = False
        self.changed, self.saved, self.drawn = False, self.started, self.started
        self.monitor, kept = self._load(config)
        self.skipped = int(kept.get("skipped", 0))
        self.lines: monitoring.LineFile | LinePipe = (
            LinePipe(sys.stdin.fileno()) if data == "-" else monitoring.LineFile(Path(data), kept.get("position"))
        )
        self.posted = int(kept.get("posted", len(self.monitor.alarms)))
        self.poster = AlarmPoster(config.webhook, self.name)
        self.words: dict[str, list[DataError]] = {}
        """Errors of lines with an unknown decision or label, by message."""
        self.reader = LineReader(self.monitor.reader, table=data.lower().endswith((".csv", ".tsv")), state=kept)
        self._note()

    def _load(self, config: monitoring.MonitorConfig) -> tuple[monitoring.Monitor, dict[str, Any]]:

        path = self.following.resume
        if path is None or not path.exists():
            return monitoring.Monitor(config), {}
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"the state cannot be read: {error.strerror}", location=str(path)) from None
        return monitoring.read_state(data, config, location=str(path))

    def take_all(self, signals: InterruptCounter) -> None:
        """Read lines until the end of the input, the first alarm with ``--stop``, or an interrupt."""
        with view.show_progress(quiet=self.output.silent or self.streamed) as progress:
            while not signals.count and not (self.following.stop and self.monitor.alarms):
                lines = self.lines.read(last=not self.following.follow)
                if lines:
                    self._take(lines)
                    progress(f"{self.monitor.decisions:,} decisions", 0.5)
                elif self._is_ended():
                    if self.reader.rest:
                        self._take([], last=True)
                    break
                if self.streamed:
                    self._post()
                now = time.monotonic()
                if self.changed and (now - self.saved > SAVE_SECONDS or not lines):
                    self.save()
                if self.streamed and now - self.drawn > PAGE_SECONDS:
                    self._draw()
        self._post(last=True)
        self.save()

    def _is_ended(self) -> bool:
        """Whether no more lines will come. If they may, wait a little."""
        ended = getattr(self.lines, "ended", None)
        if ended is not None:
            return bool(ended)
        if not self.following.follow:
            return True
        if self.lines.reopen():  # type: ignore[union-attr]  # a pipe has the attribute ``ended``
            self._note()
        else:
            time.sleep(PAUSE_SECONDS)
        return False

    def _take(self, lines: list[bytes], *, last: bool = False) -> None:
        from evenhand.monitoring.events import OutcomeWordError
        from evenhand.monitoring.result import describe_selection

        events, errors = self.reader.read(lines, last=last)
        for error in errors:
            self.skipped += 1
            if isinstance(error, OutcomeWordError):
                self.words.setdefault(error.message, []).append(error)
            self.fault = self.fault or str(error)
            if self.skipped <= FAULTS_SHOWN and not self.output.quiet:
                typer.echo(f"note: {error.location} is skipped: {error.message}", err=True)
        update = self.monitor.take(events)
        self.changed = True
        if self.streamed and not self.output.silent:
            for id in update.audits:
                self._print({"audit": id})
            for alarm in update.alarms:
                self._print({"text": f"{alarm.sentence}.", "alarm": alarm.model_dump(mode="json")})
        bias = describe_selection(self.monitor.selection.result())
        if bias and not self.selected and not self.output.quiet:
            typer.echo(f"note: {bias}", err=True)
        self.selected = bool(bias)

    def _post(self, *, last: bool = False) -> None:
        """Post new alarms. Failed posts are repeated later, or by the next run."""

        def keep(number: int) -> None:
            self.posted, self.changed = number, True

        try:
            self.poster.post(self.monitor.alarms, self.posted, keep, last=last)
        except EvenhandError as error:
            then = (
                ""
                if not last
                else "; the next run with this --resume does"
                if self.following.resume
                else "; it is lost"
            )
            typer.echo(f"note: an alarm could not be posted: {error.message}{then}", err=True)

    def _print(self, line: dict[str, object]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def _note(self) -> None:
        if self.lines.note and not self.output.quiet:
            typer.echo(f"note: {self.lines.note}", err=True)

    def save(self) -> None:
        """Write the state, if it changed."""
        if self.following.resume is not None and self.changed:
            more = {
                "position": self.lines.position,
                "skipped": self.skipped,
                "posted": self.posted,
                **self.reader.state,
            }
            try:
                write_atomically(self.following.resume, monitoring.write_state(self.monitor, more=more))
            except OSError as error:
                raise DataError(
                    f"the state cannot be written: {error.strerror}", location=str(self.following.resume)
                ) from None
        self.changed, self.saved = False, time.monotonic()

    def _draw(self) -> None:
        """Write the page."""
        if self.output.html is not None and self.monitor.measures:
            result = self.monitor.result(seconds=time.monotonic() - self.started, skipped=self.skipped)
            self.output.write_files(result, partial(result.document, self.name))
        self.drawn = time.monotonic()

    def _list_words(self) -> str:
        """Describe unknown decisions and labels, each with the number of its lines and the first line."""
        return "; ".join(
            f"{format_count(len(errors), 'line', 'lines')}, the first of them {errors[0].location}: {message}"
            for message, errors in self.words.items()
        )

    def finish(self, *, interrupted: bool) -> None:
        """Write the result. Exit with 1 after an alarm, and with 3 if the monitor is not complete."""
        if self.words and not self.streamed:
            hint = next(iter(self.words.values()))[0].hint
            raise DataError(f"unknown decisions or labels: {self._list_words()}", location=self.name, hint=hint)
        if not self.monitor.decisions and not self.monitor.waiting:
            if interrupted:
                raise typer.Exit(INTERRUPTED)
            raise DataError(
                f"there is no decision in {self.name}" + (f": {self.fault}" if self.fault else ""),
                hint='write a line such as {"sex": "female", "decision": 1}',
            )
        from evenhand.monitoring.result import list_cautions

        result = self.monitor.result(seconds=time.monotonic() - self.started, skipped=self.skipped)
        document = partial(result.document, self.name)
        pages = self.output.write_files(result, document)
        if self.output.json is not None:
            self.output.emit(result.to_json())
        if not self.streamed:
            self.output.show(document, pages)
        elif not self.output.quiet:
            for caution in list_cautions(result):
                typer.echo(f"note: {caution}", err=True)
            if self.words:
                typer.echo(f"note: unknown decisions or labels: {self._list_words()}", err=True)
        if interrupted:
            raise typer.Exit(INTERRUPTED)
        if result.alarms:
            raise typer.Exit(1)
        if result.absent or self.words or not result.compared:
            raise typer.Exit(UNWATCHED)


def monitor(
    data: Annotated[
        str,
        typer.Argument(
            help="Decisions and labels: JSON lines, the log of a shield, or a .csv or .tsv file; - is standard input."
        ),
    ],
    config: ConfigOption,
    following: FollowOptions,
    output: PageOptions,
) -> None:
    """Monitor decisions for gaps between groups.

    Intervals and alarms are valid at any time. With --follow or standard input, alarms and audits are printed as JSON
    lines; otherwise the result at the end. Exit code 1 after an alarm; 3 if no groups were compared, or a configured
    value never occurred.
    """
    settings = monitoring.read_monitor_config(config)
    if data != "-" and not Path(data).is_file():
        raise OptionError(f"there is no file {data!r}", hint="pass a file of decisions, or - for standard input")
    with InterruptCounter() as signals:
        run = MonitorRun(data, settings, following, output)
        try:
            run.take_all(signals)
        finally:
            run.lines.close()
    run.finish(interrupted=bool(signals.count))
