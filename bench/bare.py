"""The floor for the service: a bare FastAPI route that parses a body and commits its bytes.

Run as a process by `service`, in a folder of its own; prints the port.
"""

import json
import socket
import sqlite3
import sys

import uvicorn
from fastapi import FastAPI, Request

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
    # Named TCP, or asyncio would not ask it to send small answers at once.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(f"page http://127.0.0.1:{listening.getsockname()[1]}/")
        sys.stdout.flush()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        server.run(sockets=[listening])
