"""`hpsde settings`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """List the settings of the learner, for `hpsde run TASK --set NAME=VALUE`: name, default, meaning."""

    def __call__(self) -> None:
        """Print the table."""
        from dataclasses import fields

        from hpsde.commands._table import table
        from hpsde.settings import Settings

        meaning = attribute_docstrings(Settings)
        rows = [[field.name, str(field.default), meaning.get(field.name, "")] for field in fields(Settings)]
        print(table(["setting", "default", "meaning"], rows))


def attribute_docstrings(kind: type) -> dict[str, str]:
    """The strings that stand under the fields of a dataclass, by field."""
    import ast
    import inspect
    from itertools import pairwise
    from textwrap import dedent

    body = ast.parse(dedent(inspect.getsource(kind))).body[0]
    found = {}
    for field, text in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found
