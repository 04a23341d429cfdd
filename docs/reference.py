"""What the reference makes of the package: the command's help, the settings' metadata, docstrings as plain text."""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stdout
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from hpsde import cli
from hpsde.base.groups import described
from hpsde.methods import METHODS, method_settings

# So wide that every option of a command has one line.
COLUMNS = "1000"
# With or without a frame, by what the output can show.
HEADING = re.compile(r"^[^\w\n]*(?:positional arguments|options)[^\w\n]*$", re.MULTILINE)
ARGUMENT = re.compile(r"^[│ ]{1,2}(\S.*?)  +(\S.*?)[│ ]*$")
FURTHER = re.compile(r"\s*│?\n[│ ]{4,}(?=[^│\s])")  # a description's next line


def help_of(*arguments: str) -> str:
    """What `hpsde ... --help` prints."""
    said, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        with redirect_stdout(said):
            cli.main([*arguments, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return said.getvalue()


def command_page(name: str) -> str:
    """The help of one command in Markdown: its words, its examples, and a table of its options."""
    words, *listed = HEADING.split(help_of(name))
    usage, *paragraphs = words.strip().split("\n\n")
    lines = [line for part in listed for line in FURTHER.sub(" ", part).splitlines()]
    found = [match.groups() for line in lines if (match := ARGUMENT.match(line))]
    if not any(argument == "-h, --help" for argument, _ in found):
        raise ExtensionError(f"hpsde {name} --help has another form than this page can read")
    rows = [(f"`{argument}`", escaped(text)) for argument, text in found if argument != "-h, --help"]
    parts = [f"## hpsde {name}", f"```text\n{usage}\n```", *(_paragraph(each) for each in paragraphs)]
    return "\n\n".join([*parts, table(("argument", "meaning"), rows) if rows else "It has no arguments."])


def _paragraph(text: str) -> str:
    """Text as it is; lines below a heading such as "examples:" as code."""
    heading, _, rest = text.partition("\n")
    if not rest.startswith("  "):
        return escaped(text[0].upper() + text[1:])
    code = "\n".join(line.removeprefix("  ") for line in rest.splitlines())
    return f"{heading.capitalize()}\n\n```text\n{code}\n```"


def settings_page(method: str) -> str:
    """A table of all settings of a method, those that users need most often first."""
    lines = sorted(described(method_settings(method)), key=lambda each: not each.common)
    rows = [(f"`{each.name}`", f"`{each.value}`", escaped(each.values), escaped(each.meaning)) for each in lines]
    return table(("setting", "default", "values", "meaning"), rows)


def methods_page() -> str:
    """A table of all methods."""
    return table(("method", "what it is"), [(f"`{name}`", escaped(each.description)) for name, each in METHODS.items()])


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ("---",) * len(header), *rows])


def escaped(text: str) -> str:
    """Plain text as Markdown: what is not in backticks means itself."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


class Generated(SphinxDirective):
    """Markdown that is made when the site is built."""

    has_content = False
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes of the Markdown."""
        return self.parse_text_to_nodes(self.markdown(), allow_section_headings=True)

    def markdown(self) -> str:
        """The Markdown."""
        raise NotImplementedError


class CommandHelp(Generated):
    """All commands."""

    def markdown(self) -> str:
        """A section for each."""
        return "\n\n".join(command_page(name) for name in cli.COMMANDS)


class SettingsTable(Generated):
    """The settings of the method that is named."""

    required_arguments, optional_arguments = 1, 0

    def markdown(self) -> str:
        """A table."""
        return settings_page(self.arguments[0])


class MethodsTable(Generated):
    """The methods."""

    def markdown(self) -> str:
        """A table."""
        return methods_page()


ITEM = re.compile(r"([a-z]\w*(?:, \w+)*): ")


def plain_docstring(app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """A docstring is plain text, in which backticks, lines `name: meaning` and indented blocks mean something."""
    if name.startswith("hpsde.sklearn"):  # it has the form of scikit-learn's, whose names end in underscores
        lines[:] = [line if line.startswith("..") else re.sub(r"(\w)_(?=[,.\s])", r"\1\\_", line) for line in lines]
    else:
        lines[:] = "\n\n".join(_as_rst(part) for part in "\n".join(lines).strip().split("\n\n")).splitlines()


def _as_rst(paragraph: str) -> str:
    if paragraph.startswith("    "):
        return f"::\n\n{paragraph}"
    if not ITEM.match(paragraph):
        return _escaped_for_rst(paragraph)
    items = re.split(r"\n(?=[a-z]\w*(?:, \w+)*: )", paragraph)
    return "\n".join(f"* {ITEM.sub(_emphasised, ' '.join(_escaped_for_rst(each).split()), count=1)}" for each in items)


def _emphasised(name: re.Match[str]) -> str:
    return f"**{name[1]}**: "


def _escaped_for_rst(text: str) -> str:
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*|]|_\b)", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make all of it known to Sphinx."""
    app.add_directive("command-help", CommandHelp)
    app.add_directive("settings-table", SettingsTable)
    app.add_directive("methods-table", MethodsTable)
    app.connect("autodoc-process-docstring", plain_docstring)
    return {"parallel_read_safe": True}
