"""Run `littlestone serve` and `token`: a service until it is stopped, and its tokens."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from littlestone._data.kafka import TopicRows, is_topic, read_settings
from littlestone._learners.registry import check_name, planned_names
from littlestone._privacy.parameters import BadParameter
from littlestone._report.alerts import Alerts, destinations_of
from littlestone._store.budgets import BudgetFile, charge_run, check_budget, stored_budget
from littlestone._store.files import refuse_leftovers
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.sources import known_topic, open_topic
from littlestone._store.store import Store, create, open_store, read_store

if TYPE_CHECKING:
    from littlestone._service.tokens import TokenEntry

MISSING = "`serve` needs FastAPI, granian and prometheus_client: pip install 'littlestone[serve]'"
OPEN = (
    "warning: {host} can be reached from other machines. What they send and read goes over the "
    "network as it is, tokens included: pass --tls-certificate and --tls-key, or put a proxy that "
    "speaks TLS in front"
)


def serve(
    db: Path,
    task: LearnRequest,
    *,
    source: str | None,
    kafka_option: Sequence[str] | None,
    kafka_config: Path | None,
    host: str,
    port: int,
    tokens: Path | None,
    limit: Sequence[str] | None,
    host_name: Sequence[str] | None,
    trusted_proxy: Sequence[str] | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    log_format: Literal["text", "json"],
    audit_log: Path | None,
) -> None:
    """Serve a stored learner over HTTP, with a live page."""
    try:
        from littlestone._service.app import make_app
        from littlestone._service.limits import Limits
        from littlestone._service.operations import LOG, AuditLog, logging_config
        from littlestone._service.server import (
            Certificate,
            HttpServer,
            is_loopback,
            listening_socket,
        )
        from littlestone._service.tokens import Tokens
        from littlestone._service.writer import TopicFeeder
    except ModuleNotFoundError as error:
        # Any other missing module is a fault of ours, and must not be reported as a missing extra.
        if error.name not in ("fastapi", "granian", "prometheus_client", "pydantic", "starlette"):
            raise
        raise BadParameter(MISSING) from None
    limits = Limits.read(limit or ())
    check_name(task.learner, planned_names())
    task = replace(task, source=str(db), kafka=read_settings(kafka_option or (), kafka_config))
    if source is None and (task.kafka or task.new_rows):
        raise BadParameter("--kafka-option, --kafka-config and --new-rows require --source")
    if db.is_dir():
        raise BadParameter(f"{db} is a folder: a service has one learner, so name its file")
    secrets = tokens or db.with_name(f"{db.name}.tokens")
    # The port first: a service that cannot listen must not take the store from one that can.
    with listening_socket(host, port) as listening, ExitStack() as undo:
        if (tls_certificate is None) != (tls_key is None):
            raise BadParameter("--tls-certificate and --tls-key belong together: pass both")
        secure = Certificate(tls_certificate, tls_key) if tls_certificate and tls_key else None
        if not secrets.exists():
            undo.callback(secrets.unlink, missing_ok=True)
        keys = Tokens(secrets)
        server = HttpServer(
            listening,
            limits,
            proxies=trusted_proxy or (),
            certificate=secure,
            logs=logging_config(log_format),
            refresh=keys.refresh,
        )
        _refuse(db, task, source)
        rows = None if source is None else _topic(db, replace(task, source=source))
        audit = None if audit_log is None else AuditLog(audit_log)
        receivers = destinations_of(task)
        store, feeder = _store(db, task), None
        undo.pop_all()  # the service starts: its tokens stay
        if rows is not None:
            feeder = TopicFeeder(rows, task, store.about.chosen.plan.horizon)
        hosts = host, *(host_name or ())
        alerts = Alerts(store, receivers, LOG.warning)
        app = make_app(store, keys, limits, hosts=hosts, feeder=feeder, audit=audit, alerts=alerts)
        if not secure and not is_loopback(host):
            typer.echo(OPEN.format(host=host), err=True)
        # An IPv6 address stands in brackets in a URL.
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if secure else "http"
        typer.echo(f"page    {scheme}://{shown}:{listening.getsockname()[1]}/\ntokens  {secrets}")
        # Whoever started the service through a pipe waits for this line.
        sys.stdout.flush()
        server.run(app)
    typer.echo("stopped: what was acknowledged is in the file, and the service can go on from it")


def _refuse(path: Path, task: LearnRequest, source: str | None) -> None:
    """Refuse a request that does not fit the learner's file, before that is taken over."""
    if path.exists():
        about = read_store(path).about
        about.refuse_other(task, path)
        if about.terms.table and source is not None:
            raise BadParameter(f"{path} holds a finished table: leave out --source")
        return
    if task.table:
        raise BadParameter(
            f"--table: begin {path} with `littlestone learn FILE --table --db {path}`"
        )
    refuse_leftovers(path)
    begin = {"--class": task.spec, "--label": task.label, "--horizon": task.horizon}
    if missing := [option for option, value in begin.items() if not value]:
        raise BadParameter(f"{path} is not there yet: to begin it, say {', '.join(missing)}")


def _store(path: Path, task: LearnRequest) -> Store:
    """Open the learner's file, or begin it."""
    if path.exists():
        view = read_store(path)
        return _charged(stored_budget(view, task, path), open_store(path))
    account, cls = check_budget(task), task.cls
    store = create(path, task, choose_learner(task, task.horizon or 0, cls), cls=cls)
    return _charged(account, store)


def _charged(account: BudgetFile | None, store: Store) -> Store:
    """Return a store that has drawn what it costs; close it if it cannot."""
    try:
        for note in charge_run(store, account):
            typer.echo(f"note: {note}", err=True)
    except BaseException:
        store.close()
        raise
    return store


def _topic(path: Path, task: LearnRequest) -> TopicRows:
    """Open the topic that the service also learns, before the learner's file is taken over."""
    if not is_topic(task.source):
        raise BadParameter(f"--source {task.source}: it must be kafka://BROKERS/TOPIC")
    view = read_store(path) if path.exists() else None
    cls = task.cls if view is None else view.about.cls
    rows = open_topic(task if view is None else task.begun_as(view.about.terms), cls)
    if known_topic(() if view is None else view.sources, rows) is None and (note := rows.check()):
        typer.echo(f"note: {note}", err=True)
    return rows


def token(
    db: Path, *, rotate: Literal["feeder", "operator"] | None, overlap: float, tokens: Path | None
) -> None:
    """List the tokens of a service by name, or replace one without a restart."""
    try:
        from littlestone._service.tokens import read_tokens, rotate_token
    except ModuleNotFoundError:
        raise BadParameter("`token` needs pydantic: pip install 'littlestone[serve]'") from None

    path = tokens or db.with_name(f"{db.name}.tokens")
    if not path.exists():
        raise FileNotFoundError(2, "there are no tokens: `littlestone serve` makes them", str(path))
    if rotate is not None:
        made = rotate_token(path, rotate, overlap)
        ending = f"works until {_shown(made.until)}" if overlap else "does not work any more"
        typer.echo(f"{made.new} is in {path}; {made.old} {ending}")
        return
    for entry in read_tokens(path):
        typer.echo(f"{entry.name:<12} {_state(entry)}")


def _state(entry: "TokenEntry") -> str:
    if entry.until is None:
        return "present"
    verb = "works until" if entry.until > datetime.now(UTC) else "ended at"
    return f"{verb} {_shown(entry.until)}"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
