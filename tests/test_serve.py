"""`hpsde serve`: a run over HTTP, by a real server in a process of its own."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import numpy as np
import pytest

import hpsde
import served
from hpsde.cli import main
from hpsde.serve.guard import Buckets
from patience import LONG

ROOT = Path(__file__).parent.parent
TOKEN = "correct-horse-battery-staple"


def throw(distance, angle):
    return -abs(10.0**2 / 9.81 * np.sin(2.0 * np.radians(angle)) - distance)


def create(folder, **words):
    sizes = {"initial_rollouts": 24, "rollouts": 60, "batch": 12, "max_options": 3, "seed": 1} | words
    hpsde.Run.create(folder, initial=hpsde.Uniform(0.0, 90.0), context_size=1, **sizes).close()
    return folder


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run that has learned once, and a server of it."""
    folder = create(tmp_path_factory.mktemp("served") / "run")
    with served.started(folder) as server:
        distances = np.linspace(3.0, 8.0, 24)
        _, asked = server.post("/ask", {"contexts": distances[:, None].tolist()})
        told = [
            {"id": each["id"], "return": throw(each["context"][0], each["parameters"][0])} for each in asked["rollouts"]
        ]
        assert server.post("/tell", {"rollouts": told}) == (200, {"told": [*range(1, 25)], "again": [], "warnings": []})
        status, asked = server.post("/ask", {"contexts": [[5.0]]})
        assert status == 200, asked
        yield folder, server


def test_ask_and_tell_are_those_of_the_run(learned):
    folder, server = learned
    status, asked = server.post("/ask", {"contexts": [[4.0], [6.0]]})
    assert status == 200
    with hpsde.Run.open(folder) as run:
        rows = run.store.rows_of([each["id"] for each in asked["rollouts"]])
    assert [each["parameters"] for each in asked["rollouts"]] == rows.parameters.tolist()  # to the bit
    assert [each["context"] for each in asked["rollouts"]] == [[4.0], [6.0]]
    first, second = (each["id"] for each in asked["rollouts"])
    assert server.post("/tell", {"id": first, "return": -0.1 - 0.2})[0] == 200
    assert server.post("/tell", {"id": second, "failed": "motor fault"})[0] == 200
    with hpsde.Run.open(folder) as run:
        rows = run.store.rows_of([first, second])
    assert rows.returns[0] == -0.1 - 0.2
    assert rows.status.tolist() == ["done", "failed"]
    assert server.get("/status")[1]["done"] == 25
    assert {each["id"] for each in server.get("/open")[1]["rollouts"]} == {25}


def test_the_same_may_be_told_again_and_something_else_not(learned):
    folder, server = learned
    with hpsde.Run.open(folder) as run:
        before = run.store.table()
        known = run.rollouts().returns[:2].tolist()
    assert server.post("/tell", {"id": 1, "return": known[0]}) == (200, {"told": [], "again": [1], "warnings": []})
    status, answer = server.post("/tell", {"id": 1, "return": known[0] + 1e-9})
    assert (status, "told already" in answer["error"]) == (409, True)
    assert server.post("/tell", {"id": 1, "failed": "no"})[0] == 409
    both = [{"id": 1, "return": known[0]}, {"id": 2, "return": known[1]}]
    assert server.post("/tell", {"rollouts": both})[1] == {"told": [], "again": [1, 2], "warnings": []}
    # One of several that is a conflict: none is taken.
    _, asked = server.post("/ask", {"contexts": [[5.0]]})
    number = asked["rollouts"][0]["id"]
    mixed = [{"id": number, "return": -1.0}, {"id": 1, "return": 77.0}]
    assert server.post("/tell", {"rollouts": mixed})[0] == 409
    with hpsde.Run.open(folder) as run:
        assert run.store.table()[1][: len(before[1])] == before[1]
        assert run.store.rows_of([number]).status.tolist() == ["asked"]


def test_act_and_options_agree_with_the_command(learned, capsys):
    folder, server = learned
    assert main(["act", str(folder), "--context", "5"]) == 0
    said = json.loads(capsys.readouterr().out)
    status, answer = server.get("/act?context=5")
    assert (status, answer["acts"]) == (200, [said])
    together = server.post("/act", {"contexts": [[4.0], [5.0]]})[1]["acts"][1]["options"]
    for there, alone in zip(together, said["options"], strict=True):  # sums of two contexts differ in their last bits
        assert there["parameters"] == pytest.approx(alone["parameters"], rel=1e-12)
        assert there["expected_return"] == pytest.approx(alone["expected_return"], abs=1e-9)
    options = server.get("/options")[1]["options"]
    assert [each["number"] for each in options] == [each["number"] for each in said["options"]]
    assert sum(each["share"] for each in options) == pytest.approx(1.0)


def test_a_correction_is_on_disk_and_learned_anew(learned):
    folder, server = learned
    with hpsde.Run.open(folder) as run:
        before, policy = run.rollouts().returns[2], hpsde.load_policy(folder / "policy.npz").act([5.0])
    assert server.post("/correct", {"id": 3, "return": -9.0, "reason": "typed"}) == (200, {"corrected": 3})
    with hpsde.Run.open(folder) as run:
        assert run.rollouts().returns[2] == -9.0
        assert run.store.events()[0].content["before"]["return"] == before
    assert hpsde.load_policy(folder / "policy.npz").act([5.0]) != policy
    assert server.post("/correct", {"id": 3, "return": -9.0})[0] == 409
    assert server.post("/correct", {"id": 3})[0] == 422
    assert server.post("/correct", {"id": 9999, "drop": True})[0] == 404


def test_a_return_far_outside_is_taken_with_a_warning_for_whoever_told_it(learned):
    _, server = learned
    ids = [each["id"] for each in server.post("/ask", {"contexts": [[4.0], [5.0]]})[1]["rollouts"]]
    told = server.post("/tell", {"rollouts": [{"id": ids[0], "return": -1e6}, {"id": ids[1], "return": -1.0}]})[1]
    assert told["told"] == ids
    assert len(told["warnings"]) == 1
    assert f"rollout {ids[0]} is far outside" in told["warnings"][0]


HOSTILE = {
    "no JSON": (b"{", 400),
    "not UTF-8": (b"\xff\xfe{}", 400),
    "nothing": (b"", 422),
    "a list": (b"[]", 422),
    "NaN": (b'{"id": 1, "return": NaN}', 422),
    "infinite": (b'{"id": 1, "return": 1e999}', 422),
    "too large": (b'{"id": 28, "return": 1e300}', 422),
    "text for a number": (b'{"id": 1, "return": "1"}', 422),
    "truth for a number": (b'{"id": true, "return": 1}', 422),
    "an id of no rollout": (b'{"id": 4000000, "return": 1}', 404),
    "a negative id": (b'{"id": -1, "return": 1}', 422),
    "an endless id": (b'{"id": ' + b"9" * 10_000 + b', "return": 1}', 400),
    "no outcome": (b'{"id": 1}', 422),
    "two outcomes": (b'{"id": 1, "return": 1, "failed": "no"}', 422),
    "a misspelt name": (b'{"id": 1, "retrun": 1}', 422),
    "one and several": (b'{"id": 1, "return": 1, "rollouts": [{"id": 2, "return": 1}]}', 422),
    "twice the same": (b'{"rollouts": [{"id": 28, "return": 1}, {"id": 28, "return": 2}]}', 422),
    "nothing in the list": (b'{"rollouts": []}', 422),
    "parameters of another size": (b'{"id": 28, "return": 1, "parameters": [1, 2]}', 422),
    "nested deeply": (b"[" * 100_000, 400),
    "a text without end": (b'{"id": 28, "failed": "' + b"a" * 20_000 + b'"}', 422),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tells_are_refused_with_a_reason_and_change_nothing(learned, name):
    folder, server = learned
    server.post("/ask", {"contexts": [[5.0]]})
    with hpsde.Run.open(folder) as run:
        before = run.store.table()
    data, wanted = HOSTILE[name]
    status, answer = server.post("/tell", None, data=data)
    assert status == wanted, answer
    assert isinstance(answer["error"], str)
    assert answer["error"]
    with hpsde.Run.open(folder) as run:
        assert run.store.table() == before


@pytest.mark.parametrize(
    "content",
    [
        *({}, {"count": 3}, {"contexts": []}, {"contexts": [[]]}, {"contexts": [[1.0, 2.0]]}, {"contexts": [["x"]]}),
        *({"contexts": [[1.0]], "count": 1}, {"contexts": [[1e200]]}, {"contexts": [[0.0]] * 10_001}),
    ],
)
def test_wrong_asks_are_refused_and_ask_nothing(learned, content):
    _, server = learned
    before = server.get("/status")[1]
    status, answer = server.post("/ask", content)
    assert status == 422
    assert answer["error"]
    assert server.get("/status")[1] == before


def test_other_wrong_requests(learned):
    _, server = learned
    assert server.get("/nothing")[0] == 404
    assert server.call("DELETE", "/tell")[0] == 405
    assert server.post("/tell", {"id": 1}, headers={"Content-Type": "text/plain"})[0] == 415
    assert server.get("/status", headers={"Host": "evil.example"})[0] == 421
    assert server.get("/status", headers={"Origin": "http://evil.example"})[0] == 403
    assert server.post("/tell", None, data=b" " * (2**20 + 1))[0] == 413
    assert server.get("/act?context=inf")[0] == 422
    assert server.get("/act?context=1&context=2")[0] == 422
    assert server.get("/act")[0] == 422
    assert server.get("/health") == (200, {"ok": True})


def raw(address, text):
    """What a server answers to these bytes.

    Where it ends the connection before they are sent its answer is lost: then they are sent again.
    """
    place = urllib.parse.urlsplit(address)
    for _ in range(50):
        with contextlib.suppress(OSError), socket.create_connection((place.hostname, place.port), LONG) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            if answer := connection.recv(65536):
                return answer
    return b""


def test_bytes_that_are_no_request(learned):
    _, server = learned
    assert b" 400 " in raw(server.address, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    host = server.address.removeprefix("http://").encode()
    long = b"GET /status HTTP/1.1\r\nHost: " + host + b"\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"
    assert b" 400 " in raw(server.address, long)
    chunked = b"POST /tell HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n"
    chunked += b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert b" 413 " in raw(server.address, chunked + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 20 + b"0\r\n\r\n")
    assert server.get("/health")[0] == 200


def test_the_description_names_every_call_and_pages_load_nothing_from_elsewhere(learned):
    _, server = learned
    description = server.get("/openapi.json")[1]
    calls = {(method, path) for path, methods in description["paths"].items() for method in methods}
    posts = {("post", f"/{name}") for name in ("ask", "tell", "correct", "act")}
    assert calls == posts | {("get", f"/{name}") for name in ("status", "options", "open", "act", "health")}
    assert set(description["components"]["schemas"]["ToldRollout"]["properties"]) == {
        "id",
        "return",
        "failed",
        "parameters",
    }
    page = server.get("/docs")[1]
    assert "POST /correct" in page
    assert "src=" not in page
    assert "://" not in page


def test_a_token_is_needed_where_there_is_one(tmp_path):
    folder, file = create(tmp_path / "run"), tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with served.started(folder, "--token-file", str(file), "--host", "0.0.0.0") as server:
        server.address = server.address.replace("0.0.0.0", "127.0.0.1")
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": "é"},
        ):
            status, answer = server.get("/status", headers=headers)
            assert (status, "token" in answer["error"]) == (401, True)
        assert server.get("/health")[0] == 200
        assert server.get("/docs")[0] == 401
        server.token = TOKEN
        assert server.get("/status")[0] == 200
    with served.started(folder, HPSDE_TOKEN=TOKEN) as server:
        assert server.get("/status")[0] == 401
        server.token = TOKEN
        assert server.get("/status")[0] == 200


def test_what_cannot_be_served_is_said(tmp_path, capsys, monkeypatch):
    folder = create(tmp_path / "run")
    monkeypatch.delenv("HPSDE_TOKEN", raising=False)
    for words, text in (
        (["--host", "0.0.0.0"], "token"),
        (["--token-file", str(tmp_path / "none")], "token"),
        (["--port", "70000"], "65535"),
        (["--rate", "0"], "--rate"),
    ):
        assert main(["serve", str(folder), *words]) == 2
        assert text in capsys.readouterr().err
    (tmp_path / "short").write_text("123")
    assert main(["serve", str(folder), "--token-file", str(tmp_path / "short")]) == 2
    assert main(["serve", str(tmp_path / "no run")]) == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", str(folder), "--port", str(taken.getsockname()[1])]) == 2
        assert "cannot listen" in capsys.readouterr().err


def test_too_many_requests_are_refused(tmp_path):
    with served.started(create(tmp_path / "run"), "--rate", "1") as server:
        answers = [server.get("/health")[0] for _ in range(30)]
    assert answers[:2] == [200] * 2
    assert 429 in answers


def test_a_bucket_fills_with_time_and_is_one_for_each_address():
    now = [0.0]
    buckets = Buckets(10.0, lambda: now[0])
    assert [buckets.take("a") for _ in range(21)] == [True] * 20 + [False]
    assert buckets.take("b")
    now[0] = 0.35
    assert [buckets.take("a") for _ in range(4)] == [True] * 3 + [False]
    now[0] = 1e6
    assert [buckets.take("a") for _ in range(21)] == [True] * 20 + [False]


def test_many_clients_at_once_and_a_kill_in_between_lose_nothing(tmp_path):
    folder, told, port = create(tmp_path / "run", initial_rollouts=500, rollouts=500), {}, free_port()

    def client(address, seed):
        service = robot_example().Service(address, None, patience=LONG)
        for i in range(10):
            (rollout,) = service.post("ask", {"contexts": [[3.0 + 0.1 * i]]})["rollouts"]
            value = throw(rollout["context"][0], rollout["parameters"][0]) + 1e-6 * seed
            service.post("tell", {"id": rollout["id"], "return": value})
            assert rollout["id"] not in told
            told[rollout["id"]] = value

    with served.started(folder, "--port", str(port)) as server:
        threads = [threading.Thread(target=client, args=(server.address, seed), daemon=True) for seed in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(told) >= 20)
        server.process.kill()
    with served.started(folder, "--port", str(port)):
        for thread in threads:
            thread.join(timeout=LONG)
    assert len(told) == 80
    with hpsde.Run.open(folder) as run:
        rows = run.rollouts()
    done = {
        int(number): value
        for number, value, status in zip(rows.id, rows.returns, rows.status, strict=True)
        if status == "done"
    }
    assert done == told


def test_a_client_asks_again_where_the_answer_was_cut_off():
    """A server that is killed while it answers has sent a part of it."""
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n" + b'{"told": 1} '
    answers = [b"", whole[:20], whole[:-5], whole]

    def serve(taken):
        for answer in answers:
            connection, _ = taken.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = threading.Thread(target=serve, args=(taken,), daemon=True)
        server.start()
        service = robot_example().Service(f"http://127.0.0.1:{taken.getsockname()[1]}", None, patience=LONG)
        assert service.post("tell", {}) == {"told": 1}
        server.join(timeout=LONG)


def wait_until(holds, seconds=LONG):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def robot_example():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import robot_over_http
    finally:
        sys.path.pop(0)
    return robot_over_http


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_signal_to_end_is_no_failure_and_the_learner_ends_too(tmp_path, number):
    with served.started(create(tmp_path / "run")) as server:
        assert server.post("/ask", {"contexts": [[5.0]]})[0] == 200
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        found = [int(child) for child in children.read_text().split()] if children.exists() else []
        server.process.send_signal(number)
        errors = server.process.communicate(timeout=LONG)[1]
        assert (server.process.returncode, errors) == (0, ""), errors
        wait_until(lambda: not any(Path(f"/proc/{child}/stat").exists() for child in found))


def test_the_learner_ends_with_a_server_that_is_killed_and_starts_anew_when_it_is(tmp_path):
    folder = create(tmp_path / "run")
    with served.started(folder) as server:
        assert server.post("/ask", {"contexts": [[5.0]]})[0] == 200
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        if not children.exists():
            pytest.skip("this machine does not say who the children of a process are")
        (child,) = children.read_text().split()
        os.kill(int(child), signal.SIGKILL)
        wait_until(lambda: server.post("/ask", {"contexts": [[5.0]]})[0] == 200)
        (child,) = children.read_text().split()
        server.process.kill()
        wait_until(lambda: not Path(f"/proc/{child}/stat").exists())


def test_the_robot_in_python_learns_over_http(tmp_path):
    folder = create(tmp_path / "run")
    with served.started(folder, HPSDE_TOKEN=TOKEN) as server:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples/robot_over_http.py"), server.address, "--rollouts", "30"],
            env=served.QUIET | {"HPSDE_TOKEN": TOKEN}, capture_output=True, text=True, timeout=LONG, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("30 throws; for a target at 5 m: option ")
    with hpsde.Run.open(folder) as run:
        assert run.status().done == 30
        assert run.status().steps >= 1


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_the_robot_in_cpp_asks_and_tells(tmp_path):
    folder = create(tmp_path / "run")
    source = ROOT / "examples/robot_over_http.cpp"
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "robot", source], check=True)
    with served.started(folder, HPSDE_TOKEN=TOKEN) as server:
        host, port = server.address.removeprefix("http://").split(":")
        done = subprocess.run(
            [tmp_path / "robot", host, port, "10"],
            env=served.QUIET | {"HPSDE_TOKEN": TOKEN}, capture_output=True, text=True, timeout=LONG, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "told 10 rollouts\n"), done.stderr
    with hpsde.Run.open(folder) as run:
        rows = run.rollouts()
    assert rows.status.tolist() == ["done"] * 10
    landing = 100.0 / 9.81 * np.sin(2.0 * np.radians(rows.parameters[:, 0]))
    np.testing.assert_allclose(rows.returns, -np.abs(landing - rows.contexts[:, 0]), atol=1e-4)


def test_a_run_without_contexts(tmp_path):
    hpsde.Run.create(tmp_path / "run", initial=hpsde.Uniform([0.0, 0.0], [1.0, 1.0]), initial_rollouts=20).close()
    with served.started(tmp_path / "run") as server:
        assert len(server.post("/ask", {"count": 3})[1]["rollouts"]) == 3
        assert len(server.post("/ask", {})[1]["rollouts"]) == 1
        assert server.post("/ask", {"contexts": [[1.0]]})[0] == 422
        assert server.post("/ask", {"count": 0})[0] == 422
        assert server.post("/ask", {"count": 10**6})[0] == 422
        assert server.post("/act", {})[0] == 409
