"""Facts: the first look at a cluster that has never heard of Walras, from its documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras_cli.what_if.first_look.outlook import outlook_of
from walras_cli.what_if.first_look.page import FirstLookPage
from walras_cli.what_if.first_look.population import Rules, population_of
from walras_cli.what_if.first_look.speedups import fractions_in, fractions_of
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from walras_cli.what_if.documents import Documents
    from walras_cli.what_if.first_look.population import Shares
    from walras_view.facts import Use


def first_look(
    documents: Documents,
    use: Use,
    users_by: str | None,
    shares: Shares | None,
    speedups: Path | None,
    prometheus: str | None,
    again: str,
) -> FirstLookPage:
    """Return the page about a cluster without MarketJobs.

    Args:
        documents: Its objects.
        use: What its pods use, as far as that is known.
        users_by: Who is a user; None for namespaces.
        shares: Source of users' shares; None for equal ones.
        speedups: File of parallel fractions; None for none.
        prometheus: URL of a Prometheus that knows what pods use; None for none.
        again: Command line that makes the page.

    Raises:
        BadInput: The documents are not those of a cluster, or an option is wrong.
        Failure: Prometheus cannot be asked.
    """
    if not documents.objects.nodes:
        raise BadInput(
            "the cluster has no Node; make the file by `kubectl get nodes,pods,ns -A -o yaml`"
        )
    fractions = fractions_of(documents.objects.profiles)
    if speedups is not None:
        fractions |= fractions_in(speedups)
    rules = Rules(users_by or "namespace", shares or "equal", fractions)
    if prometheus is not None:
        from walras_cli.cluster.prometheus import Prometheus

        use = replace(use, pods=Prometheus.at(prometheus).use_of_pods(), missing=())
    population = population_of(documents.objects, documents.written, rules, use)
    options = {"--users-by": users_by, "--prometheus": prometheus}
    given = "".join(f" {name} {value}" for name, value in options.items() if value)
    return FirstLookPage(outlook_of(population), rules, f"{again}{given}", use.missing)
