"""Fifty clients ask and tell a run over HTTP while its server is killed by SIGKILL and restarted: is anything lost, is
anything told twice, and how long does a tell take?

    python benchmarks/serve.py
    python benchmarks/serve.py --rollouts 2000 --clients 20 --kills 1     # a short one
    python benchmarks/serve.py --method hpsde-reps-gp --rollouts 2000 --batch 200 --results FILE

Each client asks for a rollout, takes some time to do it, as a robot would, and tells its return, on a connection of its
own. A call without an answer is made again. Every answer is noted by the client that got it, and in the end what was
noted is compared with the database. Clients run in one process, which has a share in every time that is measured.
Rollouts that were asked for just before a kill, whose answer nobody got, are found by GET /open and told in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "serve.json"
WANTED_MS = 50.0
BLIND_SECONDS = 1.0  # after a restart, when all clients come at once: counted apart


class Notes:
    """What clients have seen."""

    def __init__(self) -> None:
        self.asked: dict[int, list[float]] = {}
        self.told: dict[int, float] = {}
        self.times: dict[str, list[tuple[float, float]]] = {"ask": [], "tell": []}  # when, and how long
        self.problems: list[str] = []
        self.retries = self.again = 0
        self.starts: list[float] = []
        self.server_seconds = 0.0  # of a core, without the process that asks and learns


class Client:
    """One connection that stays open, and what to do when it breaks."""

    def __init__(self, port: int, notes: Notes, rng: random.Random, rollout_seconds: tuple[float, float]):
        self.port, self.notes, self.rng, self.rollout_seconds = port, notes, rng, rollout_seconds
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, path: str, content: Any) -> tuple[int, Any]:
        """Status and answer; again until there is one."""
        body = json.dumps(content).encode()
        head = f"POST /{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        while True:
            try:
                if self.streams is None:
                    self.streams = await asyncio.open_connection("127.0.0.1", self.port)
                reader, writer = self.streams
                started = time.perf_counter()
                writer.write(request)
                await writer.drain()
                status, answer = await _read_answer(reader)
                if status == 200:
                    now = time.perf_counter()
                    self.notes.times[path].append((now, now - started))
                if status != 503:
                    return status, json.loads(answer)
            except (OSError, asyncio.IncompleteReadError):
                self.streams = None
            self.notes.retries += 1
            await asyncio.sleep(0.1 + 0.2 * self.rng.random())

    async def work(self, left: list[int]) -> None:
        """Rollouts until none is left."""
        while left:
            left.pop()
            context = [self.rng.uniform(0.0, 2.0)]
            status, answer = await self.call("ask", {"contexts": [context]})
            if status != 200:
                self.notes.problems.append(f"ask: {status} {answer}")
                continue
            (rollout,) = answer["rollouts"]
            if rollout["id"] in self.notes.asked:
                self.notes.problems.append(f"rollout {rollout['id']} was given to two clients")
            self.notes.asked[rollout["id"]] = rollout["parameters"]
            await asyncio.sleep(self.rng.uniform(*self.rollout_seconds))
            await self.tell(rollout["id"], value_of(context, rollout["parameters"]))

    async def tell(self, number: int, value: float) -> None:
        """Tell, and note what was answered."""
        status, answer = await self.call("tell", {"id": number, "return": value})
        if status != 200 or number not in answer["told"] + answer["again"]:
            self.notes.problems.append(f"tell {number}: {status} {answer}")
            return
        self.notes.again += number in answer["again"]
        self.notes.told[number] = value


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


def value_of(context: list[float], parameters: list[float]) -> float:
    """Two ridges."""
    return float(np.exp(-4.0 * abs(abs(parameters[0] - 0.1 * context[0]) - 0.6)))


def start(folder: Path, port: int, notes: Notes) -> subprocess.Popen[str]:
    """A server that listens."""
    words = [sys.executable, "-m", "hpsde", "serve", str(folder), "--port", str(port), "--rate", "1e6"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline() if server.stdout else ""
    if "served at" not in line:
        raise SystemExit(f"the server did not start: {line}")
    notes.starts.append(time.perf_counter())
    return server


async def drive(folder: Path, given: argparse.Namespace, notes: Notes) -> float:
    """All clients, and the kills in between; the seconds it took."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    rng, loop = random.Random(given.seed), asyncio.get_running_loop()
    server, left, started = start(folder, port, notes), list(range(given.rollouts)), time.perf_counter()
    clients = [
        Client(port, notes, random.Random(rng.random()), (given.shortest, given.longest)) for _ in range(given.clients)
    ]
    working = [asyncio.ensure_future(client.work(left)) for client in clients]
    for kill in range(given.kills):
        aim = given.rollouts * (kill + 1) / (given.kills + 1)
        while len(notes.told) < aim:
            await asyncio.sleep(0.005)
        notes.server_seconds += seconds_of(server.pid)
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = await loop.run_in_executor(None, start, folder, port, notes)
    await asyncio.gather(*working)
    seconds = time.perf_counter() - started
    await tell_orphans(clients[0], folder, notes)
    notes.server_seconds += seconds_of(server.pid)
    server.send_signal(signal.SIGTERM)
    if server.wait(60) != 0:
        notes.problems.append(f"the server ended with {server.returncode}")
    return seconds


def seconds_of(process: int) -> float:
    """Seconds of a core that a process has used; 0 where /proc does not say."""
    try:
        used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


async def tell_orphans(client: Client, folder: Path, notes: Notes) -> None:
    """Rollouts whose ask was stored, but whose answer was lost with the server."""
    address = f"http://127.0.0.1:{client.port}/open"
    shown = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"import urllib.request as r; print(r.urlopen('{address}').read().decode())"),
        stdout=subprocess.PIPE,
    )
    text, _ = await shown.communicate()
    for rollout in json.loads(text)["rollouts"]:
        if rollout["id"] in notes.asked:
            notes.problems.append(f"rollout {rollout['id']} was told, and is open")
        await client.tell(rollout["id"], value_of(rollout["context"], rollout["parameters"]))


def compare(folder: Path, notes: Notes) -> dict[str, Any]:
    """What the database has, beside what clients were told it has."""
    with sqlite3.connect(folder / "rollouts.sqlite") as connection:
        rows = connection.execute('SELECT id, status, "return", parameters FROM rollouts').fetchall()
        steps = connection.execute("SELECT count(*) FROM steps").fetchone()[0]
    stored = {number: value for number, status, value, _ in rows if status == "done"}
    parameters = {number: np.frombuffer(blob).tolist() for number, _, _, blob in rows}
    return {
        "rollouts_in_database": len(rows),
        "told_in_database": len(stored),
        "told_to_clients": len(notes.told),
        "lost": sum(number not in stored for number in notes.told),
        "changed": sum(stored.get(number) != value for number, value in notes.told.items()),
        "asks_changed": sum(parameters.get(number) != value for number, value in notes.asked.items()),
        "told_and_unknown": sum(number not in notes.told for number in stored),
        "asked_without_answer": len(rows) - len(notes.asked),
        "tells_answered_again": notes.again,
        "learning_steps": steps,
        "calls_repeated": notes.retries,
        "problems": notes.problems[:20],
    }


def milliseconds(notes: Notes, call: str, after_start: bool) -> dict[str, float]:
    """Of the times between kills, or of those in the first second of a server."""
    of = [1e3 * took for at, took in notes.times[call] if _is_young(notes, at) == after_start]
    if not of:
        return {"calls": 0}
    p50, p99, p999 = np.percentile(of, [50, 99, 99.9])
    return {
        "calls": len(of),
        "p50": round(p50, 2),
        "p99": round(p99, 2),
        "p99.9": round(p999, 2),
        "most": round(max(of), 2),
    }


def _is_young(notes: Notes, at: float) -> bool:
    return any(0.0 <= at - start < BLIND_SECONDS for start in notes.starts)


def main() -> int:
    """Drive, compare, write the result; 0 if nothing was lost or told twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--method", default="creps", help="who learns; contextual REPS is quick at any size")
    parser.add_argument("--batch", type=int, default=2000, help="rollouts between learning steps")
    parser.add_argument("--shortest", type=float, default=0.1, help="seconds of the shortest rollout")
    parser.add_argument("--longest", type=float, default=0.4, help="seconds of the longest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, notes = Path(place) / "run", Notes()
        words = {"initial": "uniform(-1, 1)", "context-size": 1, "method": given.method, "batch": given.batch}
        words |= {"initial-rollouts": min(given.batch, 500), "rollouts": given.rollouts, "seed": given.seed}
        create = [word for name, value in words.items() for word in (f"--{name}", str(value))]
        subprocess.run([sys.executable, "-m", "hpsde", "create", str(folder), *create], check=True, capture_output=True)
        seconds = asyncio.run(drive(folder, given, notes))
        found = compare(folder, notes)
        shutil.rmtree(folder)
    settings = {name: value for name, value in vars(given).items() if name != "results"}
    times = {call: milliseconds(notes, call, False) for call in ("tell", "ask")}
    first = {call: milliseconds(notes, call, True) for call in ("tell", "ask")}
    load = os.getloadavg()[1]
    result = {"settings": settings, "seconds": round(seconds, 1), "load_average": round(load, 1), **found}
    calls = sum(map(len, notes.times.values()))
    result["server_cpu_milliseconds_per_call"] = round(1e3 * notes.server_seconds / max(calls, 1), 2)
    result |= {"milliseconds_between_kills": times, "milliseconds_in_the_first_second_of_a_server": first}
    given.results.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    whole = not any((found["lost"], found["changed"], found["asks_changed"], found["told_and_unknown"], notes.problems))
    quick = times["tell"].get("p99", 0.0) < WANTED_MS
    print(f"nothing lost, nothing told twice: {whole}; p99 of tell below {WANTED_MS:g} ms: {quick}")
    return 0 if whole else 1  # how quick it is depends on who else uses the machine


if __name__ == "__main__":
    sys.exit(main())
