"""Swing a pendulum up: clockwise or counter-clockwise? hpsde finds both, from the returns of episodes alone.

The environment is Gymnasium's Pendulum-v1 with the gravity of Mars, where its weak motor can lift it in one go. The
pendulum starts at rest, some way off its lowest point: that angle is the context. The parameters say how far to
turn it, and in how many seconds; feedback follows that movement as well as the motor can.

    python examples/gym_pendulum.py                      # one run: what was found
    python examples/gym_pendulum.py --seeds 10           # how often both ways are found, seeds 0 to 9
    python examples/gym_pendulum.py --plot pendulum.png  # the movements of each option
"""

from __future__ import annotations

import argparse

import numpy as np

import hpsde
from hpsde.tasks.gym import GymTask

MARS = 3.71
STEP, MAX_STEPS = 0.05, 80  # seconds, steps: an episode is 4 s
STIFFNESS, DAMPING = 12.0, 4.0
OFFSETS = np.linspace(-0.5, 0.5, 11)[:, None]


class Turn:
    """A controller: turn by so many radians in so many seconds, smoothly, and hold. The least time is one step."""

    def size(self, spaces):
        """Two parameters: radians and seconds."""
        return 2

    def start(self, parameters, context, spaces):
        """The torque by feedback on how far the pendulum has turned, which one observation alone does not say."""
        radians, seconds = parameters
        turned, last = 0.0, np.pi + context[0]

        def act(observation, time):
            nonlocal turned, last
            cosine, sine, velocity = observation
            angle = np.arctan2(sine, cosine)
            turned, last = turned + (angle - last + np.pi) % (2.0 * np.pi) - np.pi, angle
            share = min(time * STEP / max(seconds, STEP), 1.0)
            wanted = radians * share**2 * (3.0 - 2.0 * share)
            return STIFFNESS * (wanted - turned) - DAMPING * velocity

        return act


def hang(environment, context):
    """Let the pendulum hang at rest, so many radians off its lowest point."""
    angle = np.pi + context[0]
    environment.state = np.array([angle, 0.0])
    return np.array([np.cos(angle), np.sin(angle), 0.0], dtype=np.float32)


def make_task():
    """The pendulum as a task."""
    return GymTask(
        "Pendulum-v1",
        Turn(),
        arguments={"g": MARS},
        contexts=hpsde.Uniform(-0.5, 0.5),
        initial=hpsde.Uniform([-5.0, 0.2], [5.0, 2.0]),
        set_context=hang,
        max_steps=MAX_STEPS,
        evaluation=OFFSETS,
        max_options=6,
    )


def turned(episode):
    """How far the pendulum has turned in all, in radians; counter-clockwise is positive."""
    angles = np.unwrap([np.arctan2(sine, cosine) for cosine, sine, _ in episode.observations])
    return angles[-1] - angles[0]


def way_of(task, option):
    """How an option swings up in most contexts where it does, in how many of all, and its mean return."""
    episodes = [task.episode(offset, option.mean([offset])[0]) for offset in OFFSETS]
    up = [episode.observations[-1][0] > 0.9 for episode in episodes]
    turns = np.array([turned(episode) for episode in episodes])[up]
    way = "not up" if not any(up) else "counter-clockwise" if np.median(turns) > 0 else "clockwise"
    return way, np.mean(up), np.mean([episode.total for episode in episodes])


def main():
    """Learn, and say which option is which."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from 0 on")
    parser.add_argument("--rollouts", type=int, default=1050, help="episodes in all")
    parser.add_argument("--plot", help="file for a picture of the first seed's options")
    arguments = parser.parse_args()
    both = 0
    with make_task() as task:
        for seed in range(arguments.seeds):
            policy = hpsde.learn(task, rollouts=arguments.rollouts, seed=seed, progress=False)
            returns = task.evaluate(OFFSETS, policy.act(OFFSETS))
            print(f"seed {seed}: greedy return {returns.mean():.1f}, {len(policy.options)} options", flush=True)
            ways = [way_of(task, option) for option in policy.options]
            for option, (way, up, mean_return) in zip(policy.options, ways, strict=True):
                radians, seconds = option.mean([[0.0]])[0]
                print(
                    f"  {way:17}  upright in {up:4.0%} of contexts, return {mean_return:6.1f}; "
                    f"from the lowest point it turns {radians:5.2f} rad in {max(seconds, STEP):.2f} s"
                )
            both += {way for way, up, _ in ways if up >= 0.8} >= {"clockwise", "counter-clockwise"}
            if arguments.plot and seed == 0:
                draw(task, policy, arguments.plot)
    print(f"both ways found in {both} of {arguments.seeds}")


def draw(task, policy, path):
    """The angle over time of every option in three contexts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for number, option in enumerate(policy.options):
        for offset in OFFSETS[::5]:
            observed = np.array(task.episode(offset, option.mean([offset])[0]).observations)
            angles = np.unwrap(np.arctan2(observed[:, 1], observed[:, 0]))
            start = np.pi + offset[0]
            seconds = STEP * np.arange(len(angles))
            label = f"option {number}" if offset[0] == OFFSETS[0, 0] else None
            axes.plot(seconds, angles - angles[0] + start, color=f"C{number}", label=label)
    for upright in (0.0, 2.0 * np.pi):
        axes.axhline(upright, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="seconds", ylabel="angle, rad (dotted: upright)", title="Pendulum-v1: the options found")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
