"""Facts: the first look at a cluster without Walras, from its documents."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from walras_cli.what_if.first_look.outlook import outlook_of
from walras_cli.what_if.first_look.population import Rules, population_of
from walras_cli.what_if.first_look.speedups import fractions_in, fractions_of
from walras_service.failures import BadInput
from walras_view.facts import NOT_ASKED
from walras_view.first_look import FirstLook
from walras_view.text import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from walras_cli.cluster_documents import Documents
    from walras_cli.what_if.first_look.outlook import Outlook
    from walras_cli.what_if.first_look.population import Population
    from walras_view.facts import Use
    from walras_view.first_look import Shares

INSTALL = (
    "make images    # in Walras's repository; docs/quickstart.md goes on, and only observes first"
)
"""The first command of an installation, which has to make the images: none are public."""


def first_look(
    documents: Documents,
    files: Sequence[str],
    use: Use = NOT_ASKED,
    users_by: str | None = None,
    shares: Shares | None = None,
    speedups: Path | None = None,
    prometheus: str | None = None,
) -> FirstLook:
    """Return what a cluster without MarketJobs has, and would have.

    Args:
        documents: Its objects.
        files: Names of the files that they are in; none of a live cluster.
        use: What its pods use, as far as that is known.
        users_by: Who is a user; None for namespaces.
        shares: Source of users' shares; None for equal ones.
        speedups: File of parallel fractions; None for none.
        prometheus: URL of the Prometheus that was asked for use, for the command that looks again;
            None for none.

    Raises:
        BadInput: The documents are not those of a cluster, or an option is wrong.
    """
    if not documents.objects.nodes:
        raise BadInput(
            "the cluster has no Node; make the file by `kubectl get nodes,pods,ns -A -o yaml`"
        )
    given = {} if speedups is None else fractions_in(speedups)
    fractions = fractions_of(documents.objects.profiles) | given
    rules = Rules(users_by or "namespace", shares or "equal", fractions)
    objects = replace(documents.objects, topologies=documents.topologies)
    population = population_of(objects, documents.written, rules, use)
    outlook = outlook_of(population)
    options = {"--users-by": users_by, "--prometheus": prometheus}
    again = _again(files) + "".join(
        f" {name} {quote(each)}" for name, each in options.items() if each
    )
    return FirstLook(
        users_by=rules.users_by,
        shares=rules.shares,
        unit=population.unit,
        cores=population.cores,
        nodes=len(population.nodes),
        pods=len(population.pods),
        fractions=outlook.fractions,
        pods_with_known_use=sum(pod.used is not None for pod in population.pods),
        use_from=use.source,
        users=outlook.users,
        loans=outlook.loans,
        jobs=outlook.jobs,
        next=tuple(_next(again, outlook, rules.shares)),
        notes=(*population.notes, *_unmatched(given, population), *use.missing),
    )


def _unmatched(given: Iterable[str], population: Population) -> Iterator[str]:
    """Yield which names in a file of speedups are those of no job and no namespace."""
    jobs = {each.title for each in population.jobs}
    namespaces = {each.namespace for each in population.jobs}
    if names := unknown(given, jobs | namespaces):
        yield f"--speedups names no job and no namespace that has pods: {names}"


def _again(files: Sequence[str]) -> str:
    """Return the command line that looks again."""
    command = " ".join(["walras what-if", *(f"-f {quote(each)}" for each in files)])
    return f"kubectl get nodes,pods,ns -A -o yaml | {command}" if "-" in files else command


def _next(again: str, outlook: Outlook, shares: Shares) -> Iterator[str]:
    """Yield the three commands that come next."""
    other = "requests" if shares == "equal" else "equal"
    yield f"{again} --shares {other}    # other shares"
    if outlook.fractions.known_jobs < len(outlook.jobs):
        job = outlook.jobs[0]
        yield f"{again} --speedups FILE    # lines such as {job.namespace}/{job.name}: 0.93"
    else:
        yield f"{again} -o json    # all users and jobs"
    yield INSTALL
