"""The account: what users owe each other, and how budgets pay it back.

Users take more than their part where the market allows it: a user with a budget lends it while it
has no jobs, and pods keep what they requested although their user's budget cannot pay for it. The
account remembers. An entitlement's *balance* c_i is the core-hours that others owe it, negative if
it owes; older ones count less:

    dc_i / dt = r_i - (ln 2 / H) c_i

H is the half-life, and the rates r_i add up to zero: what one earns, others pay. Fading takes the
same part of every balance, so balances add up to zero, too. They are whole millionths of a
core-hour, and so add up exactly. No number of nodes and no share changes a balance.

**Repayment.** The *level* of an entitlement is its balance, with the balances of all below it, in
units of l_i = e_i H / ln 2: what it would reach if it always lent the e_i cores that its share is
worth among all entitlements. Siblings with jobs below them divide their parent's budget in
proportion to

    s_i (1 - beta')^(-z_i / 2)

with s_i the shares, and z_i the level times `STEEPNESS`, at least -1 and at most 1. At the top,
beta' is beta. Below an entitlement whose budget is the fraction f of that by shares alone, it is
the smaller of beta and 1 - (1 - beta) / f. So no budget is below 1 - beta of that by shares.

**What is left of sharing incentives.** A market gives each user at least the utility of its part of
every node by budget (V-C of the Amdahl paper). With a budget of at least (1 - beta) s_i, and since
a utility u in cores is concave with u(0) = 0, this is at least u((1 - beta) y) >= (1 - beta) u(y),
where y is its part by shares. So the account costs no user more than the part beta of its bare
entitlement's utility, whatever the balances are.

**Lending** counts if the policy says so. A user borrows if it pays more, and buys more, than it is
entitled to; it lends if it pays and holds less, as long as others borrow that:

    b_i = max(0, min(p_i, x_i) - e_i)    a_i = max(0, e_i - max(p_i, x_i))
    r_i = a_i T / sum(a) - b_i T / sum(b)    with T = min(sum(a), sum(b))

where x_i are the cores that i buys, and p_i is what it pays for them, in cores at the average
price of those that are bought; if it is sated (`amdahl.satiation`), what it would pay for all that
its jobs can use, at most its budget. Cores that nobody uses earn nothing, and neither does money
that its user leaves unspent. What a user says about speedups earns it nothing: a_i is at most
e_i - p_i, and p_i depends on its budget alone, as long as its jobs can use more cores. While a user
hides all of its jobs, it has none of the utility that it could have, at least that of its bare
entitlement; for that, its later budgets are larger by a factor of up to 1 / (1 - beta), until it
has borrowed what it lent or the balance has faded.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from walras.market.admission import divide_by_shares, leaves_of
from walras.market.balances import Balance, level, parents_first, settled_among_others, shared_out

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from walras.market.snapshot import Entitlement, Policy
    from walras.mechanisms.karma.ledger import Ledger
    from walras.numerics.arrays import Floats

STEEPNESS = 4.0
"""Levels from -1 / STEEPNESS to 1 / STEEPNESS change budgets, by up to the most allowed."""


def taken_over(
    account: Mapping[str, Balance],
    entitlements: Sequence[Entitlement],
    unusable: Collection[str] = (),
) -> dict[str, Balance]:
    """Return the account of today's entitlements, sorted: balances belong to the whole subtree.

    Entitlements that have left, or have children now, pass their balance on to the entitlements
    below them or below their nearest ancestor, in proportion to shares; at the top of the tree, it
    is settled with those whose balance has the other sign. A new entitlement takes its part of the
    balances below its nearest ancestor. So no new child sheds a debt of its parent.

    Args:
        account: Balances that sum to zero.
        entitlements: All entitlements that form the tree.
        unusable: Names of entitlements that exist but take no part; they keep their balances.
    """
    there = {each.name: each.parent for each in entitlements}
    kept = {name: account[name].parent for name in unusable if name in account}
    parents = {name: _nearest(name, account, {**there, **kept}) for name in kept} | there
    if account.keys() == parents.keys() and all(
        each.parent == parents[name] for name, each in account.items()
    ):
        return dict(account)
    owed = {name: each.owed for name, each in sorted(account.items())}
    if any(owed.values()):
        _Succession(account, entitlements, parents).settle(owed)
    settled = settled_among_others({name: owed.get(name, 0) for name in sorted(parents)})
    return {
        name: account.get(name, Balance())._replace(owed=each, parent=parents[name])
        for name, each in settled.items()
    }


def _nearest(
    name: str, account: Mapping[str, Balance], there: Mapping[str, str | None]
) -> str | None:
    """Return the nearest entitlement above one that is still there, by what the account knows."""
    seen = {name}
    above = account[name].parent
    while above is not None and above not in there and above not in seen:
        seen.add(above)
        above = account[above].parent if above in account else None
    return above if above in there else None


def credits_taken_over(
    ledger: Ledger,
    account: Mapping[str, Balance],
    entitlements: Sequence[Entitlement],
    unusable: Collection[str] = (),
) -> Ledger:
    """Return Karma's ledger of today's entitlements without children, the mean balance unchanged.

    What a balance is above or below the mean belongs to the subtree, as `taken_over` says.

    Args:
        ledger: Ledger of the entitlements at the last quantum.
        account: Account at the last decision, which knows the parents that entitlements had.
        entitlements: All entitlements that form the tree.
        unusable: Names of entitlements that exist but take no part; they keep their balances.
    """
    stay = {*leaves_of(entitlements), *unusable}
    if not ledger.users or stay == set(ledger.users):
        return ledger
    mean = ledger.mean()
    parents = {name: each.parent for name, each in account.items()}
    former = {
        user: Balance(balance - mean, parent=parents.get(user))
        for user, balance in zip(ledger.users, ledger.balances.tolist(), strict=True)
    }
    for name, parent in parents.items():  # ancestors that have gone lead to those that are there
        former.setdefault(name, Balance(parent=parent))
    after = taken_over(former, entitlements, unusable)
    return ledger.shared_by(
        [user for user in ledger.users if user in stay]
        + [name for name in after if name in stay and name not in ledger.users]
    ).at({name: mean + each.owed for name, each in after.items()})


class _Succession:
    """Who takes over balances: entitlements that are new, and the relatives of those that left."""

    def __init__(
        self,
        account: Mapping[str, Balance],
        entitlements: Sequence[Entitlement],
        parents: Mapping[str, str | None],
    ) -> None:
        self._former = {name: each.parent for name, each in account.items()}
        self._parents = parents
        self._tree = {each.name for each in entitlements}
        self._leaves = sorted(leaves_of(entitlements))
        self._parts = divide_by_shares(entitlements, self._leaves)
        self._children: defaultdict[str | None, list[str]] = defaultdict(list)
        for each in entitlements:
            self._children[each.parent].append(each.name)

    def settle(self, owed: dict[str, int]) -> None:
        """Move balances to leaves; those of entitlements without relatives are dropped."""
        self._inherit(owed)
        for name in [name for name, each in owed.items() if each]:
            if name not in self._parts and (name not in self._parents or self._children[name]):
                self._pass_on(name, owed)

    def _inherit(self, owed: dict[str, int]) -> None:
        """Give new leaves their part of what those have that their nearest ancestor has now.

        An ancestor that was a leaf has passed its own balance on to them: no other is theirs.
        """
        old = [leaf for leaf in self._leaves if leaf in owed]
        with_old: set[str] = set()
        for leaf in old:
            for ancestor in self._up(leaf):
                if ancestor in with_old:
                    break
                with_old.add(ancestor)
        heirs_of: defaultdict[str, list[str]] = defaultdict(list)
        for leaf in self._leaves:
            for ancestor in () if leaf in owed else self._up(leaf):
                if ancestor in with_old:
                    heirs_of[ancestor].append(leaf)
                    break
                if ancestor in self._former:
                    break
        for ancestor in sorted(heirs_of, key=lambda each: (-len(list(self._up(each))), each)):
            self._divide(ancestor, heirs_of[ancestor], owed)

    def _divide(self, ancestor: str, heirs: Sequence[str], owed: dict[str, int]) -> None:
        relatives = [name for name in self._below(ancestor) if name in owed]
        mine = [self._parts[name] for name in heirs]
        theirs = math.fsum(self._parts[name] for name in relatives)
        remain = theirs / (theirs + math.fsum(mine))
        total = sum(owed[name] for name in relatives)
        for name in relatives:
            owed[name] = round(owed[name] * remain)
        rest = total - sum(owed[name] for name in relatives)
        owed.update(zip(heirs, shared_out(rest, mine), strict=True))

    def _pass_on(self, name: str, owed: dict[str, int]) -> None:
        """Divide the balance of an entitlement that is no leaf among its nearest relatives."""
        takers = (self._below(each) or self._unusable(each) for each in (name, *self._up(name)))
        heirs = next(filter(None, takers), [])
        amount = owed.pop(name)
        parts = shared_out(amount, [self._parts.get(heir, 1.0) for heir in heirs])
        for heir, part in zip(heirs, parts, strict=True):
            owed[heir] = owed.get(heir, 0) + part

    def _unusable(self, name: str) -> list[str]:
        """Return an entitlement that exists but takes no part, as the only heir; else nothing."""
        return [name] if name in self._parents and name not in self._tree else []

    def _up(self, name: str) -> Iterator[str]:
        """Yield the entitlements above one, the nearest first, as they are or were."""
        seen = {name}
        while True:
            above = self._parents[name] if name in self._parents else self._former.get(name)
            if above is None or above in seen:
                return
            yield above
            seen.add(above)
            name = above

    def _below(self, name: str) -> list[str]:
        """Return the leaves below an entitlement, sorted; itself if it is one."""
        leaves, pending = [], [name]
        while pending:
            each = pending.pop()
            if each in self._parts:
                leaves.append(each)
            pending += self._children[each]
        return sorted(leaves)


def tilts(
    account: Mapping[str, Balance],
    entitlements: Sequence[Entitlement],
    cores: float,
    policy: Policy,
) -> dict[str, float]:
    """Return by how much each budget differs from that by shares, from -1 to 1, by entitlement.

    Entitlements with children have the sum of all balances below them.

    Args:
        account: Balances of entitlements without children.
        entitlements: All entitlements that form the tree.
        cores: Cores for sale.
        policy: Policy with the half-life of balances.
    """
    leaves = sorted(leaves_of(entitlements))
    part: defaultdict[str | None, float] = defaultdict(float)
    part.update(divide_by_shares(entitlements, leaves))
    owed: defaultdict[str | None, int] = defaultdict(int)
    owed.update({leaf: account[leaf].owed for leaf in leaves if leaf in account})
    parents = {each.name: each.parent for each in entitlements}
    for name, each in sorted(account.items()):
        if name not in parents:  # it takes no part, but its relatives answer for it
            owed[_nearest(name, account, parents)] += each.owed
    for name in reversed(parents_first(parents)):
        part[parents[name]] += part[name]
        owed[parents[name]] += owed[name]
    steep = {
        name: STEEPNESS * level(owed[name], part[name] * cores, policy.core_half_life)
        for name in parents
    }
    return {name: max(-1.0, min(each, 1.0)) for name, each in steep.items()}


def lending(entitled: Floats, paid: Floats, bought: Floats) -> Floats:
    """Return the cores that each entitlement lends, negative if it borrows; they add up to zero.

    Args:
        entitled: Cores that shares are worth, if all entitlements count, shape (n,).
        paid: Amount that each pays, in cores at the average price of those bought; 0 without jobs.
        bought: Cores that each buys; 0 without jobs.
    """
    return transferred(
        np.maximum(entitled - np.maximum(paid, bought), 0.0),
        np.maximum(np.minimum(paid, bought) - entitled, 0.0),
    )


def repayment(by_shares: Floats, budgets: Floats, spent: Floats) -> Floats:
    """Return the cores by which budgets pay back debts, negative for creditors; the sum is zero.

    Args:
        by_shares: Budgets by shares alone, in cores, shape (n,).
        budgets: Budgets, which are smaller for debtors and larger for creditors.
        spent: Parts of the budgets that are spent.
    """
    taken = np.maximum(np.minimum(spent, budgets) - by_shares, 0.0)
    # Who leaves a part of its budget unspent does without as small a part of what it owes.
    given = np.maximum(by_shares - budgets, 0.0) * np.minimum(spent / budgets, 1.0)
    return transferred(given, taken)


def transferred(given: Floats, taken: Floats) -> Floats:
    """Return what each gives, less what it takes, as far as there is another side for it.

    Args:
        given: Cores that each leaves to others, shape (n,).
        taken: Cores that each has from others, shape (n,).
    """
    total = min(float(given.sum()), float(taken.sum()))
    if total <= 0:
        return np.zeros(len(given))
    return np.asarray(given * (total / given.sum()) - taken * (total / taken.sum()))
