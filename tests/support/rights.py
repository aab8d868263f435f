"""Rights of the operator and the agent on an API server, with which tests on a real one run.

The chart's roles are compared with these, so that what is installed is what was tested.
"""

from __future__ import annotations

from walras_operator.decide.workload_owners import READABLE_KINDS

Rule = dict[str, list[str]]

OPERATOR_RULES: list[Rule] = [
    {
        "apiGroups": ["walras.dev"],
        "resources": [
            "entitlements",
            "marketjobs",
            "markets",
            "nodeallocations",
            "speedupprofiles",
        ],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["walras.dev"],
        "resources": ["nodeallocations"],
        "verbs": ["create", "patch"],
    },
    {"apiGroups": ["walras.dev"], "resources": ["speedupprofiles"], "verbs": ["create"]},
    {
        "apiGroups": ["walras.dev"],
        "resources": ["marketjobs"],
        "verbs": ["create", "delete", "patch"],
    },
    {
        "apiGroups": ["walras.dev"],
        "resources": [
            "entitlements/status",
            "marketjobs/status",
            "markets/status",
            "speedupprofiles/status",
        ],
        "verbs": ["patch"],
    },
    {"apiGroups": [""], "resources": ["namespaces", "nodes", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "watch"]},
    {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "statefulsets"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
    *(
        {
            "apiGroups": [group],
            "resources": [f"{kind.lower()}s" for kind in sorted(kinds)],
            "verbs": ["get"],
        }
        for group, kinds in READABLE_KINDS.items()
    ),
]
"""Rights of the operator in the whole cluster."""

PLACING_RULES: list[Rule] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
]
"""Rights of the operator in the whole cluster where it places pods."""

FOLLOWING_RULES: list[Rule] = [
    {
        "apiGroups": ["walras.dev"],
        "resources": ["entitlements"],
        "verbs": ["create", "delete", "divide", "patch"],
    }
]
"""Rights of the operator in the whole cluster where Entitlements follow quotas."""

QUOTA_RULES: dict[str, list[Rule]] = {
    "Kueue": [
        {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["clusterqueues", "cohorts", "localqueues", "workloads"],
            "verbs": ["list", "watch"],
        }
    ],
    "ResourceQuota": [
        {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list", "watch"]}
    ],
}
"""The same to read quotas, by what Entitlements follow."""

OPERATOR_OWN_RULES: list[Rule] = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["walras-operator"],
        "verbs": ["get", "update"],
    },
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["create", "delete", "get", "list", "update"],
    },
]
"""Rights of the operator in its own namespace."""

AGENT_RULES: list[Rule] = [
    {"apiGroups": ["walras.dev"], "resources": ["nodeallocations"], "verbs": ["list", "watch"]},
    {"apiGroups": ["walras.dev"], "resources": ["nodeallocations/status"], "verbs": ["patch"]},
]
"""Rights of an agent in the whole cluster; docs/agent.md lists them too."""

AGENT_LEASE_RULES: list[Rule] = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch"]}
]
"""Rights of an agent in its own namespace."""
