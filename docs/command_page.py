"""A Sphinx extension: the page of commands, from the definitions that typer parses."""

from __future__ import annotations

from html import escape
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive

from hornbeam.cli.app import app

__all__ = ["setup"]


class Commands(Directive):
    """Writes a section for each command: its usage, arguments and options."""

    def run(self) -> list[nodes.Node]:
        group: Any = typer.main.get_command(app)
        return [_section(name, command) for name, command in group.commands.items()]


def _section(name: str, command: Any) -> nodes.section:
    title = f"hornbeam {name}"
    section = nodes.section(ids=[f"command-{name}"], names=[title])
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = [title, *(_usage(one) for one in arguments)]
    if options:
        usage.append("[OPTIONS]")
    section += nodes.title(text=title)
    for paragraph in (command.help or "").split("\n\n"):
        section += nodes.paragraph(text=paragraph.replace("\n", " "))
    section += nodes.literal_block(text=" ".join(usage), language="sh")
    rows = "".join(_row(one) for one in (*arguments, *options) if not one.hidden)
    if rows:
        table = (
            '<table class="table"><thead><tr><th>argument or option</th>'
            f"<th>default</th><th>meaning</th></tr></thead><tbody>{rows}</tbody></table>"
        )
        section += nodes.raw("", table, format="html")
    return section


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    many = "..." if argument.nargs != 1 else ""
    return f"{name}{many}" if argument.required else f"[{name}]{many}"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.name.upper()]
    else:
        names = [*parameter.opts, *parameter.secondary_opts]
    shown = ", ".join(f"<code>{escape(name)}</code>" for name in names)
    default = parameter.default
    cells = (
        shown + (" (required)" if parameter.required else ""),
        "" if default in (None, False) else f"<code>{escape(str(default))}</code>",
        escape(parameter.help or ""),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def setup(sphinx: Any) -> dict[str, bool]:
    """Register the directive."""
    sphinx.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
