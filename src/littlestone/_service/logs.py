"""Logs as JSON, an object a line, for programs that collect them."""

import copy
import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from littlestone._service.server import ACCESS, LOGGING_CONFIG, describe_error

LogFormat: TypeAlias = Literal["text", "json"]


class JsonFormatter(logging.Formatter):
    """Format a line as JSON: time, level, message; of a request also its parts."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; it has passed `LogFilter`, so it holds no query."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.name == ACCESS and isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, path, _, status = record.args
            line |= {"client": client, "method": method, "path": path, "status": status}
        if record.exc_info and record.exc_info[1] is not None:
            # The type and the place only: the text of an error may quote a row.
            line["error"] = describe_error(record.exc_info[1])
        return json.dumps(line)


def logging_config(form: LogFormat) -> dict[str, Any]:
    """Return the configuration of logging for a format."""
    config = copy.deepcopy(LOGGING_CONFIG)
    if form == "json":
        config["formatters"]["line"] = {"()": JsonFormatter}
    return config
