"""A server of `hpsde serve` in a process of its own, and calls to it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

from patience import LONG

QUIET = {name: value for name, value in os.environ.items() if name != "HPSDE_TOKEN"}


class Server:
    """The process, its address, and calls: (status, answer) of each."""

    def __init__(self, process, address):
        self.process, self.address, self.token = process, address, None

    def call(self, method, path, content=None, headers=None, data=None):
        body = data if data is not None else None if content is None else json.dumps(content).encode()
        words = {"Content-Type": "application/json"} if method == "POST" else {}
        words |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(self.address + path, body, words | (headers or {}), method=method)
        try:
            with urllib.request.urlopen(request, timeout=LONG) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode()

    def post(self, path, content, **more):
        return self.call("POST", path, content, **more)

    def get(self, path, **more):
        return self.call("GET", path, **more)


@contextmanager
def started(folder, *words, command="serve", **environment):
    """`hpsde serve FOLDER` on a free port; ended in the end as by Ctrl-C on a closed terminal."""
    port = [] if "--port" in words else ["--port", "0"]
    # Who runs the tests in the background may ignore Ctrl-C, and what is ignored is inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "hpsde", command, str(folder), *words, *port],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET | environment,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.communicate()[1]
        yield Server(process, found.group())
    finally:
        process.terminate()
        process.communicate(timeout=LONG)
