"""Tell others of a new release, by a webhook or a command. What is sent is public.

Promises: nothing is sent before the transaction that holds it is on disk. Every destination gets each
release in order, and again until it takes it. What was taken is noted beside the learner's file, so a
run that goes on sends what is missing, and nothing twice; if it was killed between an answer and the
note, that release is sent again with the same id.
"""

import hmac
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from threading import Condition, Thread
from typing import Any, BinaryIO, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from littlestone._display import library_version
from littlestone._hypotheses.rules import NEVER
from littlestone._privacy.parameters import BadParameter
from littlestone._report.causes import label_in_words, rule_in_words
from littlestone._store.files import BadStore, file_lock
from littlestone._store.releases_file import evidence_at, release_to_json
from littlestone._store.request import LearnRequest
from littlestone._store.store import Published, Run

# Seconds: for an answer, for a command, before the first and at most before another attempt, and for
# what is left when a run ends.
ANSWER, COMMAND, FIRST_PAUSE, LONGEST_PAUSE, PATIENCE = 10.0, 60.0, 1.0, 60.0, 30.0
SLACK = "slack+"
Alert = Mapping[str, Any]


class Destination(NamedTuple):
    """Where alerts go. Its name can be shown; the URL of a webhook is often a secret."""

    name: str
    digest: str
    send: Callable[[Alert], object]


def destinations_of(task: LearnRequest) -> list[Destination]:
    """Return where the alerts of a request go; refuse what cannot be used."""
    receivers = []
    if task.alert_key is not None and task.on_release is None:
        raise BadParameter("--alert-key requires --on-release: it signs what a webhook gets")
    if task.on_release is not None:
        key = None if task.alert_key is None else task.alert_key.read_bytes().strip()
        if key is not None and len(key) < 16:
            raise BadParameter(f"{task.alert_key}: a key has at least 16 characters")
        receivers.append(_webhook(task.on_release, key))
    if task.command is not None:
        receivers.append(_command(task.command))
    return receivers


class _NoRedirects(HTTPRedirectHandler):
    """Refuse to follow: an alert is for the address that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _webhook(url: str, key: bytes | None) -> Destination:
    address, opener = url.removeprefix(SLACK), build_opener(_NoRedirects)
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadParameter("--on-release is http://..., https://... or slack+https://...")

    def send(alert: Alert) -> None:
        body = json.dumps(_for_slack(alert) if url.startswith(SLACK) else alert).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"littlestone/{library_version()}",
            "X-Littlestone-Id": alert["id"],
        }
        if key is not None:
            now = str(int(time.time()))
            signed = hmac.new(key, now.encode() + b"." + body, sha256).hexdigest()
            headers |= {"X-Littlestone-Time": now, "X-Littlestone-Signature": f"sha256={signed}"}
        opener.open(Request(address, body, headers), timeout=ANSWER).close()

    return Destination(f"the webhook at {parts.hostname}", _digest(url), send)


def _for_slack(alert: Alert) -> dict[str, str]:
    # These three begin mentions and links there: values of the data must not.
    signs = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    return {"text": "".join(signs.get(sign, sign) for sign in alert["text"])}


def _command(text: str) -> Destination:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadParameter(f"--exec {text}: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise BadParameter(f"--exec {text}: there is no such command")

    def send(alert: Alert) -> None:
        # No shell, and data on standard input only: values of the data are no words of a command.
        # What it prints goes to standard error, as standard output is the learner's.
        body = json.dumps(alert) + "\n"
        subprocess.run(words, input=body, text=True, stdout=2, timeout=COMMAND, check=True)

    return Destination(f"the command {words[0]}", _digest(text), send)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _why(error: Exception) -> str:
    """Say why sending failed, without the URL."""
    if isinstance(error, HTTPError):
        return f"it answered {error.code}"
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with {error.returncode}"
    is_late = isinstance(error, subprocess.TimeoutExpired | TimeoutError)
    return "it takes too long" if is_late else str(error)


class Alerts:
    """Send the releases of a run, in a thread of its own: learning waits for no one."""

    def __init__(
        self, run: Run, destinations: Sequence[Destination], warn: Callable[[str], object]
    ) -> None:
        self._run, self._about, self._warn = run.run, run.about, warn
        self._public = run.published
        self._destinations, self._failing = list(destinations), set[str]()
        self._changed, self._until = Condition(), float("inf")
        self._held = ExitStack()
        self._file: BinaryIO | None = None
        # The number of the last release that each has taken, or that is older than its use.
        begun = len(self._public.releases)
        self._taken = {each.digest: begun for each in self._destinations}
        if destinations and run.path is not None:
            self._open(run.path.with_name(f"{run.path.name}.alerts"))
        self._thread = Thread(target=self._work, name="alerts", daemon=True)
        if destinations:
            self._thread.start()

    def _open(self, path: Path) -> None:
        """Read what was taken before, and note where a new destination begins."""
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = file = self._held.enter_context(os.fdopen(made, "ab+"))
        try:
            self._held.enter_context(file_lock(file))
        except BlockingIOError:
            self._held.close()
            raise BadStore(f"{path}: another process sends these alerts: end it first") from None
        file.seek(0)
        noted, text = dict[str, int](), file.read()
        if text and not text.endswith(b"\n"):
            file.write(b"\n")  # a line was cut short: the next one must not continue it
        for line in text.split(b"\n"):
            try:
                run, digest, number = json.loads(line)
            except ValueError:
                continue
            if run == self._run:
                noted[digest] = number
        for digest, number in self._taken.items():
            if digest in noted:
                self._taken[digest] = noted[digest]
            else:
                self._note(digest, number)

    def __enter__(self) -> "Alerts":
        return self

    def __exit__(self, problem: object, *_: object) -> None:
        self.close(PATIENCE if problem is None else 0)

    def publish(self, published: Published) -> None:
        """Send what is new. It must be on disk. Returns at once."""
        with self._changed:
            is_new = len(published.releases) > len(self._public.releases)
            self._public = published
            if is_new:
                self._changed.notify()

    def close(self, patience: float = PATIENCE) -> None:
        """Send what is left, for so many seconds at most."""
        if not self._destinations:
            return
        with self._changed:
            self._until = time.monotonic() + patience
            self._changed.notify()
        self._thread.join(patience + ANSWER)
        for each in self._destinations:
            if missing := self._left(each):
                self._warn(f"{each.name} lacks {missing} alerts: with --db the next run sends them")
        if not self._thread.is_alive():
            self._held.close()

    def _left(self, to: Destination) -> int:
        return max(0, len(self._public.releases) - self._taken[to.digest])

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                due = [each for each in self._destinations if self._left(each)]
                seconds = self._until - time.monotonic()
                if seconds <= 0 or (not due and seconds < float("inf")):
                    return
                if not due:
                    self._changed.wait()
                    continue
            taken = [self._deliver(each) for each in due]
            if any(taken):
                pause = FIRST_PAUSE
                continue
            with self._changed:
                self._changed.wait(min(pause, max(0.0, self._until - time.monotonic())))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _deliver(self, to: Destination) -> bool:
        """Send a destination its next alert; return whether it was taken."""
        number = self._taken[to.digest] + 1
        try:
            to.send(self._alert(number))
        except (OSError, HTTPException, subprocess.SubprocessError) as error:
            if to.digest not in self._failing:
                self._warn(f"{to.name} did not take an alert: {_why(error)}. It is sent again")
            self._failing.add(to.digest)
            return False
        self._failing.discard(to.digest)
        self._taken[to.digest] = number
        try:
            self._note(to.digest, number)
        except OSError as error:
            self._warn(f"an alert was taken, which could not be noted: {error.strerror}")
        return True

    def _note(self, digest: str, number: int) -> None:
        if self._file is not None:
            self._file.write(json.dumps([self._run, digest, number]).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _alert(self, number: int) -> Alert:
        """Return what is sent of a release: what the releases file says, and a sentence."""
        public, terms = self._public, self._about.terms
        release = public.releases[number - 1]
        label, guarantee = label_in_words(**terms.label_data), str(public.guarantee)
        sentence = rule_in_words(release.rule, label)
        if release.rule == NEVER and public.evidence is not None:
            sentence = f"no cause of {label} is published any more"
        ended = [window for window in public.windows if window.stop < release.round]
        when = f"from event {release.round:,} on"
        if terms.table:
            when = f"in a table of {public.rounds:,} rows"
        return {
            "id": f"{self._run}-{number}",
            "text": f"{sentence}, {when}. {guarantee}.",
            **release_to_json(release),
            "sentence": sentence,
            **evidence_at(ended, release),
            **terms.label_data,
            "class": terms.spec,
            "guarantee": guarantee,
            "run": self._run,
            "number": number,
        }
