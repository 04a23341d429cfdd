"""The puddle task straight from its statement, one number after the other: slow, and the truth for the tests."""

import math

import numpy as np
import scipy.linalg

STEPS, DT = 300, 1 / 299
ANGLES = [math.pi * k / 159 for k in range(160)]
TEMPLATE_X = [3 - 3 * math.cos(t) for t in ANGLES] + [6.0] * 40
TEMPLATE_Y = [8 * math.sin(t) for t in ANGLES] + [0.0] * 40


def basis(i):
    """The ten normalised basis functions at step i = 1 .. 300."""
    values = [math.exp(-0.5 * (((i - 1) / 299 - j / 9) / 0.05) ** 2) for j in range(10)]
    return [value / sum(values) for value in values]


BASES = [basis(i) for i in range(1, STEPS + 1)]


def fit(demonstration):
    positions = []
    for k in range(STEPS):
        at = k / 299 * (len(demonstration) - 1)
        before = min(int(at), len(demonstration) - 2)
        positions.append(demonstration[before] + (at - before) * (demonstration[before + 1] - demonstration[before]))
    velocities = [(positions[k + 1] - positions[k]) / DT for k in range(STEPS - 1)]
    velocities.append(velocities[-1])
    accelerations = [(velocities[k + 1] - velocities[k]) / DT for k in range(STEPS - 1)]
    accelerations.append(accelerations[-1])
    forces = [
        (accelerations[k] - 1000 * (positions[-1] - positions[k]) + 100 * velocities[k]) / math.exp(-(k + 1) / 60)
        for k in range(STEPS)
    ]
    normal = np.array([[sum(g[a] * g[b] for g in BASES) + 1e-8 * (a == b) for b in range(10)] for a in range(10)])
    right = np.array([sum(g[a] * f for g, f in zip(BASES, forces, strict=True)) for a in range(10)])
    return scipy.linalg.solve(normal, right, assume_a="pos")


def trajectory(forcing, goal, template):
    y, v, trajectory = 0.0, (template[1] - template[0]) / DT, []
    for i in range(1, 751):
        force = 0.0
        if i <= STEPS:
            force = sum(g * w for g, w in zip(BASES[i - 1], forcing, strict=True)) * math.exp(-i / 60)
        acceleration = 1000 * (goal - y) - 100 * v + force
        y, v = y + DT * v, v + DT * acceleration
        trajectory.append(y)
        if i > STEPS and abs(goal - y) < 0.01:
            break
    return trajectory


def resample(trajectory):
    n = len(trajectory)
    return [trajectory[max(1, math.floor(k * n / 99 + 0.5)) - 1] for k in range(100)]


X = resample(trajectory(fit(TEMPLATE_X), 6.0, TEMPLATE_X))


def rollout(s, a):
    """The y of the 100 points, their length, and how many lie in a puddle."""
    y = resample(trajectory([1e4 * number for number in a], s, TEMPLATE_Y))
    length = sum(math.hypot(X[k] - X[k - 1], y[k] - y[k - 1]) for k in range(1, 100))
    ranges = [(-2.4, -0.8), (0.8, 2.2), (3.8, 5.4), (-30.2, -3.8), (6.8, 33.8)]
    points = zip(X, y, strict=True)
    c = sum(1.9 < p < 4.1 and any(low < q < high for low, high in ranges) for p, q in points)
    return y, length, c
