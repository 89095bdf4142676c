"""The floor for the service: a bare FastAPI route that parses a body and commits its bytes.

Run as a process by `service`, in a folder of its own; prints the port. The server is that of the
service: granian, on a socket with the same options.
"""

import asyncio
import json
import sqlite3

from fastapi import FastAPI, Request

from littlestone._service.server import Listener, listening_socket

app = FastAPI()
db = sqlite3.connect("bare.db", isolation_level=None, check_same_thread=False)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA synchronous = FULL")
db.execute("CREATE TABLE batches (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT")


@app.post("/rounds")
async def rounds(request: Request) -> dict[str, int]:
    """Parse the rows, commit the bytes, say how many."""
    body = await request.body()
    lines = "ndjson" in request.headers["content-type"]
    found = list(map(json.loads, body.splitlines())) if lines else json.loads(body)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO batches (body) VALUES (?)", [body])
    db.execute("COMMIT")
    return {"rounds": len(found)}


@app.get("/hypothesis")
async def hypothesis() -> dict[str, int]:
    """Say how many batches there are."""
    (count,) = db.execute("SELECT coalesce(max(id), 0) FROM batches").fetchone()
    return {"batches": count}


if __name__ == "__main__":
    with listening_socket("127.0.0.1", 0) as listening:
        print(f"page http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
        asyncio.run(Listener(listening, app, log_enabled=False).serve())
