"""A status of every kind in which every field is set, made by the models."""

from __future__ import annotations

from walras.resources import node_status as node
from walras.resources import statuses as told
from walras.resources.status import Condition, Status, decimals

NOW = "2026-01-31T12:00:00Z"
READY = [
    Condition(
        type="Ready",
        status="True",
        reason="Cleared",
        message="all is well",
        last_transition_time=NOW,
        observed_generation=3,
    )
]

ENTITLEMENT = told.EntitlementStatus(
    conditions=READY,
    budget_share=decimals(2 / 3),
    jobs=2,
    pods=5,
    cores=told.EntitledCores(entitled="8", allocated="7.25", held="7"),
    memory=told.EntitledMemory(entitled="1024", demand="4096", allocated="2048"),
    utility=told.Utility(now="3.1", at_entitlement="2.9"),
    credits=told.Credits(
        quantum=7,
        balance="1000000000000.25",
        earned="3.5",
        spent="6",
        lent=[told.Loan(entitlement="speech-lab", memory="1024")],
        borrowed=[told.Loan(entitlement="speech-lab", memory="2048")],
    ),
    spend_by_node=[told.NodeSpend(node="n1", spend="1.5", cores="2")],
    other_nodes=12,
    other_spend="0.75",
)

MARKET_JOB = told.MarketJobStatus(
    conditions=READY,
    profile=told.UsedProfile(parallel_fraction="0.93", source="Measured", name="train"),
    counts=told.PodCounts(total=3, granted=2, enforced=1, unlisted=2),
    cores="3.5",
    speedup="2.4",
    spend="3.25",
    auction=told.AuctionReport(
        budget="4",
        utility="0.6",
        minimum="0.5",
        service="Bid",
        charge="4",
        weights=told.WeightsReport(
            source="Estimated",
            runs=5,
            recorded=1,
            cores=told.WeightReport(value="1.7", lower="1.5", upper="1.9"),
            memory=told.WeightReport(value="0.3", lower="0", upper="0.6"),
        ),
    ),
    runs=told.RunsReport(
        finished=[
            told.FinishedRun(
                pod_uid="u-0",
                pod="train-0",
                finished=NOW,
                seconds=320,
                held_seconds=300,
                cores="0.4375",
                memory="0.25",
                utility="0.003125",
            )
        ],
        underway=[
            told.RunUnderway(
                pod_uid="u-1",
                pod="train-0",
                held_since=NOW,
                cores=437500000,
                memory=250000000,
                held_seconds=60,
                core_seconds="30000000000",
                memory_seconds="15000000000",
            )
        ],
    ),
    pods=[
        told.PodOutcome(
            pod_uid="u-1",
            name="train-0",
            node="n1",
            state="Enforced",
            cores="3.2",
            granted_cores=3,
            shared_cores=0,
            weight=100,
            memory="1024",
            speedup="2.4",
            price="1.05",
            spend="3.36",
            reason="3.36 of vision-lab's budget of 8.00 buys 3.20 cores at 1.050 each",
            memory_reason="all that it can use",
            colocation=told.PodColocation(
                partner="vision/index (index-0)",
                predicted_penalty="0.12",
                measured_penalty="0.12",
                recommendation="BreakAway",
                companion="vision/serve (serve-0)",
                gain="0.05",
            ),
        )
    ],
)

SPEEDUP_PROFILE = told.SpeedupProfileStatus(
    conditions=READY,
    source="Online",
    parallel_fraction="0.93",
    whole_data_parallel_fraction="0.94",
    raw_parallel_fraction="0.931",
    variance="0.0001",
    parallel_fraction_by_cores=[told.FractionAt(cores=2, value="0.93")],
    time_models=[
        told.TimeModel(cores=1, form="linear", coefficients=["-0.5", "2"], residual_seconds="0.01")
    ],
    memory_bandwidth="11.5",
    penalties=[
        told.MeasuredPenalty(
            profile="serve",
            namespace="web",
            penalty="0.1",
            source="instructions",
            looks=2,
            finished=NOW,
        )
    ],
    online=told.OnlineProfile(
        request=told.OnlineRequest(
            id="train-20260131120000",
            pod="train-1",
            pod_uid="u1",
            node="n2",
            purpose="Progress",
            since=NOW,
            until=NOW,
        ),
        measurements=[
            told.OnlineMeasurement(
                id="train-20260131110000",
                pod="train-0",
                pod_uid="u0",
                node="n1",
                finished=NOW,
                source="instructions",
                samples=[told.OnlineSample(cores=1, seconds="2.000104", progress="123456789")],
                memory_bandwidth="11.5",
                warnings=["waiting in a loop counts as work"],
            )
        ],
        failure=told.OnlineFailure(reason="PodLeft", message="it left", times=2, finished=NOW),
        look_failure=told.OnlineFailure(
            reason="NoAnswer", message="nobody said", times=1, finished=NOW
        ),
        check=told.OnlineCheck(
            pod="train-0", cores=4, finished=NOW, departure="-0.3", departures=1
        ),
        companies=[
            told.OnlineCompany(
                profile="serve", namespace="web", ratio="0.9", looks=2, finished=NOW
            ),
        ],
    ),
    findings=[told.Finding(code="FewRepeats", message="one repeat")],
)

MARKET = told.MarketStatus(
    conditions=READY,
    leader="walras-operator-0",
    epoch=told.EpochReport(number=41, time=NOW, duration_milliseconds=12),
    solver=told.SolverReport(
        mechanism="AmdahlBidding",
        solver="alternation",
        iterations=9,
        residual=decimals(1.25e-11),
        price_error=decimals(3e-12),
        converged=True,
    ),
    scores=told.ScoreReport(
        system_progress="2.31",
        held_progress="2.27",
        proportional_progress="2.02",
        entitlement_error="0.11",
        uniformity="0.9",
        envy_freeness="0.99",
    ),
    size=told.MarketSize(
        entitlements=2, jobs=3, pods=4, refused=1, nodes=5, cores=240, memory="1024"
    ),
    prices=[told.NodePrice(node="n1", cores=48, price="1.0502")],
    memory_mechanism="Karma",
    ledger=told.LedgerReport(
        version=1,
        quantum=7,
        since=NOW,
        carry="0",
        carry_before="0.5",
        balances=[told.Balance(user="vision-lab", credits="1000000000000.25", gained="-2.5")],
    ),
)

NODE_ALLOCATION = node.NodeAllocationStatus(
    epoch=41,
    enforced_epoch=40,
    mode="observe",
    topology=node.NodeTopology(
        cpus="0-7", cores=4, threads=8, sockets=1, numa_nodes=1, reserved="0", memory="1024"
    ),
    shared_cpus="4-7",
    pods=[
        node.PodHolding(
            pod_uid="u-1",
            namespace="vision",
            name="train-0",
            cpus="1-3",
            memory="1024",
            memory_demand="2048",
            state="Pending",
            reason="its memory is on its way down",
        )
    ],
    would_write=[node.PlannedWrite(file="/sys/fs/cgroup/a/cpuset.cpus", value="1-3")],
    profiling=node.ProfilingStatus(
        id="m",
        pod_uid="u-1",
        state="Running",
        reason="first sample",
        source="http",
        warnings=["one"],
        samples=[node.ProfilingSample(cores=1, seconds="2", progress="5")],
        planned=3,
        fractions=[node.MeasuredFraction(cores=2, fraction="0.9")],
        mean="0.9",
        variance="0",
        memory_bandwidth="3.5",
    ),
    conditions=[
        node.Condition(
            type="PlanAccepted",
            status="True",
            reason="Taken",
            message="the plan of epoch 41 is in force",
            last_transition_time=NOW,
            observed_generation=2,
        )
    ],
)

FULL: dict[str, Status] = {
    "Entitlement": ENTITLEMENT,
    "MarketJob": MARKET_JOB,
    "SpeedupProfile": SPEEDUP_PROFILE,
    "Market": MARKET,
    "NodeAllocation": NODE_ALLOCATION,
}
