"""The command `hpsde`: picks the command, turns errors into exit codes. The work is in hpsde.commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

# Read once, when numpy and scipy load their BLAS. With more threads the small matrices of a run are slower,
# beside another busy process by orders of magnitude. Whoever sets it keeps what they set.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "tasks": "list the tasks that can be learned",
    "methods": "list the methods that can learn them",
    "settings": "list what can be set of them",
    "run": "learn a task or your own function, say what was found, keep it",
    "resume": "go on with a run after an interruption or a crash",
    "plot": "draw a run",
    "export": "write a run's rollouts as a table",
    "create": "make a run whose rollouts you do yourself",
    "ask": "ask such a run what to try",
    "tell": "tell it what came of it",
    "correct": "correct what was told",
    "import": "give a run rollouts that were made elsewhere",
    "extend": "plan more rollouts for a run",
    "set": "change settings of a run's learner",
    "status": "say where a run stands",
    "check": "read all of a run and say whether it is whole",
    "backup": "copy a run, also while it is running",
    "act": "use what was learned: the best parameters for a context",
    "view": "look at a run in a browser, also while it goes on",
    "report": "write a run as a page in one file",
    "serve": "let programs in any language ask and tell a run, over HTTP",
    "reproduce": "run the experiments of the paper, say which of its claims hold",
}

HELP = """usage: hpsde COMMAND [OPTIONS]

Learns how many solutions a task has, one policy for each, and which to use where: from returns alone.

commands:
{commands}

`hpsde COMMAND --help` explains a command. `hpsde --version` prints the version.

examples:
  hpsde tasks
  hpsde run toy-triple --seed 1 --out runs/triple
  hpsde plot runs/triple
  hpsde run toy-double --method hpsde-rwr-gp --json > result.json
  hpsde run mymodule:my_return --context "uniform(0, 2)" --initial "uniform(0, 4)" --out runs/mine
  hpsde resume runs/mine
  hpsde ask runs/robot --context 0.3

exit codes:
    0  done
    1  the run failed
    2  wrong usage or wrong input (the message says what was expected)
  130  interrupted (Ctrl-C); every rollout that was done is in the run's folder
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `hpsde` with these arguments (those of the process if None); returns the exit code."""
    command, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if command in ("-h", "--help", "help"):
        print(HELP.format(commands="\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())), end="")
        return DONE
    if command == "--version":
        from importlib.metadata import version

        print(f"hpsde {version('hpsde')}")
        return DONE
    if command not in COMMANDS:
        from hpsde.errors import UnknownNameError

        return _complain(str(UnknownNameError("command", command, COMMANDS)), WRONG_USAGE)
    return _execute(command, rest)


def _execute(command: str, arguments: Sequence[str]) -> int:
    from importlib import import_module
    from inspect import cleandoc
    from keyword import iskeyword

    import tyro

    from hpsde.base.kept_programs import keep_all
    from hpsde.errors import FileFormatError, HpsdeError, InputError, UnknownNameError

    keep_all()  # JAX reads once where, when it is loaded
    options = import_module(f"hpsde.commands.{command}{'_' if iskeyword(command) else ''}").Command
    try:
        chosen = tyro.cli(
            options,
            prog=f"hpsde {command}",
            description=cleandoc(options.__doc__),
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        chosen()
    except SystemExit as exit_request:  # tyro's: 0 after --help, 2 after wrong usage
        return exit_request.code if isinstance(exit_request.code, int) else WRONG_USAGE
    except (InputError, UnknownNameError, FileFormatError) as error:
        return _complain(str(error), WRONG_USAGE)
    except HpsdeError as error:
        return _complain(str(error), FAILED)
    except KeyboardInterrupt as interrupt:
        return _complain(str(interrupt) or "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone: `hpsde tasks | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return _complain(str(error), WRONG_USAGE if isinstance(error, FileNotFoundError) else FAILED)
    return DONE


def _complain(message: str, code: int) -> int:
    with suppress(OSError):  # the terminal may have been closed
        print(f"hpsde: {message}", file=sys.stderr)
    return code
