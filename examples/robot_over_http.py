"""A robot's loop that learns over HTTP: `hpsde serve RUN` at the other end. Needs Python's own library alone.

    python examples/robot_over_http.py http://127.0.0.1:8477 --rollouts 60

The loop has the form of a ROS node: a timer calls `step`, which is either moving or waiting for the next rollout. A
server that is restarted meanwhile is waited for; a tell that got no answer is told again, which is safe.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import time
import urllib.error
import urllib.request
from typing import Any


class Service:
    """Calls of `hpsde serve`; those that get no answer are made again."""

    def __init__(self, address: str, token: str | None, patience: float = 60.0):
        self.address, self.token, self.patience = address.rstrip("/"), token, patience

    def post(self, call: str, content: dict[str, Any]) -> dict[str, Any]:
        """What the service answers. Ask has no effect that harms if it is done twice, and the same tell has none."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        end = time.monotonic() + self.patience
        while True:
            request = urllib.request.Request(f"{self.address}/{call}", json.dumps(content).encode(), headers)
            try:
                with urllib.request.urlopen(request, timeout=self.patience) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503) or time.monotonic() > end:
                    raise SystemExit(f"{call}: {error.code}: {json.load(error)['error']}") from error
            except (OSError, http.client.HTTPException, json.JSONDecodeError):  # no answer, or a part of one
                if time.monotonic() > end:
                    raise
            time.sleep(0.2)


class Thrower:
    """A node: `step` is its timer's callback. Stands for a robot that throws a ball at 10 m/s at targets it sees."""

    def __init__(self, service: Service, seed: int):
        self.service, self.done, self.goal = service, 0, random.Random(seed)
        self.rollout: dict[str, Any] | None = None

    def step(self) -> None:
        """Ask for a throw in the context of now, or end the one under way."""
        if self.rollout is None:
            distance = self.goal.uniform(3.0, 8.0)  # as a camera would say
            (self.rollout,) = self.service.post("ask", {"contexts": [[distance]]})["rollouts"]
            return
        (distance,), (angle,) = self.rollout["context"], self.rollout["parameters"]
        landing = 10.0**2 / 9.81 * math.sin(2.0 * math.radians(angle))
        self.service.post("tell", {"id": self.rollout["id"], "return": -abs(landing - distance)})
        self.rollout, self.done = None, self.done + 1


def main() -> None:
    """Throw until enough has been learned, then say what to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--rollouts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    service = Service(given.address, os.environ.get("HPSDE_TOKEN"))
    node = Thrower(service, given.seed)
    while node.done < given.rollouts:
        node.step()
    (best,) = service.post("act", {"context": [5.0]})["acts"]
    print(f"{node.done} throws; for a target at 5 m: option {best['number']}, angle {best['parameters'][0]:.1f}")
    for option in best["options"]:
        print(f"  option {option['number']}: {option['parameters'][0]:.1f}, expected {option['expected_return']:.3f}")


if __name__ == "__main__":
    main()
