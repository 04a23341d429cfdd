"""The progress bar and the count of compilations."""

import io
import sys

import jax
import jax.numpy as jnp
import pytest

from hpsde.base.compilations import count_compilations
from hpsde.base.progress import NoBar, TimeLeft, clock_text, describe, doubts_marker, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_shows_return_options_ess_and_time_left(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar(1050) as bar:
        bar.update(600, mean_return=99.96, options=4, ess=312.4)
    shown = terminal.getvalue()
    for part in ("600/1050", "return 99.96", "options 4", "ESS 312.4", "left"):
        assert part in shown


@pytest.mark.parametrize("reason", ["disabled", "no terminal", "no rich"])
def test_no_bar(reason, monkeypatch):
    stream = io.StringIO() if reason == "no terminal" else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    if reason == "no rich":
        monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress_bar(10, enabled=reason != "disabled") as bar:
        assert isinstance(bar, NoBar)
        bar.update(5, ess=1.0)
    assert stream.getvalue() == ""


def test_fields_in_words():
    assert describe(mean_return=-7.4412, options_kept=4, ess=None) == "return -7.441  options 4"
    assert describe(ess=12345.6) == "ESS 12346"
    assert describe(options_kept=4, doubts=doubts_marker(["wide", "few"])) == "options 4  2 doubts: wide, few"
    assert describe(options_kept=4, doubts=doubts_marker(["wide"])) == "options 4  1 doubt: wide"
    assert describe(options_kept=4, doubts=doubts_marker([])) == "options 4"


def test_time_left_counts_the_learning_steps_between_bursts_of_rollouts():
    """600 rollouts in no time, then 50 more after each learning step of five seconds: nine more steps, 45 seconds."""
    left = TimeLeft(1050, learns=True)
    for done in range(0, 625, 25):
        left.update(0.1, done, None)
    left.update(5.0, 600, 310.0)
    left.update(5.1, 650, 310.0)
    assert left.seconds(9.0) is None
    left.update(10.0, 650, 320.0)
    left.update(10.1, 700, 320.0)
    assert left.seconds(10.0) == pytest.approx(40.0)
    assert left.seconds(14.0) == pytest.approx(36.0)
    left.update(15.0, 700, 330.0)
    assert left.seconds(15.0) == pytest.approx(35.0)
    assert left.seconds(99.0) == 0.0


def test_time_left_of_what_is_not_learned_is_by_its_speed():
    left = TimeLeft(10, learns=False)
    for now, done in ((0.0, 0), (4.0, 2), (8.0, 4)):
        left.update(now, done, None)
    assert left.seconds(8.0) == pytest.approx(12.0)
    assert [clock_text(seconds) for seconds in (None, 12.0, 4000.4)] == ["-:--:--", "0:00:12", "1:06:40"]


def test_compilations_are_counted_once_per_program_and_only_inside():
    @jax.jit
    def double(x):
        return 2.0 * x

    x3, x4 = jnp.arange(3.0), jnp.arange(4.0)
    with count_compilations() as outer:
        double(x3).block_until_ready()
        with count_compilations() as inner:
            double(x3).block_until_ready()
            double(x4).block_until_ready()
    double(jnp.arange(5.0)).block_until_ready()
    assert (outer.count, inner.count) == (2, 1)
    assert outer.seconds >= inner.seconds > 0.0


def test_listener_goes_when_the_block_fails():
    from jax._src import monitoring

    before = list(monitoring.get_event_duration_listeners())
    with pytest.raises(RuntimeError), count_compilations():
        raise RuntimeError
    assert monitoring.get_event_duration_listeners() == before
