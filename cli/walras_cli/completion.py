"""Completion of ``kubectl walras``: the program ``kubectl_complete-walras``, which kubectl calls.

kubectl (1.26 and later) hands it the words so far, the last of them unfinished, and takes lines of
a word each, a tab and its meaning, then a colon and a number: 4 for no names of files besides
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete

from walras_cli.main import main as walras

NO_FILES = 4
FILES = 0


def main() -> None:
    """Print completions for kubectl."""
    *words, unfinished = sys.argv[1:] or [""]
    complete = ShellComplete(walras, {}, "kubectl walras", "")
    completions = complete.get_completions(words, unfinished)
    for each in completions:
        if each.type == "plain":
            click.echo(f"{each.value}\t{each.help or ''}")
    files = any(each.type in {"file", "dir"} for each in completions)
    click.echo(f":{FILES if files else NO_FILES}")
