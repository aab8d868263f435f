"""A status of every kind in which every field is set, made by the models."""

from __future__ import annotations

from walras_api import entitlement, market, market_job, speedup_profile
from walras_api import node_allocation as node
from walras_api.status import Condition, Status, decimals

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

ENTITLEMENT = entitlement.EntitlementStatus(
    conditions=READY,
    budget_share=decimals(2 / 3),
    jobs=2,
    pods=5,
    cores=entitlement.EntitledCores(entitled="8", allocated="7.25", held="7.2"),
    memory=entitlement.EntitledMemory(entitled="1024", demand="4096", allocated="2048"),
    utility=entitlement.Utility(now="3.1", bought="3.2", at_entitlement="2.9"),
    core_credits=entitlement.CoreCredits(
        core_hours="38.25", level="0.21", cores="0.5", budget_factor="1.12"
    ),
    credits=entitlement.Credits(
        quantum=7,
        balance="1000000000000.25",
        earned="3.5",
        spent="6",
        lent=[entitlement.Loan(entitlement="speech-lab", memory="1024")],
        borrowed=[entitlement.Loan(entitlement="speech-lab", memory="2048")],
    ),
    spend_by_node=[entitlement.NodeSpend(node="n1", spend="1.5", cores="2")],
    other_nodes=12,
    other_spend="0.75",
)

MARKET_JOB = market_job.MarketJobStatus(
    workload="auto (Job/train)",
    conditions=READY,
    profile=market_job.UsedProfile(parallel_fraction="0.93", source="Measured", name="train"),
    counts=market_job.PodCounts(total=3, granted=2, enforced=1, unlisted=2),
    cores="3.5",
    speedup="2.4",
    spend="3.25",
    auction=market_job.AuctionReport(
        budget="4",
        utility="0.6",
        minimum="0.5",
        service="Bid",
        charge="4",
        weights=market_job.WeightsReport(
            source="Estimated",
            runs=5,
            recorded=1,
            cause="TooFew",
            cores=market_job.WeightReport(value="1.7", lower="1.5", upper="1.9"),
            memory=market_job.WeightReport(value="0.3", lower="0", upper="0.6"),
        ),
    ),
    runs=market_job.RunsReport(
        finished=[
            market_job.FinishedRun(
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
            market_job.RunUnderway(
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
    deadline=market_job.DeadlineReport(
        time=NOW,
        accepted=True,
        needed_cores="3.5",
        reserved_cores="3.625",
        payable_cores="3",
        work_left="36000",
        work_left_error="1200",
        expected_finish=NOW,
        earliest_finish=NOW,
        latest_finish=NOW,
        finished=NOW,
        met=True,
        pods=[
            market_job.PodWork(
                pod_uid="u-1",
                pod="train-0",
                held_since=NOW,
                millicores=4000,
                speedup="3.5",
                work="1000",
                counter="123456789",
                counted_at=NOW,
                counted_work="900",
                parts=[market_job.CountedPart(work="100", count="5000")],
                reserved_cores="3.625",
                finished=NOW,
            )
        ],
    ),
    pods=[
        market_job.PodOutcome(
            pod_uid="u-1",
            name="train-0",
            node="n1",
            state="Enforced",
            cores="3.2",
            held_cores="3.2",
            memory="1024",
            speedup="2.4",
            price="1.05",
            spend="3.36",
            reason="3.36 of vision-lab's budget of 8.00 buys 3.20 cores at 1.050 each",
            memory_reason="all that it can use",
            colocation=market_job.PodColocation(
                partner="vision/index (index-0)",
                predicted_penalty="0.12",
                measured_penalty="0.12",
                recommendation="BreakAway",
                companion="vision/serve (serve-0)",
                gain="0.05",
                exploration="0.004",
            ),
        )
    ],
)

SPEEDUP_PROFILE = speedup_profile.SpeedupProfileStatus(
    conditions=READY,
    source="Online",
    parallel_fraction="0.93",
    whole_data_parallel_fraction="0.94",
    raw_parallel_fraction="0.931",
    variance="0.0001",
    parallel_fraction_by_cores=[speedup_profile.FractionAt(cores=2, value="0.93")],
    time_models=[
        speedup_profile.TimeModelReport(
            cores=1, form="linear", coefficients=["-0.5", "2"], residual_seconds="0.01"
        )
    ],
    memory_bandwidth="11.5",
    penalties=[
        speedup_profile.MeasuredPenalty(
            profile="serve",
            namespace="web",
            penalty="0.1",
            error="0.02",
            cores=4,
            source="instructions",
            looks=2,
            finished=NOW,
        )
    ],
    online=speedup_profile.OnlineProfile(
        request=speedup_profile.OnlineRequest(
            id="train-20260131120000",
            pod="train-1",
            pod_uid="u1",
            node="n2",
            purpose="Progress",
            since=NOW,
            until=NOW,
        ),
        measurements=[
            speedup_profile.OnlineMeasurement(
                id="train-20260131110000",
                pod="train-0",
                pod_uid="u0",
                node="n1",
                finished=NOW,
                source="instructions",
                samples=[
                    speedup_profile.OnlineSample(cores=1, seconds="2.000104", progress="123456789")
                ],
                memory_bandwidth="11.5",
                co_runners=["web/serve"],
                warnings=["waiting in a loop counts as work"],
            )
        ],
        failure=speedup_profile.OnlineFailure(
            reason="PodLeft", message="it left", times=2, finished=NOW
        ),
        look_failure=speedup_profile.OnlineFailure(
            reason="NoAnswer", message="nobody said", times=1, finished=NOW
        ),
        check=speedup_profile.OnlineCheck(
            pod="train-0", cores=4, finished=NOW, departure="-0.3", departures=1
        ),
        co_runners=[
            speedup_profile.CoRunnerProgress(
                profile="serve",
                namespace="web",
                cores=4,
                source="instructions",
                together=True,
                ratio="0.9",
                deviation="0.02",
                looks=2,
                finished=NOW,
            ),
        ],
    ),
    findings=[speedup_profile.ProfileFinding(code="FewRepeats", message="one repeat")],
)

MARKET = market.MarketStatus(
    conditions=READY,
    leader="walras-operator-0",
    operator_namespace="walras-system",
    epoch=market.EpochReport(number=41, time=NOW, duration_milliseconds=12),
    solver=market.SolverReport(
        mechanism="AmdahlBidding",
        solver="alternation",
        iterations=9,
        residual=decimals(1.25e-11),
        price_error=decimals(3e-12),
        converged=True,
    ),
    scores=market.ScoreReport(
        system_progress="2.31",
        held_progress="2.27",
        proportional_progress="2.02",
        entitlement_error="0.11",
        uniformity="0.9",
        envy_freeness="0.99",
    ),
    size=market.MarketSize(
        entitlements=2, jobs=3, pods=4, refused=1, nodes=5, cores="239.87", memory="1024"
    ),
    prices=[market.NodePrice(node="n1", cores="47.92", price="1.0502")],
    node_pools=[
        market.NodePoolReport(
            name="large",
            nodes=5,
            cores="239.87",
            price="1.0502",
            core_value="0.31",
            one_more=market.NodesEffectReport(
                progress="0.031",
                speedup="14.5",
                gaining=[market.UserChangeReport(user="vision-lab", utility="0.04", part="0.7")],
                losing=[market.UserChangeReport(user="speech-lab", utility="-0.001", part="1")],
            ),
            one_less=market.NodesEffectReport(
                progress="-0.034",
                speedup="-15.5",
                gaining=[market.UserChangeReport(user="speech-lab", utility="0.001", part="1")],
                losing=[market.UserChangeReport(user="vision-lab", utility="-0.05", part="0.7")],
            ),
            recommended_nodes=7,
            unmet_memory="1024",
            memory_value="0.25",
        )
    ],
    other_node_pools=1,
    memory_mechanism="Karma",
    account=market.AccountReport(
        since="2026-01-31T12:00:00Z",
        balances=[
            market.AccountBalance(entitlement="ann", core_hours="1.5", cores="0.25", parent="lab")
        ],
        parts=[market.LedgerPart(name="walras-ledger-0-1", digest="cd")],
    ),
    ledger=market.LedgerReport(
        version=1,
        quantum=7,
        since=NOW,
        carry="0",
        carry_before="0.5",
        balances=[
            market.CreditBalance(user="vision-lab", credits="1000000000000.25", gained="-2.5")
        ],
        parts=[market.LedgerPart(name="walras-ledger-0-0", digest="ab")],
    ),
)

NODE_ALLOCATION = node.NodeAllocationStatus(
    epoch=41,
    enforced_epoch=40,
    mode="observe",
    topology=node.NodeTopology(
        cpus="0-7",
        cores=4,
        threads=8,
        sockets=1,
        numa_nodes=1,
        reserved="0",
        memory="1024",
        layout=[node.CorePlace(socket=0, numa_node=0, cpus="0,4")],
    ),
    shared_cpus="4-7",
    pods=[
        node.GrantStatus(
            pod_uid="u-1",
            namespace="vision",
            name="train-0",
            cpus="1-3",
            sockets=[0],
            memory="1024",
            memory_demand="2048",
            state="Pending",
            reason="its memory is on its way down",
        )
    ],
    would_write=[node.PlannedWrite(file="/sys/fs/cgroup/a/cpuset.cpus", value="1-3")],
    counters=[
        node.CounterReading(pod_uid="u-1", value="12", time=NOW, problem="it does not answer")
    ],
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
        node.NodeAllocationCondition(
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
