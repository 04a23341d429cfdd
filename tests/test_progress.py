"""The progress bar and the count of compilations."""

import io
import sys

import jax
import jax.numpy as jnp
import pytest

from hpsde._compilations import count_compilations
from hpsde._progress import NoBar, describe, doubts_marker, progress_bar


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
