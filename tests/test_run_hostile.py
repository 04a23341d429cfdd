"""Bad input to ask, tell and the command, and files that are damaged or hostile: a message, never a crash or a loss."""

import json
import shutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hpsde
import small
import stored
from handmade import fields, rewrite
from hpsde.cli import main
from hpsde.runs.backup import check
from hpsde.runs.config import read_config
from hpsde.runs.state import _digest

pytestmark = pytest.mark.usefixtures("remembered")

QUIET = settings(derandomize=True, deadline=None, max_examples=60, database=None)
NUMBERS = st.floats(-2.0, 2.0) | st.floats() | st.integers(-3, 12) | st.integers()
ODD = st.none() | st.booleans() | st.text(max_size=8) | st.binary(max_size=8) | st.complex_numbers() | NUMBERS
ANYTHING = st.recursive(
    ODD,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=2), parts, max_size=2),
    max_leaves=6,
)
IDS = st.integers(1, 8) | st.lists(st.integers(1, 8), max_size=4) | ANYTHING
COUNTS = st.none() | st.booleans() | st.integers(-3, 3) | st.integers()


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A run with six rollouts asked; examples use it one after the other."""
    folder = tmp_path_factory.mktemp("asked") / "run"
    with stored.create(folder) as run:
        run.ask(small.draw_contexts(0, 6, 1))
        yield run


@QUIET
@given(
    contexts=ANYTHING | st.lists(st.lists(NUMBERS, max_size=2), max_size=3),
    count=st.none() | st.booleans() | st.integers(-3, 3) | st.integers(),
)
def test_ask_takes_it_or_says_why(asked, contexts, count):
    before = asked.store.table()[1]
    try:
        found = asked.ask(contexts, count=count)
    except hpsde.HpsdeError as error:
        assert len(str(error)) > 20  # noqa: PT017 - any of our errors will do
        assert asked.store.table()[1] == before
    else:
        assert len(asked.store.table()[1]) == len(before) + len(found)


@QUIET
@given(ids=IDS, value=st.none() | ANYTHING, failed=st.none() | st.text(), parameters=st.none() | ANYTHING)
def test_tell_takes_it_or_says_why(asked, ids, value, failed, parameters):
    before = asked.store.table()[1]
    try:
        asked.tell(ids, value, failed=failed, parameters=parameters)
    except hpsde.HpsdeError as error:
        assert len(str(error)) > 20  # noqa: PT017
        assert asked.store.table()[1] == before
    changed = [row for row, old in zip(asked.store.table()[1], before, strict=True) if row != old]
    assert all(row[2] in ("done", "failed") for row in changed)
    asked.rollouts()  # all of it can be read
    assert stored.sound(asked.folder)


WORDS = st.sampled_from(
    ["--context", "--count", "--return", "--failed", "--parameters", "--to", "csv", "--out", "1", "2", "-0.5", "nan"]
)
COMMANDS = st.sampled_from(["ask", "tell", "status", "act", "export", "plot", "resume", "create"])


@QUIET
@given(command=COMMANDS, words=st.lists(WORDS | st.text(st.characters(codec="utf-8"), max_size=6), max_size=5))
def test_the_command_answers_or_complains(asked, command, words, tmp_path_factory):
    words = [word for word in words if "/" not in word and "\0" not in word]
    before = asked.status().done + asked.status().failed
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(tmp_path_factory.mktemp("here"))
        code = main([command, str(asked.folder), *words])
    assert code in (0, 1, 2)
    assert "Traceback" not in err.getvalue()
    if code:
        assert err.getvalue()
        assert asked.status().done + asked.status().failed == before
    elif command in ("ask", "tell", "status") and not {"-h", "--help"} & set(words):
        json.loads(out.getvalue())


# config.json


@QUIET
@given(data=st.data())
def test_configurations_are_read_or_refused_by_name(asked, data):
    config = json.loads((asked.folder / "config.json").read_text())
    name = data.draw(st.sampled_from([*config, "unheard of"]))
    value = data.draw(st.none() | st.booleans() | st.text(max_size=5) | NUMBERS | st.dictionaries(st.text(), NUMBERS))
    config[name] = value
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        shutil.copytree(asked.folder, folder)
        (folder / "config.json").write_text(json.dumps(config))
        try:
            with hpsde.Run.open(folder) as run:
                run.status()
                run.ask(np.zeros((2, 1)))
        except hpsde.HpsdeError as error:
            assert len(str(error)) > 20  # noqa: PT017
        assert stored.sound(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"parameter_size": 10**10},
        {"context_size": 10**10},
        {"rollouts": 10**10},
        {"expected_rollouts": 10**10},
        {"chunk": 10**10},
        {"expected_rollouts": 10**6, "parameter_size": 10**4},
    ],
)
def test_sizes_that_fill_memory_are_refused(changes, asked, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads((asked.folder / "config.json").read_text()) | changes))
    with pytest.raises(hpsde.FileFormatError, match=r"config\.json is damaged: .*expected at most"):
        read_config(path)


def test_a_run_of_sizes_that_cannot_be_opened_again_is_not_made(tmp_path):
    with pytest.raises(hpsde.InputError, match="expected at most 1000000 in a run, got 10000000000"):
        stored.create(tmp_path / "run", rollouts=10**10)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000, b"1" * 5000, b'{"format": "hpsde-run", "version": 2}'],
    ids=["empty", "half", "list", "not text", "null", "deep", "long", "newer"],
)
def test_other_files_are_no_configuration(content, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(hpsde.FileFormatError, match=r"config\.json"):
        read_config(tmp_path / "config.json")


# learner.npz and policy.npz


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return stored.learn_once(tmp_path_factory.mktemp("learned") / "run")


@pytest.mark.parametrize("kind", ["flip", "cut", "foreign"])
@settings(derandomize=True, deadline=None, max_examples=3, database=None)
@given(data=st.data())
def test_a_damaged_state_is_learned_again_to_the_same_bits(learned, kind, data):
    state = (learned / "learner.npz").read_bytes()
    if kind == "flip":
        content = bytearray(state)
        content[data.draw(st.integers(0, len(state) - 1))] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        content = state[: data.draw(st.integers(0, len(state) - 1))]
    else:
        content = (learned / "policy.npz").read_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        shutil.copytree(learned, folder)
        (folder / "learner.npz").write_bytes(bytes(content))
        with hpsde.Run.open(folder) as run, hpsde.Run.open(learned) as whole:
            small.assert_same_bits(run.policy, whole.policy)
        assert (folder / "policy.npz").read_bytes() == (learned / "policy.npz").read_bytes()
        with hpsde.Run.open(folder) as run, pytest.MonkeyPatch.context() as patch:
            patch.delattr(hpsde.HPSDE, "_estimate")  # nothing has to be learned a second time
            small.assert_same_bits(run.policy, hpsde.load_policy(folder / "policy.npz"))


def test_a_database_that_is_older_than_the_state_is_refused(learned, tmp_path):
    """As one that was copied without its log is."""
    folder = tmp_path / "run"
    shutil.copytree(learned, folder)
    stored.change(folder, "DELETE FROM rollouts WHERE id > 64; UPDATE rollouts SET step = NULL; DELETE FROM steps")
    stored.sign(folder)
    with hpsde.Run.open(folder) as run:
        with pytest.raises(hpsde.FileFormatError, match=r"is older than learner.npz: it has 0 .* had made 1"):
            run.ask(small.draw_contexts(1, 1, 1))
        assert run.status().done == 64
        given = [1.0], [0.5], 1.0
        for write in (
            lambda: run.tell(1, 1.0),
            lambda: run.correct(1, 1.0),
            lambda: run.extend(900),
            lambda: run.add(*([part] for part in given)),
        ):
            with pytest.raises(hpsde.FileFormatError, match=r"is older than learner.npz: it has 0 .* had made 1"):
                write()
        (wrong,) = check(run)["wrong"]
        assert "is older than learner.npz" in wrong
        (folder / "learner.npz").unlink()
        assert run.ask(small.draw_contexts(1, 1, 1))[0].id == 65


def test_a_database_from_before_a_correction_is_refused(learned, tmp_path):
    """As many learning steps as before, but one of them was done anew since."""
    folder = tmp_path / "run"
    shutil.copytree(learned, folder)
    with hpsde.Run.open(folder) as run:
        run.correct(1, 0.125)
    shutil.copy(learned / "rollouts.sqlite", folder)
    refused = pytest.raises(hpsde.FileFormatError, match=r"is older than .* it has 0 corrections .* had seen 1")
    with hpsde.Run.open(folder) as run, refused:
        run.ask(small.draw_contexts(1, 1, 1))


def test_states_of_arrays_that_do_not_fit_are_learned_again_or_refused(learned, tmp_path):
    """The digest is right; arrays have another shape, or numbers that are not finite."""
    arrays = fields((learned / "learner.npz").read_bytes())
    header = json.loads(str(arrays.pop("header")))
    changes = [lambda array: array[:0], lambda array: array.reshape(-1)[:1], lambda array: array * np.nan]
    chosen = [name for name, array in arrays.items() if array.dtype == float and array.ndim]
    for i, name in enumerate(chosen[::5]):
        folder = tmp_path / name
        shutil.copytree(learned, folder)
        changed = arrays | {name: changes[i % len(changes)](arrays[name])}
        rewrite(folder / "learner.npz", {"header": json.dumps(header | {"digest": _digest(changed)}), **changed})
        with hpsde.Run.open(folder) as run:
            try:
                run.ask(small.draw_contexts(2, 32, 1))
            except hpsde.HpsdeError as error:
                assert len(str(error)) > 20  # noqa: PT017


def test_an_error_of_a_learner_that_was_stored_says_what_to_do(learned, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(learned, folder)

    def fail(*_):
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(hpsde.HPSDE, "_draw", fail)
    with hpsde.Run.open(folder) as run:
        with pytest.raises(hpsde.FileFormatError, match=r"ZeroDivisionError: no such thing.*removing it helps"):
            run.ask(small.draw_contexts(2, 32, 1))
        assert run.status().asked == 32


def test_a_damaged_policy_file_is_written_again_by_the_next_step(learned, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(learned, folder)
    (folder / "policy.npz").write_bytes(b"PK damaged")
    assert main(["act", str(folder), "--context", "1"]) == 2
    assert "policy.npz is not a policy file, or is damaged" in capsys.readouterr().err
    with hpsde.Run.open(folder) as run:
        rows = run.rollouts()
        open_rows = rows.status == "asked"
        values = small.two_ridges(rows.contexts[open_rows], rows.parameters[open_rows])
        run.tell(rows.id[open_rows].tolist(), values)
        small.assert_same_bits(run.policy, hpsde.load_policy(folder / "policy.npz"))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE rollouts SET option = 99 WHERE id = 150", "of no option known"),
        ("UPDATE rollouts SET policy = 9, option = 0 WHERE id = 20", "a policy that was never learned"),
    ],
)
def test_rollouts_that_contradict_the_steps_are_refused(statement, message, learned, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(learned, folder)
    stored.change(folder, statement)
    stored.sign(folder)
    with hpsde.Run.open(folder) as run, pytest.raises(hpsde.FileFormatError, match=message):
        run.ask(small.draw_contexts(2, 32, 1))
    assert stored.sound(folder)
